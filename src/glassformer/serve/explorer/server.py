"""The explorer over HTTP: static files, `POST /api`, `POST /stream`; one thread for each
connection, one for computation.

    GET  /?token=...   sets the cookie and redirects to /
    GET  /...          a file of `static/`
    POST /api          JSON -> a safetensors file
    POST /stream       JSON -> one JSON object a line

An error is `{"error": "one sentence", "kind": "ConfigError"}` with a status of 400 or above.
"""

import gzip
import json
import select
import socket
import socketserver
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from functools import partial
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, TypeVar, cast
from urllib.parse import parse_qs, urlsplit

import numpy as np

from glassformer.errors import ConfigError, GlassformerError
from glassformer.files import WINDOWS
from glassformer.serve.explorer.auth import HEADERS, Guard, Refused
from glassformer.serve.explorer.handler import Explorer, UnknownOp, problem
from glassformer.serve.explorer.looks import ClientDisconnected
from glassformer.serve.explorer.page import Files
from glassformer.serve.explorer.wire import Reply, text
from glassformer.serve.explorer.worker import Worker

Answer = TypeVar("Answer")
LARGEST_BODY = 48 << 20
"""Bytes of a request: an image or audio as text."""
BODIES, CONNECTIONS = 4 * LARGEST_BODY, 128
"""Bytes of all requests that are being read or answered; connections at once."""
PORT, PORTS = 8420, 50
"""The port that is tried first if none is asked for, and how many after it."""
SMALL = 1 << 10
"""Bytes below which an answer is not compressed."""
PORTION = 1 << 16
"""Bytes of a rejected request that are read at a time."""
TIMEOUT, ENDING = 60, 2.0
"""Seconds of silence in the middle of a request; seconds that a closing server waits for the
threads of its connections."""
DRAIN = 10.0
"""Seconds that a server which is told to end gives the requests that it has."""
FULL = b"HTTP/1.1 503 Service Unavailable\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"


