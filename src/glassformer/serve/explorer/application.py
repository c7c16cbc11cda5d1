"""The explorer as an ASGI application: access, files, operations.

    GET  /?token=...   sets the cookie and redirects to /
    GET  /...          a file of `static/`
    POST /api          JSON -> a safetensors file
    POST /stream       JSON -> one JSON object a line

The token of the address keeps other users of the machine out: the browser keeps it in a cookie that
scripts cannot read and other sites cannot send. An error is `{"error": "one sentence", "kind":
"ConfigError"}` with a status of 400 or above.
"""

import asyncio
import hmac
import json
import mimetypes
import secrets
from collections.abc import AsyncIterator, Callable, Generator
from concurrent.futures import Executor
from contextvars import Context
from threading import Event
from typing import Any

import torch
from starlette.datastructures import MutableHeaders
from starlette.exceptions import HTTPException
from starlette.middleware.trustedhost import TrustedHostMiddleware
from starlette.requests import ClientDisconnect, Request
from starlette.responses import FileResponse, RedirectResponse, Response, StreamingResponse
from starlette.routing import Mount, Route, Router
from starlette.staticfiles import StaticFiles
from starlette.types import Message, Receive, Scope, Send

from glassformer.core.errors import ConfigError, GlassformerError
from glassformer.serve.api.access import LOCAL, Rules
from glassformer.serve.api.admission import Admission, Limits, until_gone
from glassformer.serve.api.listener import address_of
from glassformer.serve.api.problems import ApiError, ClientGone
from glassformer.serve.explorer.handler import Explorer, problem
from glassformer.serve.explorer.page import CONTENTS, contents
from glassformer.serve.explorer.schema import PAGES, STATIC
from glassformer.serve.explorer.wire import text

LIMITS = Limits(
    body=48 << 20,  # an image or audio as text
    remedy="send a smaller file",
    deadline=float("inf"),
    drain=10.0,
    connections=128,
    keep_alive=60,
)
HEADERS = {
    "Content-Security-Policy": "default-src 'self'; script-src 'self' blob:; worker-src 'self' "
    "blob:; img-src 'self' blob: data:; connect-src 'self'; object-src 'none'; base-uri 'none'; "
    "form-action 'none'; frame-ancestors 'none'",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cache-Control": "no-cache",
}
"""Headers of every answer."""
JAVASCRIPT = "text/javascript"
mimetypes.add_type(JAVASCRIPT, ".js")  # the registry of Windows may name another


class Guard:
    """The token of a server at `host`:`port`, and the checks of its requests."""

    def __init__(self, host: str, port: int):
        self.host, self.port = host, port
        self.token = secrets.token_urlsafe(24)
        self.cookie = f"glassformer-{port}"
        """Cookies are shared by all ports of a machine, so their names must differ."""
        reached = LOCAL[0] if host in ("0.0.0.0", "::", "") else host
        self.address = f"{address_of(reached, port)}/?token={self.token}"
        """Address at which the explorer is opened, token included."""

    def check_page(self, request: Request) -> None:
        """Raise ApiError 403 for a request of another site's page, or without the cookie."""
        headers = request.headers
        own = headers.get("origin") in (None, f"http://{headers.get('host')}")
        if not own or headers.get("sec-fetch-site", "none") not in ("same-origin", "none"):
            raise ApiError(403, "A page of another site must not ask here; use the explorer's own.")
        if not self.is_token(request.cookies.get(self.cookie, "")):
            raise ApiError(
                403,
                "This browser has no token yet; open the address that `glassformer inspect` "
                "printed, then this link again.",
            )

    def is_token(self, token: str) -> bool:
        """Compare in constant time, so that timing reveals nothing of the token."""
        return hmac.compare_digest(token.encode("utf-8", "replace"), self.token.encode())


