"""The application: a table of routes, and the layers around them.

Envelope (names, errors, counts, log) ─> Access (Host, Origin, key) ─> routes
"""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from functools import partial
from http import HTTPStatus
from typing import Any

from pydantic import BaseModel
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route, Router
from starlette.types import ASGIApp, Receive, Scope, Send

from glassformer.serve.api import own_routes, predictions, replies, requests
from glassformer.serve.api.access import Access
from glassformer.serve.api.chat import chat
from glassformer.serve.api.completions import completions
from glassformer.serve.api.envelope import Envelope
from glassformer.serve.api.problems import ApiError, AsciiResponse
from glassformer.serve.api.service import Service, schema_of

Handler = Callable[[Service, Request], Awaitable[Any]]


@dataclass(frozen=True)
class Endpoint:
    """A route with what it reads (None: nothing) and what it answers (None: text)."""

    method: str
    path: str
    handler: Handler
    about: str
    request: type[BaseModel] | None = None
    reply: type[BaseModel] | None = None
    streams: bool = False

    @property
    def schema(self) -> dict[str, Any]:
        """The operation in OpenAPI's form."""
        failure = _json(replies.Failure)
        found: dict[str, Any] = {"summary": self.about, "operationId": self.handler.__name__}
        if self.handler is own_routes.readyz:
            found["operationId"] = self.path.strip("/")
        content = {"text/plain": {"schema": {"type": "string"}}}
        if self.reply is not None:
            content = _json(self.reply)
        if self.streams:
            content |= {"text/event-stream": {"schema": {"type": "string"}}}
        found["responses"] = {
            "200": {"description": "The answer.", "content": content},
            "default": {"description": "An error.", "content": failure},
        }
        if self.request is not None:
            body = _json(self.request)
            found["requestBody"] = {"required": True, "content": body}
        if "{id}" in self.path:
            found["parameters"] = [
                {"name": "id", "in": "path", "required": True, "schema": {"type": "string"}}
            ]
        return found


async def openapi(service: Service, request: Request) -> Response:
    """GET /openapi.json."""
    return AsciiResponse(description())


ENDPOINTS = (
    Endpoint("GET", "/v1/models", own_routes.models, "The models.", None, replies.Models),
    Endpoint("GET", "/v1/models/{id}", own_routes.model, "A model.", None, replies.Model),
    Endpoint(
        "POST",
        "/v1/completions",
        completions,
        "Text behind a prompt.",
        requests.CompletionRequest,
        replies.Completion,
        True,
    ),
    Endpoint(
        "POST",
        "/v1/chat/completions",
        chat,
        "The assistant's next message.",
        requests.ChatRequest,
        replies.ChatCompletion,
        True,
    ),
    Endpoint(
        "POST",
        "/v1/embeddings",
        predictions.embeddings,
        "Vectors of texts.",
        requests.EmbeddingRequest,
        replies.Embeddings,
    ),
    Endpoint(
        "POST",
        "/v1/translate",
        predictions.translate,
        "Targets of texts.",
        requests.TranslateRequest,
        replies.Predictions,
    ),
    Endpoint(
        "POST",
        "/v1/tag",
        predictions.tag,
        "A tag for each word.",
        requests.TagRequest,
        replies.Predictions,
    ),
    Endpoint(
        "POST",
        "/v1/classify",
        predictions.classify,
        "Classes of texts, images, audio, parts.",
        requests.ClassifyRequest,
        replies.Predictions,
    ),
    Endpoint(
        "POST",
        "/v1/generate",
        predictions.generate,
        "Text for texts, images and audio.",
        requests.GenerateRequest,
        replies.Predictions,
    ),
    Endpoint(
        "POST",
        "/tokenize",
        own_routes.tokenize,
        "The tokens of a text.",
        requests.TokenizeRequest,
        replies.Tokens,
    ),
    Endpoint(
        "POST",
        "/detokenize",
        own_routes.detokenize,
        "The text of tokens.",
        requests.DetokenizeRequest,
        replies.Text,
    ),
    Endpoint("GET", "/livez", own_routes.livez, "Whether it lives.", None, replies.Status),
    Endpoint("GET", "/readyz", own_routes.readyz, "Whether it accepts.", None, replies.Status),
    Endpoint("GET", "/health", own_routes.readyz, "As /readyz.", None, replies.Status),
    Endpoint("GET", "/metrics", own_routes.metrics, "Prometheus' metrics."),
    Endpoint("GET", "/openapi.json", openapi, "This description."),
)


def application(service: Service) -> ASGIApp:
    """The ASGI application of a server."""
    app: ASGIApp = Access(_Routes(service), service.rules, service.limits.headers)
    return Envelope(app, service.metrics, service.log)


class _Routes:
    """The table as an application; no route, or another method, is an ApiError."""

    def __init__(self, service: Service):
        self._router = Router(
            [
                Route(one.path, partial(_answer, service, one), methods=[one.method], name=one.path)
                for one in ENDPOINTS
            ],
            redirect_slashes=False,
        )

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        scope["app"] = self  # with it, the router raises what it would answer itself
        try:
            await self._router(scope, receive, send)
        except HTTPException as error:
            path, status = scope["path"][:100], error.status_code
            said = f"There is no route {path!r}; /openapi.json has them all."
            if status != HTTPStatus.NOT_FOUND:
                said = f"{path!r} does not answer {scope['method'][:16]!r}."
            raise ApiError(status, said, headers=error.headers) from None


async def _answer(service: Service, endpoint: Endpoint, request: Request) -> Any:
    request.scope["facts"].route = endpoint.path
    return await endpoint.handler(service, request)


def description() -> dict[str, Any]:
    """All routes in OpenAPI's form."""
    parts: dict[str, Any] = {}
    for kind in (replies.Failure, *(k for one in ENDPOINTS for k in (one.request, one.reply) if k)):
        schema = schema_of(kind)
        parts |= schema.pop("$defs", {})
        parts[kind.__name__] = schema
    paths: dict[str, Any] = {}
    for one in ENDPOINTS:
        paths.setdefault(one.path, {})[one.method.lower()] = one.schema
    return {
        "openapi": "3.1.0",
        "info": {"title": "glassformer", "version": "1"},
        "paths": paths,
        "components": {
            "schemas": parts,
            "securitySchemes": {"key": {"type": "http", "scheme": "bearer"}},
        },
        "security": [{"key": []}],
    }


def _json(kind: type[BaseModel]) -> dict[str, Any]:
    return {"application/json": {"schema": {"$ref": f"#/components/schemas/{kind.__name__}"}}}