class Server(ThreadingHTTPServer):
    """One explorer at one address; ConfigError: the address is taken, or not this machine's.

    `port` None: the first free one from `PORT` on; 0: any. `worker`: one thread, best the one that
    made the explorer.
    """

    allow_reuse_address = not WINDOWS  # where it would let two servers share a port
    block_on_close = False
    request_queue_size = 64

    def __init__(
        self,
        explorer: Explorer,
        host: str = "127.0.0.1",
        port: int | None = None,
        worker: Worker | None = None,
    ):
        self.explorer, self.files, self.worker = explorer, Files(), worker or Worker()
        self._open: dict[threading.Thread, socket.socket] = {}
        self._strangers: dict[socket.socket, None] = {}
        self._bodies, self._answering, self.ending = 0, 0, False
        self._changed = threading.Condition()
        self.address_family = socket.AF_INET6 if ":" in host else socket.AF_INET
        ports = range(PORT, PORT + PORTS) if port is None else [port]
        for number in ports:
            try:
                super().__init__((host, number), Handler)
                break
            except (OSError, OverflowError) as error:
                if number == ports[-1]:
                    tried = str(number) if len(ports) == 1 else f"{ports[0]} to {number}"
                    said = getattr(error, "strerror", None) or str(error)
                    raise ConfigError(
                        f"The explorer cannot listen at {host}, port {tried} ({said}); choose "
                        "another --port or --host."
                    ) from None
        self.guard = Guard(host, self.server_address[1])

    @property
    def address(self) -> str:
        """Address at which the explorer is opened, token included."""
        return self.guard.address

    def server_bind(self) -> None:
        """Bind without asking the network for this machine's name, unlike the base class."""
        socketserver.TCPServer.server_bind(self)
        host, port = self.server_address[:2]
        self.server_name, self.server_port = str(host), int(port)

    def process_request(self, request: Any, client_address: Any) -> None:
        """Start a thread; of too many connections, close the oldest without a token."""
        if len(self._open) >= CONNECTIONS:
            with self._changed:
                oldest = next(iter(self._strangers), None)
            if oldest is None:
                with suppress(OSError):
                    request.sendall(FULL)
                self.shutdown_request(request)
                return
            self.known(oldest)
            with suppress(OSError):
                oldest.shutdown(socket.SHUT_RDWR)
        with self._changed:
            self._strangers[request] = None
        super().process_request(request, client_address)

    def known(self, connection: socket.socket) -> None:
        """Mark a connection as one that has shown the token, or has ended."""
        with self._changed:
            self._strangers.pop(connection, None)

    @contextmanager
    def room(self, size: int) -> Iterator[None]:
        """Room for a request of so many bytes; Refused: all of it is taken."""
        with self._changed:
            if self._bodies + size > BODIES:
                raise Refused(
                    HTTPStatus.SERVICE_UNAVAILABLE,
                    f"The requests that are being answered have {BODIES >> 20} MB, the most at "
                    "once; send this one again in a moment.",
                )
            self._bodies += size
        try:
            yield
        finally:
            with self._changed:
                self._bodies -= size

    @contextmanager
    def answering(self) -> Iterator[None]:
        """Count a request that is being answered; Refused: the server is ending."""
        with self._changed:
            if self.ending:
                raise Refused(HTTPStatus.SERVICE_UNAVAILABLE, "The explorer is ending.")
            self._answering += 1
        try:
            yield
        finally:
            with self._changed:
                self._answering -= 1
                self._changed.notify_all()

    def drain(self, seconds: float = DRAIN) -> bool:
        """Take no more requests, and wait for those that are being answered; whether all were."""
        with self._changed:
            self.ending = True
            return self._changed.wait_for(lambda: not self._answering, seconds)

    def process_request_thread(self, request: Any, client_address: Any) -> None:
        """Answer a connection on its own thread, which is known until it has ended."""
        thread = threading.current_thread()
        self._open[thread] = request
        super().process_request_thread(request, client_address)
        self._open.pop(thread, None)
        self.known(request)

    def computed(self, work: Callable[[], Answer]) -> Answer:
        """The result of `work`, in the one thread that computes."""
        return self.worker.submit(work).result()

    def server_close(self) -> None:
        """Stop listening, close the connections, and wait for their threads: one that outlives
        Python may abort it."""
        super().server_close()
        waiting = list(self._open.items())
        for _, own in waiting:  # whoever computes for one of them stops at its next step
            with suppress(OSError):
                own.shutdown(socket.SHUT_RDWR)
        self.worker.close(ENDING)
        end = time.monotonic() + ENDING
        for thread, _ in waiting:
            thread.join(max(0.0, end - time.monotonic()))

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Ignore a broken connection."""


class Handler(BaseHTTPRequestHandler):
    """One connection."""

    protocol_version = "HTTP/1.1"
    server_version, sys_version = "glassformer", ""
    timeout = TIMEOUT
    disable_nagle_algorithm = True
    _begun = False
    """Whether a part of the present answer was sent."""

    @property
    def own(self) -> Server:
        """The server."""
        return cast(Server, self.server)

    def log_message(self, format: str, *args: Any) -> None:
        """Log nothing; errors are answered."""

    def do_GET(self) -> None:
        """Answer with a file or, to POST, with the answer of an op; or with the error."""
        self._begun = False
        try:
            self.own.guard.check_host(self.headers)
            with self.own.answering():
                if self.command == "POST":
                    self._op()
                else:
                    self._file()
        except (ClientDisconnected, ConnectionError, TimeoutError):
            self.close_connection = True
        except Exception as error:  # noqa: BLE001 - nothing above this could answer
            self._fail(error)

    do_HEAD = do_POST = do_GET

    def send_error(self, code: int, message: str | None = None, explain: str | None = None) -> None:
        """Send an error of the base class (a line that is not HTTP, an unknown method) in our
        form."""
        said = message or HTTPStatus(code).phrase
        sentence = f"{said}; the explorer answers GET, HEAD and POST."
        self._begun = False
        self._fail(Refused(HTTPStatus(code), sentence))

    def _file(self) -> None:
        parts = urlsplit(self.path)
        token = parse_qs(parts.query).get("token", [""])[0]
        if parts.path == "/" and token:
            self.own.guard.check_token(token)
            cookie = {"Location": "/", "Set-Cookie": self.own.guard.set_cookie}
            self._send(HTTPStatus.SEE_OTHER, b"", "text/plain", cookie)
            return
        file = self.own.files.find(parts.path)
        if file is None:
            raise Refused(HTTPStatus.NOT_FOUND, "There is no such file; the explorer is at /.")
        content, tag, kind = file
        headers = {"ETag": tag, "Cache-Control": "no-cache"}
        if tag in self.headers.get("If-None-Match", ""):
            self._send(HTTPStatus.NOT_MODIFIED, b"", "", headers)
        else:
            self._send(HTTPStatus.OK, content, kind, headers)

    def _op(self) -> None:
        path = urlsplit(self.path).path
        if path not in ("/api", "/stream"):
            raise Refused(HTTPStatus.NOT_FOUND, "Requests are sent to /api and /stream.")
        self.own.guard.check_page(self.headers)
        self.own.known(self.connection)
        size = self._size()
        with self.own.room(size):
            request = parsed(self.rfile.read(size))
            if path == "/stream":
                self._stream(request)
                return
            reply = self.own.computed(partial(self.own.explorer.handle, request, self._gone))
        kind = "application/octet-stream"
        self._send(HTTPStatus.OK, reply.to_bytes(), kind, compress=worth(reply))

    def _size(self) -> int:
        """Bytes of the body of a request that has passed the checks of its headers."""
        size = self.headers.get("Content-Length", "")
        if "Transfer-Encoding" in self.headers or not (size.isascii() and size.isdigit()):
            raise Refused(HTTPStatus.LENGTH_REQUIRED, "The request must state its Content-Length.")
        if len(size) > 12 or int(size) > LARGEST_BODY:
            raise Refused(
                HTTPStatus.REQUEST_ENTITY_TOO_LARGE,
                f"The request is larger than {LARGEST_BODY >> 20} MB; send a smaller file.",
            )
        if self.headers.get_content_type() != "application/json":
            raise Refused(
                HTTPStatus.UNSUPPORTED_MEDIA_TYPE,
                "A request is sent as Content-Type: application/json.",
            )
        return int(size)

    def _stream(self, request: Any) -> None:
        """Send line after line; an error before the first is an error of its own, a later one the
        last line."""
        with closing(cast(Any, self.own.explorer.stream(request, self._gone))) as items:
            following = partial(self.own.computed, partial(next, items, None))
            item = following()
            headers = {"Transfer-Encoding": "chunked", "Cache-Control": "no-store"}
            self._head(HTTPStatus.OK, "application/x-ndjson", headers)
            last: dict[str, Any] = {"done": True}
            try:
                while item is not None:
                    self._line(item)
                    item = following()
            except (ClientDisconnected, ConnectionError, TimeoutError):
                raise
            except Exception as error:  # noqa: BLE001 - nothing above this could answer
                last = problem(error)
            self._line(last)
        self.wfile.write(b"0\r\n\r\n")

    def _line(self, item: Any) -> None:
        data = f"{text(item)}\n".encode()
        self.wfile.write(b"%x\r\n%s\r\n" % (len(data), data))
        self.wfile.flush()

    def _gone(self) -> bool:
        """Whether the client has closed the connection; before, others have their turn."""
        self.own.worker.between()
        try:
            readable, _, _ = select.select([self.connection], [], [], 0)
            return bool(readable) and self.connection.recv(1, socket.MSG_PEEK) == b""
        except OSError:
            return True
        except ValueError:  # `select` watches the first thousand open files only
            return False

    def _fail(self, error: Exception) -> None:
        """Send an error; a rejected request, or half of another answer, ends the connection."""
        match error:
            case Refused():
                self.close_connection, status = True, error.status
            case UnknownOp():
                status = HTTPStatus.NOT_FOUND
            case GlassformerError():
                status = HTTPStatus.BAD_REQUEST
            case _:
                status = HTTPStatus.INTERNAL_SERVER_ERROR
        if self._begun:
            self.close_connection = True
            return
        with suppress(ConnectionError, TimeoutError):
            content = text(problem(error)).encode()
            self._send(status, content, "application/json", compress=False)
            if isinstance(error, Refused):
                self._discard()

    def _discard(self) -> None:
        """Read what the client still sends of a rejected request: unread bytes would make the
        closing connection drop the answer."""
        with suppress(OSError):
            self.connection.shutdown(socket.SHUT_WR)
            for _ in range(LARGEST_BODY // PORTION):
                if not self.rfile.read1(PORTION):
                    break

    def _send(
        self,
        status: HTTPStatus,
        content: bytes,
        kind: str,
        headers: dict[str, str] | None = None,
        compress: bool = True,
    ) -> None:
        headers = {"Cache-Control": "no-store", "Vary": "Accept-Encoding", **(headers or {})}
        if compress and len(content) >= SMALL and "gzip" in self.headers.get("Accept-Encoding", ""):
            content, headers["Content-Encoding"] = gzip.compress(content, 1, mtime=0), "gzip"
        if status != HTTPStatus.NOT_MODIFIED:
            headers["Content-Length"] = str(len(content))
        self._head(status, kind, headers)
        if self.command != "HEAD":
            self.wfile.write(content)

    def _head(self, status: HTTPStatus, kind: str, headers: dict[str, str]) -> None:
        self._begun = True
        self.send_response(status)
        headers = HEADERS | headers | ({"Content-Type": kind} if kind else {})
        if self.close_connection:
            headers["Connection"] = "close"
        for name, value in headers.items():
            self.send_header(name, value)
        self.end_headers()


def parsed(body: bytes) -> Any:
    """A request's JSON; ConfigError: it is not JSON, or holds NaN or an infinity."""
    try:
        return json.loads(body, parse_constant=_reject)
    except (ValueError, RecursionError) as error:
        raise ConfigError(
            f"The request is not JSON ({type(error).__name__}: {str(error)[:100]}); send an object."
        ) from None


def _reject(constant: str) -> None:
    raise ValueError(f"{constant} is no JSON")


def worth(reply: Reply) -> bool:
    """Whether an answer is worth compressing: pixels and names shrink, digits of floats do not."""
    arrays = reply.arrays.values()
    shrinking = sum(array.nbytes for array in arrays if array.dtype in (np.uint8, np.int32))
    return 2 * shrinking >= sum(array.nbytes for array in arrays)
