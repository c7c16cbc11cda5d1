"""The server: its application, answered at a socket, or by another server of ASGI.

CORS ─> Envelope (names, keys, errors, counts, log) ─> names of the server ─> routes
"""

import gc
import os
import time
from collections.abc import Sequence
from functools import partial
from operator import attrgetter
from pathlib import Path
from socket import socket
from typing import Any

from fastapi import APIRouter, Depends, FastAPI
from fastapi.exceptions import RequestValidationError
from fastapi.security import HTTPBearer
from fastapi_offline import FastAPIOffline
from prometheus_client.exposition import CONTENT_TYPE_PLAIN_0_0_4, generate_latest
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.middleware.cors import CORSMiddleware
from starlette.middleware.trustedhost import TrustedHostMiddleware
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Mount, Route
from starlette.types import ASGIApp

from glassformer import __version__
from glassformer.core.errors import ConfigError
from glassformer.native import compiler, fits
from glassformer.run import Run, load
from glassformer.run.drafting import NGRAM, drafts_in
from glassformer.serve.api import generation, predict, replies
from glassformer.serve.api.access import VARIABLE, Rules, keys_of
from glassformer.serve.api.admission import Limits
from glassformer.serve.api.engine_thread import EngineThread
from glassformer.serve.api.envelope import API, Door, Envelope
from glassformer.serve.api.listener import Server
from glassformer.serve.api.problems import ApiError, AsciiResponse
from glassformer.serve.api.requests import DetokenizeRequest, TokenizeRequest
from glassformer.serve.api.service import COMPLETIONS, Served, Service, Serving, add_route

SILENT = 300.0
"""Seconds after which a thread that has not read its queue counts as stuck."""
router = APIRouter()
FAILURE: dict[int | str, dict[str, Any]] = {
    "default": {"model": replies.Failure, "description": "An error."}
}


def application(service: Service, pages: ASGIApp | None = None, door: Door = API) -> FastAPI:
    """The ASGI application of a server; `pages`: answers all paths without a route,
    by the rules of `door`."""
    rules, rows = service.rules, generation.ROUTES | predict.ROUTES
    paths, own = {f"/v1/{route}" for route in rows}, set[str]()
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
            Middleware(
                Envelope,
                service.metrics,
                service.log,
                service.calls,
                rules,
                paths,
                lambda path: API if _first(path) in own else door,
            ),
            Middleware(TrustedHostMiddleware, allowed_hosts=rules.names),
        ],
        exception_handlers={HTTPException: _fail, RequestValidationError: _fail},
    )
    routes = (*router.routes, *app.routes)
    own.update(_first(one.path) for one in routes if isinstance(one, Route | Mount))
    app.state.service = service
    app.include_router(router)
    for route, row in rows.items():
        add_route(app, route, *row)
    if pages is not None:
        app.mount("/", pages)
    return app


def _first(path: str) -> str:
    """The part of a path up to its second slash."""
    return "/".join(path.split("/", 2)[:2])


async def _fail(request: Request, error: Exception) -> Response:
    raise error  # answered by the envelope


@router.get("/v1/models", response_model=replies.Models)
async def models(service: Serving) -> Response:
    """All models."""
    listed = [one.card() for one in service.models.values()]
    return AsciiResponse({"object": "list", "data": listed})


@router.get("/v1/models/{id}", response_model=replies.Model)
async def model(id: str, request: Request, service: Serving) -> Response:
    """One model."""
    return AsciiResponse(service.find_model(request, id).card())


@router.post("/tokenize", response_model=replies.Tokens)
async def tokenize(asked: TokenizeRequest, request: Request, service: Serving) -> Response:
    """The tokens of a text."""
    service.check_characters(asked.text)
    served = service.find_model(request, asked.model)
    return AsciiResponse(await service.prepare(_tokens, served, asked.text))


def _tokens(served: Served, text: str) -> dict[str, Any]:
    tokenizer = served.run.tokenizer
    ids = tokenizer.encode(text).tolist()
    longest = served.run.model.config.max_length
    pieces = [tokenizer.piece(index) for index in ids]
    return {"tokens": ids, "pieces": pieces, "count": len(ids), "max_model_len": longest}


@router.post("/detokenize", response_model=replies.Text)
async def detokenize(asked: DetokenizeRequest, request: Request, service: Serving) -> Response:
    """The text of tokens."""
    served = service.find_model(request, asked.model)
    text = await service.prepare(served.run.tokenizer.decode, asked.tokens)
    return AsciiResponse({"text": text})


