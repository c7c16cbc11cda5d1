"""The application: routes, and the middleware around them.

CORS ─> Envelope (names, errors, counts, log) ─> names of the server ─> KeyCheck ─> routes
"""

from operator import attrgetter
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

from glassformer import __version__
from glassformer.errors import GlassformerError
from glassformer.serve.api import chat, completions, own_routes, predictions, replies
from glassformer.serve.api.access import KeyCheck
from glassformer.serve.api.envelope import GONE, Envelope, facts_of
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
    for one in (own_routes, completions, chat, predictions):
        app.include_router(one.router)
    return app


async def _fail(request: Request, error: Exception) -> Response:
    if isinstance(error.__cause__, ClientDisconnect):  # in the middle of its request
        return await _leave(request, error)
    facts_of(request).error = error
    return problem(error).response()


async def _leave(request: Request, error: Exception) -> Response:
    return Response(status_code=GONE)
