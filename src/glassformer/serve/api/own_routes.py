"""Routes of the server itself: its models, tokens, health and metrics."""

import time
from typing import Any

from fastapi import APIRouter
from prometheus_client.exposition import CONTENT_TYPE_PLAIN_0_0_4, generate_latest
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response

from glassformer.serve.api import replies
from glassformer.serve.api.models import Served
from glassformer.serve.api.problems import ApiError, AsciiResponse
from glassformer.serve.api.requests import DetokenizeRequest, TokenizeRequest
from glassformer.serve.api.service import Serving

SILENT = 300.0
"""Seconds after which a thread that has not come by its queue counts as stuck."""
router = APIRouter()


@router.get("/v1/models", response_model=replies.Models)
async def models(service: Serving) -> Response:
    """All models."""
    listed = [one.described() for one in service.models.values()]
    return AsciiResponse({"object": "list", "data": listed})


@router.get("/v1/models/{id}", response_model=replies.Model)
async def model(id: str, request: Request, service: Serving) -> Response:
    """One model."""
    return AsciiResponse(service.find_model(request, id).described())


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