class Application:
    """The explorer's routes; `worker`, of one thread, computes."""

    def __init__(self, explorer: Explorer, guard: Guard, worker: Executor):
        self.explorer, self.guard, self.worker = explorer, guard, worker
        self.calls = Admission(LIMITS, "requests")
        routes = [
            Route("/", self._open),
            Route(f"/{CONTENTS}", lambda _: Response(contents(PAGES), media_type=JAVASCRIPT)),
            Route("/api", self._answer, methods=["POST"]),
            Route("/stream", self._stream, methods=["POST"]),
            Mount("/", StaticFiles(directory=STATIC)),
        ]
        self.app = TrustedHostMiddleware(Router(routes), Rules(guard.host).names)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """See ASGI."""
        started = False

        async def sending(message: Message) -> None:
            nonlocal started
            if message["type"] == "http.response.start":
                started = True
                MutableHeaders(scope=message).update(HEADERS)
            await send(message)

        try:
            with self.calls.admit(1) as call:
                await call.limited(self.app(scope, receive, sending))
        except (ClientGone, ClientDisconnect):
            pass
        except Exception as error:  # noqa: BLE001 - nothing above this could answer
            if started:
                raise ConnectionAbortedError from None  # a cut reply is no whole one
            await _failure(error)(scope, receive, sending)

    async def _open(self, request: Request) -> Response:
        token = request.query_params.get("token")
        if token is None:
            return FileResponse(STATIC / "index.html")
        if not self.guard.is_token(token):
            raise ApiError(403, "The token is not the one that was printed; open that address.")
        response = RedirectResponse("/", 303)
        response.set_cookie(self.guard.cookie, token, httponly=True, samesite="strict")
        return response

    async def _read(self, request: Request) -> Any:
        """The value of a request's body; ApiError, ConfigError: it has none, or is not allowed."""
        self.guard.check_page(request)
        size = request.headers.get("content-length", "")
        if not size.isdecimal():
            raise ApiError(411, "The request must state its Content-Length.")
        if int(size) > LIMITS.body:
            raise ApiError(413, LIMITS.too_large)
        try:
            return json.loads(await request.body())
        except (ValueError, RecursionError):
            raise ConfigError("The request is no JSON; send an object in UTF-8.") from None

    async def _compute(self, work: Callable[..., Any], *arguments: Any) -> Any:
        return await asyncio.wrap_future(self.worker.submit(_isolate, work, *arguments))

    async def _answer(self, request: Request) -> Response:
        given, left = await self._read(request), Event()
        work = self._compute(lambda: self.explorer.handle(given, left.is_set).to_bytes())
        try:
            reply = await until_gone(request.receive, work)
        finally:
            left.set()
        return Response(reply, media_type="application/octet-stream")

    async def _stream(self, request: Request) -> Response:
        given, left = await self._read(request), Event()
        items = self.explorer.stream(given, left.is_set)
        first = await self._compute(next, items, None)  # an error before it has a status
        lines = self._lines(first, items, left)
        return StreamingResponse(lines, media_type="application/x-ndjson")

    async def _lines(
        self, item: Any, items: Generator[dict[str, Any]], left: Event
    ) -> AsyncIterator[str]:
        """The items of a stream, a line for each; an error is the last line."""
        last = {"done": True}
        try:
            while item is not None:
                yield f"{text(item)}\n"
                item = await self._compute(next, items, None)
        except Exception as error:  # noqa: BLE001 - the status is sent, the error is a line
            last = problem(error)
        finally:
            left.set()
            self.worker.submit(items.close)
        yield f"{text(last)}\n"


def _isolate(work: Callable[..., Any], *arguments: Any) -> Any:
    """Compute without the modes and tapes of a stream that waits between two items."""
    with torch.inference_mode(False), torch.enable_grad():
        return Context().run(work, *arguments)


def _failure(error: Exception) -> Response:
    """The reply of an error."""
    status, headers = 500, {}
    match error:
        case HTTPException():
            status = error.status_code
            error = ConfigError(f"{error.detail}: the explorer is at /.")
        case ApiError():
            status, headers = error.status, error.headers
        case GlassformerError():
            status = 400
    return Response(text(problem(error)), status, headers, "application/json")
