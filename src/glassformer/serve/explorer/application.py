"""The explorer as an ASGI application: who may ask, its files, its operations.

    GET  /?token=...   sets the cookie and redirects to /
    GET  /...          a file of `static/`
    POST /api          JSON -> a safetensors file
    POST /stream       JSON -> one JSON object a line

An error is `{"error": "one sentence", "kind": "ConfigError"}` with a status of 400 or above.
"""

import asyncio
import hashlib
import threading
from collections.abc import AsyncIterator, Callable, Generator, Mapping
from typing import Any
from urllib.parse import parse_qs

from pydantic import TypeAdapter, ValidationError
from starlette.datastructures import MutableHeaders
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response, StreamingResponse
from starlette.types import Message, Receive, Scope, Send

from glassformer.errors import ConfigError, GlassformerError
from glassformer.serve.api.admission import Admission, Limits, until_gone
from glassformer.serve.api.problems import ApiError, ClientGone
from glassformer.serve.explorer.auth import HEADERS, Guard, single
from glassformer.serve.explorer.handler import Explorer, UnknownOp, problem
from glassformer.serve.explorer.page import find_file
from glassformer.serve.explorer.wire import text
from glassformer.serve.explorer.worker import Worker

Gone = Callable[[], bool]
LARGEST_BODY = 48 << 20
"""Bytes of a request: an image or audio as text."""
LIMITS = Limits(
    body=LARGEST_BODY,
    remedy="send a smaller file",
    queue=4 * LARGEST_BODY,
    deadline=float("inf"),
    drain=10.0,
    connections=128,
    keep_alive=60,
)
"""`queue` is in bytes: of all requests that are being read or answered."""
JSON = "application/json"
ANYTHING: TypeAdapter[Any] = TypeAdapter(Any)
OWN = {"cache-control": "no-store"}


class Application:
    """The explorer's routes; the computation is done by `worker`."""

    def __init__(self, explorer: Explorer, guard: Guard, worker: Worker):
        self.explorer, self.guard, self.worker = explorer, guard, worker
        self.calls = Admission(LIMITS, "bytes")

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
            await self._reply(scope, receive, sending)
        except (ClientGone, ClientDisconnect):
            pass
        except Exception as error:  # noqa: BLE001 - nothing above this could answer
            if started:
                raise ConnectionAbortedError from None  # a cut reply is no whole one
            await failure(error)(scope, receive, sending)

    async def _reply(self, scope: Scope, receive: Receive, send: Send) -> None:
        headers = single(scope)
        self.guard.check_host(headers)
        if scope["method"] == "POST":
            await self._op(headers, scope, receive, send)
        elif scope["method"] in ("GET", "HEAD"):
            with self.calls.admit(0) as call:
                await call.limited(self._file(headers, scope)(scope, receive, send))
        else:
            raise ApiError(501, "The explorer answers GET, HEAD and POST.")

    def _file(self, headers: Mapping[str, str], scope: Scope) -> Response:
        token = parse_qs(scope["query_string"].decode("latin-1")).get("token", [""])[0]
        if scope["path"] == "/" and token:
            self.guard.check_token(token)
            return Response(b"", 303, {"location": "/", "set-cookie": self.guard.set_cookie} | OWN)
        content, kind = find_file(scope["path"])
        if not kind:
            raise ApiError(404, "There is no such file; the explorer is at /.")
        tag = f'"{hashlib.sha256(content).hexdigest()[:20]}"'
        known = OWN | {"etag": tag, "cache-control": "no-cache"}
        if tag in headers.get("if-none-match", ""):
            return Response(b"", 304, known)
        return Response(content, 200, known, kind)

    async def _op(
        self, headers: Mapping[str, str], scope: Scope, receive: Receive, send: Send
    ) -> None:
        begin = {"/api": self._answer, "/stream": self._stream}.get(scope["path"])
        if begin is None:
            raise ApiError(404, "Requests are sent to /api and /stream.")
        self.guard.check_page(headers)
        with self.calls.admit(self._size(headers)) as call:
            body = await call.limited(Request(scope, receive).body())
            left = threading.Event()

            def gone() -> bool:
                self.worker.between()  # others have their turn
                return left.is_set()

            async def answer() -> None:
                response = await self._compute(begin, body, gone)
                await response(scope, receive, send)

            try:
                await until_gone(receive, call.limited(answer()))
            finally:
                left.set()

    def _size(self, headers: Mapping[str, str]) -> int:
        """Bytes of the body of a request; ApiError: its header fields do not say."""
        size = headers.get("content-length", "")
        if "transfer-encoding" in headers or not (size.isascii() and size.isdigit()):
            raise ApiError(411, "The request must state its Content-Length.")
        if headers.get("content-type", "").partition(";")[0].strip().lower() != JSON:
            raise ApiError(415, f"A request is sent as Content-Type: {JSON}.")
        if len(size) > 15 or int(size) > LIMITS.body:
            raise ApiError(413, LIMITS.too_large)
        return int(size)

    async def _compute(self, work: Callable[..., Any], *arguments: Any) -> Any:
        return await asyncio.wrap_future(self.worker.submit(work, *arguments))

    def _answer(self, body: bytes, gone: Callable[[], bool]) -> Response:
        reply = self.explorer.handle(parse(body), gone)
        return Response(reply.to_bytes(), 200, OWN, "application/octet-stream")

    def _stream(self, body: bytes, gone: Callable[[], bool]) -> Response:
        items = self.explorer.stream(parse(body), gone)
        lines = self._lines(next(items, None), items)  # an error before the first has a status
        return StreamingResponse(lines, 200, OWN, "application/x-ndjson")

    async def _lines(self, item: Any, items: Generator[dict[str, Any]]) -> AsyncIterator[str]:
        """The items of a stream, a line for each; an error is the last line."""
        last = {"done": True}
        try:
            while item is not None:
                yield f"{text(item)}\n"
                item = await self._compute(next, items, None)
        except Exception as error:  # noqa: BLE001 - the status is sent, the error is a line
            last = problem(error)
        finally:
            self.worker.submit(items.close)
        yield f"{text(last)}\n"


def parse(body: bytes) -> Any:
    """The value of a body; ConfigError: it is no JSON."""
    try:
        return ANYTHING.validate_json(body)
    except ValidationError as error:
        said = error.errors()[0]["msg"][:100]
        raise ConfigError(f"The request is no JSON ({said}); send an object in UTF-8.") from None


def failure(error: Exception) -> Response:
    """The reply of an error."""
    status, headers = 500, OWN
    match error:
        case ApiError():
            status, headers = error.status, OWN | error.headers
        case UnknownOp():
            status = 404
        case GlassformerError():
            status = 400
    return Response(text(problem(error)), status, headers, "application/json")
