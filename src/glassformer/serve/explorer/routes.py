"""The explorer's routes, beside those of the API in one application, and its server.

    GET  /?token=...   sets the cookie and redirects to /
    GET  /...          a file of `static/`
    POST /api          JSON -> a safetensors file
    POST /stream       JSON -> one JSON object a line

The token of the address keeps other users of the machine out: it is the key of the server, and the
browser keeps it in a cookie that scripts cannot read and other sites cannot send. An error is
`{"error": "one sentence", "kind": "ConfigError"}` with a status of 400 or above.
"""

import asyncio
import mimetypes
import secrets
from collections.abc import AsyncIterator, Callable, Generator
from threading import Event
from typing import Any, Self

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import FileResponse, RedirectResponse, Response, StreamingResponse
from starlette.routing import Mount, Route, Router
from starlette.staticfiles import StaticFiles
from starlette.types import Receive, Scope, Send

from glassformer.core.errors import ConfigError
from glassformer.serve.api import listener, problems
from glassformer.serve.api.access import LOCAL, Rules, hash_of
from glassformer.serve.api.admission import Limits, until_gone
from glassformer.serve.api.engine_thread import EngineThread
from glassformer.serve.api.envelope import Door, Log
from glassformer.serve.api.problems import ApiError
from glassformer.serve.api.server import application
from glassformer.serve.api.service import Served, Service
from glassformer.serve.explorer.handler import Explorer, problem
from glassformer.serve.explorer.page import CONTENTS, contents
from glassformer.serve.explorer.schema import PAGES, STATIC
from glassformer.serve.explorer.wire import text

PORT, PORTS = 8420, 50
"""The port that is tried first if none is given, and how many after it."""
EXPLORING = Limits(
    body=48 << 20,  # an image or audio as text
    remedy="send a smaller file",
    unit="requests",
    deadline=float("inf"),
    drain=10.0,
    connections=128,
    keep_alive=60,
)
HEADERS = {
    **Door.headers,
    "Content-Security-Policy": "default-src 'self'; script-src 'self' blob:; worker-src 'self' "
    "blob:; img-src 'self' blob: data:; connect-src 'self'; object-src 'none'; base-uri 'none'; "
    "form-action 'none'; frame-ancestors 'none'",
    "X-Frame-Options": "DENY",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cache-Control": "no-cache",
}
"""Headers of every reply of these routes."""
JAVASCRIPT = "text/javascript"
mimetypes.add_type(JAVASCRIPT, ".js")  # the registry of Windows may name another


class Server(listener.Server):
    """The explorer of a run, and its API, at one address, until a signal (see `listener`);
    ConfigError: the address is taken, or not this machine's.

    `port` None: the first free one from `PORT` on; 0: any. `engine`: the thread that opened the
    run.
    """

    def __init__(
        self,
        explorer: Explorer,
        host: str = LOCAL[0],
        port: int | None = None,
        engine: EngineThread | None = None,
        limits: Limits = EXPLORING,
    ):
        ports = range(PORT, PORT + PORTS) if port is None else [port]
        socket = listener.listening(host, *ports)
        self.port, run = socket.getsockname()[1], explorer.run
        self.token = secrets.token_urlsafe(24)
        self.cookie = f"glassformer-{self.port}"
        """Cookies are shared by all ports of a machine, so their names must differ."""
        reached = LOCAL[0] if host in ("0.0.0.0", "::", "") else host
        self.address = f"{listener.address_of(reached, self.port)}/?token={self.token}"
        """Address at which the explorer is opened, token included."""
        rules = Rules(host, (hash_of(self.token),), cookie=self.cookie)
        served = Served(run.folder.resolve().name, run)
        service = Service({served.id: served}, engine or EngineThread(), limits, rules, Log(None))
        self.engine, pages = service.engine, Pages(explorer, service)
        super().__init__(application(service, pages, pages), socket, service.calls, service.log)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.socket.close()
        self.engine.close(self.limits.drain)


class Pages(Door):
    """The explorer's routes; a service's thread computes."""

    headers = HEADERS

    def __init__(self, explorer: Explorer, service: Service):
        self.explorer, self.service = explorer, service
        routes = [
            Route("/", self._open),
            Route(f"/{CONTENTS}", lambda _: Response(contents(PAGES), media_type=JAVASCRIPT)),
            Route("/api", self._answer, methods=["POST"]),
            Route("/stream", self._stream, methods=["POST"]),
            Mount("/", StaticFiles(directory=STATIC)),
        ]
        self.app = Router(routes)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request; see ASGI."""
        with self.service.calls.admit() as call:
            await call.limit(self.app(scope, receive, send))

    def is_open(self, scope: Scope) -> bool:
        """See `Door`: files are open, ops are requests with a body."""
        return scope["method"] in ("GET", "HEAD")

    def fail(self, error: BaseException) -> Response:
        """The reply of an error, as pages read it."""
        known = problems.problem(error)
        match error:
            case HTTPException(status_code=404 | 405):
                error = ConfigError(f"{error.detail}: the explorer is at /.")
            case HTTPException():
                error = known
        return Response(text(problem(error)), known.status, known.headers, "application/json")

    async def _open(self, request: Request) -> Response:
        token, rules = request.query_params.get("token"), self.service.rules
        if token is None:
            return FileResponse(STATIC / "index.html")
        if not rules.find(token):
            raise ApiError(403, "The token is not the one that was printed; open that address.")
        response = RedirectResponse("/", 303)
        response.set_cookie(rules.cookie, token, httponly=True, samesite="strict")
        return response

    async def _read(self, request: Request) -> Any:
        """The value of a request's body; ApiError, ConfigError: it has none."""
        size, limits = request.headers.get("content-length", ""), self.service.limits
        if not size.isdecimal():
            raise ApiError(411, "The request must state its Content-Length.")
        if int(size) > limits.body:
            raise ApiError(413, limits.too_large)
        try:
            return await request.json()
        except (ValueError, RecursionError):
            raise ConfigError("The request is no JSON; send an object in UTF-8.") from None

    async def _compute(self, work: Callable[..., Any], *arguments: Any) -> Any:
        (found,) = await asyncio.wrap_future(self.service.engine.submit(work, *arguments))
        return found

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
            self.service.engine.submit(items.close)
        yield f"{text(last)}\n"
