"""The server: its application, answered at a socket, or by another server of ASGI.

CORS ─> Envelope (names, errors, counts, log) ─> names of the server ─> KeyCheck ─> routes
"""

import gc
import os
from collections.abc import Sequence
from operator import attrgetter
from pathlib import Path
from socket import socket
from typing import Any

from fastapi import Depends, FastAPI
from fastapi.exceptions import RequestValidationError
from fastapi.security import HTTPBearer
from fastapi_offline import FastAPIOffline
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.middleware.cors import CORSMiddleware
from starlette.middleware.trustedhost import TrustedHostMiddleware
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.types import ASGIApp

from glassformer import __version__
from glassformer.errors import GlassformerError
from glassformer.serve.api import generation, own_routes, predictions, replies
from glassformer.serve.api.access import VARIABLE, KeyCheck, Rules, keys_of
from glassformer.serve.api.admission import Limits
from glassformer.serve.api.answers import add_route
from glassformer.serve.api.engine_thread import EngineThread
from glassformer.serve.api.envelope import GONE, Envelope, facts_of
from glassformer.serve.api.listener import Server
from glassformer.serve.api.models import open_models
from glassformer.serve.api.problems import ClientGone, problem
from glassformer.serve.api.service import Service

FAILURE: dict[int | str, dict[str, Any]] = {
    "default": {"model": replies.Failure, "description": "An error."}
}


def application(service: Service) -> FastAPI:
    """The ASGI application of a server."""
    rules = service.rules
    app = FastAPIOffline(
        redoc_url=None,
        title="glassformer",
        version=__version__,
        redirect_slashes=False,
        generate_unique_id_function=attrgetter("name"),
        dependencies=[Depends(HTTPBearer(auto_error=False))],  # for the page of /docs
        responses=FAILURE,
        middleware=[
            Middleware(
                CORSMiddleware,
                allow_origins=rules.origins,
                allow_methods=["GET", "POST"],
                allow_headers=["authorization", "content-type", "x-request-id"],
            ),
            Middleware(Envelope, service.metrics, service.log, service.limits),
            Middleware(TrustedHostMiddleware, allowed_hosts=rules.names),
            Middleware(KeyCheck, rules),
        ],
        exception_handlers={
            ClientGone: _leave,
            GlassformerError: _fail,
            HTTPException: _fail,
            RequestValidationError: _fail,
        },
    )
    app.state.service = service
    app.include_router(own_routes.router)
    for route, row in (generation.ROUTES | predictions.ROUTES).items():
        add_route(app, route, *row)
    return app


async def _fail(request: Request, error: Exception) -> Response:
    if isinstance(error.__cause__, ClientDisconnect):  # in the middle of its request
        return await _leave(request, error)
    facts_of(request).error = error
    return problem(error).response()


async def _leave(request: Request, error: Exception) -> Response:
    return Response(status_code=GONE)


def open_service(
    folders: Sequence[str | Path],
    names: Sequence[str] = (),
    *,
    device: str = "cpu",
    quantize: str | None = None,
    compile: bool | None = None,
    threads: int | None = None,
    max_rows: int = 16,
    cache_bytes: int | None = None,
    drafts: Sequence[str] = (),
    rules: Rules | None = None,
    limits: Limits | None = None,
) -> Service:
    """The state of a server of runs.

    Without `rules`, keys are read from GLASSFORMER_API_KEY; without keys it answers only requests
    to this machine's names. ConfigError: a cache without room for a text; errors of `open_models`.
    """
    engine, paths = EngineThread(threads, max_rows, cache_bytes), [*map(Path, folders)]
    models = engine.call(open_models, paths, names, device, quantize, drafts, compile)
    for one in models.values():
        engine.check(one.run.model)
    gc.collect()
    gc.freeze()  # else a collection looks at all modules for a tenth of a second
    rules = rules or Rules(keys=keys_of(None, os.environ.get(VARIABLE)))
    return Service(models, engine, limits or Limits(), rules)


def replica(folders: Sequence[str | Path], **options: Any) -> ASGIApp:
    """The application for another server of ASGI: uvicorn's workers, a replica of Ray Serve; see
    `open_service`."""
    return application(open_service(folders, **options))


def answer(service: Service, listener: socket) -> None:
    """Answer at a socket until a signal has drained the server."""
    try:
        Server(application(service), listener, service.limits, service.calls, service.log).answer()
    finally:
        service.engine.close()