@router.get("/livez", response_model=replies.Status)
async def livez(service: Serving) -> Response:
    """Whether the event loop answers, and the thread that computes is not stuck."""
    if not service.engine.alive or time.monotonic() - service.engine.beat > SILENT:
        raise ApiError(503, "The thread that computes does not answer; restart the server.")
    return AsciiResponse({"status": "ok"})


@router.get("/readyz", response_model=replies.Status)
@router.get("/health", response_model=replies.Status, name="health")
async def readyz(service: Serving) -> Response:
    """Whether requests are accepted."""
    if not service.engine.alive or service.calls.draining:
        raise ApiError(503, "The server accepts no requests.", headers={"Retry-After": "1"})
    return AsciiResponse({"status": "ok"})


@router.get("/metrics", response_class=PlainTextResponse)
async def metrics(service: Serving) -> Response:
    """Metrics for Prometheus."""
    text = generate_latest(service.metrics.registry)
    return Response(text, headers={"content-type": CONTENT_TYPE_PLAIN_0_0_4})


def open_models(
    folders: Sequence[Path],
    names: Sequence[str] = (),
    device: str = "cpu",
    quantize: str | None = None,
    drafts: Sequence[str] = (),
    compile: bool | None = None,
) -> dict[str, Served]:
    """The runs of these folders by name, some with a draft, NAME=RUN or NAME=ngram.

    `compile`: those that write decode by a compiled step; None: if there is a C compiler.
    ConfigError: more names than runs, one twice, a run that no route answers, a draft of none of
    them, or with another vocabulary; no compiler, if it was requested. Errors of `load`.
    """
    if len(names) > len(folders):
        raise ConfigError(
            f"--name was given {len(names)} times for {len(folders)} runs; give one for each run."
        )
    ids = [*names, *(folder.resolve().name for folder in folders[len(names) :])]
    drafted, found = _drafts(drafts, ids), dict[str, Served]()
    if compile is None:
        compile = compiler() is not None

    def open_run(folder: str | Path, quantize: str | None = None) -> Run:
        run = load(folder, device, quantize=quantize)
        return run.compiled() if compile and fits(run.model) else run

    for name, folder in zip(ids, folders, strict=True):
        if name in found:
            raise ConfigError(f"Two runs are named {name!r}; give each a name: --name A --name B.")
        run, draft = open_run(folder, quantize), drafted.get(name)
        if draft and COMPLETIONS not in Served(name, run).routes:
            raise ConfigError(
                f"--draft {name}={draft} is for a run that answers /v1/{COMPLETIONS}, unlike this "
                "one; leave it out."
            )
        proposes = draft if draft in (None, NGRAM) else open_run(draft)
        found[name] = Served(name, run, drafts_in(run, proposes))
        if not found[name].routes:
            raise ConfigError(
                f"{folder} is a model for {run.task.recipe.task}, which no route answers; use "
                f"`glassformer {run.task.verb}`."
            )
    return found


def _drafts(given: Sequence[str], ids: Sequence[str]) -> dict[str, str]:
    """The draft of each model that has one; ConfigError: another form, or no such model."""
    found: dict[str, str] = {}
    for text in given:
        name, _, draft = text.partition("=")
        if not draft or name not in ids:
            raise ConfigError(
                f"--draft {text!r} is no NAME=RUN or NAME=ngram with the name of a served run "
                f"({', '.join(ids)}); write it so, or leave it out."
            )
        found[name] = draft
    return found


def open_service(
    folders: Sequence[str | Path],
    names: Sequence[str] = (),
    *,
    threads: int | None = None,
    max_rows: int = 16,
    cache_bytes: int | None = None,
    rules: Rules | None = None,
    limits: Limits | None = None,
    **options: Any,
) -> Service:
    """The state of a server of runs, with the options of `EngineThread` and `open_models`.

    Without `rules`, keys are read from GLASSFORMER_API_KEY; without keys it answers only requests
    to this machine's names. ConfigError: a cache without room for a text.
    """
    engine, paths = EngineThread(threads, max_rows, cache_bytes), [*map(Path, folders)]
    models = engine.call(partial(open_models, paths, names, **options))
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
        Server(application(service), listener, service.calls, service.log).answer()
    finally:
        service.engine.close()
