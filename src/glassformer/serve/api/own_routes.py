"""Routes of the server itself: its models, tokens, health and metrics."""

import asyncio
import time
from importlib.metadata import PackageNotFoundError, version
from typing import Any

from starlette.requests import Request
from starlette.responses import Response

from glassformer.serve.api.metrics import resident_bytes
from glassformer.serve.api.models import Served
from glassformer.serve.api.problems import ApiError, AsciiResponse
from glassformer.serve.api.requests import DetokenizeRequest, TokenizeRequest
from glassformer.serve.api.service import Service

TEXT = "text/plain; version=0.0.4; charset=utf-8"
SILENT = 300.0
"""Seconds after which a thread that has not come by its queue counts as stuck."""


async def models(service: Service, request: Request) -> Response:
    """GET /v1/models."""
    listed = [one.described() for one in service.registry.values()]
    return AsciiResponse({"object": "list", "data": listed})


async def model(service: Service, request: Request) -> Response:
    """GET /v1/models/{id}."""
    return AsciiResponse(service.registry.named(request.path_params["id"]).described())


async def tokenize(service: Service, request: Request) -> Response:
    """POST /tokenize."""
    asked, served = await service.read(request, TokenizeRequest, "")
    service.check_characters([asked.text])
    return AsciiResponse(await service.prepare(_tokens, served, asked.text))


def _tokens(served: Served, text: str) -> dict[str, Any]:
    tokenizer = served.run.tokenizer
    ids = tokenizer.encode(text).tolist()
    longest = served.run.model.config.max_length
    pieces = [tokenizer.piece(index) for index in ids]
    return {"tokens": ids, "pieces": pieces, "count": len(ids), "max_model_len": longest}


async def detokenize(service: Service, request: Request) -> Response:
    """POST /detokenize."""
    asked, served = await service.read(request, DetokenizeRequest, "")
    text = await service.prepare(served.run.tokenizer.decode, asked.tokens)
    return AsciiResponse({"text": text})


async def livez(service: Service, request: Request) -> Response:
    """GET /livez: the event loop answers, and the thread that computes is not stuck."""
    if not service.engine.alive or time.monotonic() - service.engine.beat > SILENT:
        raise ApiError(503, "The thread that computes does not answer; restart the server.")
    return AsciiResponse({"status": "ok"})


async def readyz(service: Service, request: Request) -> Response:
    """GET /readyz, /health: requests are accepted."""
    if not service.engine.alive or service.calls.draining:
        raise ApiError(503, "The server accepts no requests.", headers={"Retry-After": "1"})
    return AsciiResponse({"status": "ok"})


async def metrics(service: Service, request: Request) -> Response:
    """GET /metrics."""
    calls, engine, loop = service.calls, service.engine, asyncio.get_running_loop()
    before = loop.time()
    await asyncio.sleep(0)
    lag = loop.time() - before
    load = engine.load  # first: who is not counted here has given his pages back
    texts = engine.engines.counts
    hits = texts["prefix_hits"] - service.metrics.value("prefix_hits_total")
    service.metrics.count("prefix_hits_total", max(0, hits))
    gauges = {
        "in_flight": ("Requests that are being answered.", len(calls)),
        "queue_depth": ("Texts and batches that are not finished.", calls.weight),
        "engine_load": ("Of these, those in the thread that computes.", load),
        "texts_running": ("Texts that are being generated.", texts["running"]),
        "texts_waiting": ("Texts that wait for room in the cache.", texts["waiting"]),
        "cache_pages": ("Pages of keys and values.", texts["pages"]),
        "cache_pages_free": ("Of these, those that are free.", texts["pages_free"]),
        "engine_heartbeat_age_seconds": (
            "Seconds since that thread came by its queue.",
            round(time.monotonic() - engine.beat, 3),
        ),
        "loop_lag_seconds": ("Seconds of one turn of the event loop.", lag),
        "resident_bytes": ("Memory of the process alone.", resident_bytes()),
    }
    text = service.metrics.text(gauges)
    build = f'glassformer_build_info{{version="{_version()}"}} 1\n'
    return Response(f"{text}# TYPE glassformer_build_info gauge\n{build}", media_type=TEXT)


def _version() -> str:
    try:
        return version("glassformer")
    except PackageNotFoundError:
        return "unknown"
