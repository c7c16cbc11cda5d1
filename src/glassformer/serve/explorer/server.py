"""The explorer over HTTP: static files, `POST /api`, `POST /stream`; a thread for each connection,
one that computes.

    GET  /?token=...   sets the cookie and goes on to /
    GET  /...          a file of `static/`, by a table of those that there are: no path is ever
                       put together
    POST /api          JSON -> a safetensors file
    POST /stream       JSON -> one JSON object a line

Whatever is wrong is `{"error": "one sentence", "kind": "ConfigError"}` with a status of 400 or
above.
"""

import gzip
import json
import select
import socket
import socketserver
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Executor, ThreadPoolExecutor
from contextlib import closing, suppress
from functools import partial
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, TypeVar, cast
from urllib.parse import parse_qs, urlsplit

import numpy as np

from glassformer.errors import ConfigError, GlassformerError
from glassformer.serve.explorer.auth import HEADERS, Guard
from glassformer.serve.explorer.files import Files, kind_of
from glassformer.serve.explorer.handler import Explorer, UnknownOp
from glassformer.serve.explorer.looks import ClientDisconnected
from glassformer.serve.explorer.wire import Reply, text

Answer = TypeVar("Answer")
LARGEST_BODY = 48 << 20
"""Bytes of a request: a picture or a recording as text."""
PORT, PORTS = 8420, 50
"""The port that is tried first if none is asked for, and how many after it."""
SMALL = 1 << 10
PATIENCE = 60
"""Seconds that a connection may say nothing in the middle of a request."""
ENDING = 2.0
"""Seconds that a server that ends waits for each connection's thread."""


class Refused(Exception):
    """A request that is answered by an error before anything is looked at."""

    def __init__(self, status: HTTPStatus, sentence: str):
        super().__init__(sentence)
        self.status = status


def one_hand() -> Executor:
    """The one thread that computes.

    Each thread that computes has helpers of its own as long as it lives, and OpenMP lets them sleep
    between two operations once there are more of them than processors: small operations then take
    twice the time.
    """
    return ThreadPoolExecutor(1, "explorer")


class Server(ThreadingHTTPServer):
    """One explorer at one address; ConfigError: the address is taken, or not this machine's.

    `port` None: the first free one from `PORT` on; 0: any. `hand`: one thread, best the one that
    made the explorer.
    """

    block_on_close = False
    request_queue_size = 64

    def __init__(
        self,
        explorer: Explorer,
        host: str = "127.0.0.1",
        port: int | None = None,
        hand: Executor | None = None,
    ):
        self.explorer, self.files = explorer, Files()
        self._open: dict[threading.Thread, socket.socket] = {}
        self._hand = hand or one_hand()
        self.address_family = socket.AF_INET6 if ":" in host else socket.AF_INET
        tried = range(PORT, PORT + PORTS) if port is None else [port]
        for number in tried:
            try:
                super().__init__((host, number), Handler)
                break
            except (OSError, OverflowError) as error:
                if number == tried[-1]:
                    raise ConfigError(_taken(host, tried, error)) from None
        self.guard = Guard(host, self.server_address[1])

    def server_bind(self) -> None:
        """Bind without asking the network for this machine's name, as the class above would."""
        socketserver.TCPServer.server_bind(self)
        self.server_name, self.server_port = (
            str(self.server_address[0]),
            int(self.server_address[1]),
        )

    def process_request(self, request: Any, client_address: Any) -> None:
        """A thread for each connection, known until it has ended."""
        thread = threading.Thread(
            target=self.process_request_thread, args=(request, client_address), daemon=True
        )
        self._open = {other: own for other, own in self._open.items() if other.is_alive()} | {
            thread: request
        }
        thread.start()

    def computed(self, work: Callable[[], Answer]) -> Answer:
        """What `work` gives, in the one thread that computes."""
        return self._hand.submit(work).result()

    def server_close(self) -> None:
        """Stop listening, end what is connected, and wait for its threads: one that outlives Python
        may abort it."""
        super().server_close()
        self._hand.shutdown(wait=False, cancel_futures=True)
        for own in self._open.values():
            with suppress(OSError):
                own.shutdown(socket.SHUT_RDWR)
        for thread in self._open:
            thread.join(ENDING)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A connection that broke is nobody's business."""

    @property
    def address(self) -> str:
        """Where the explorer is opened, token included."""
        return self.guard.address


def _taken(host: str, ports: Any, error: Exception) -> str:
    which = str(ports[0]) if len(ports) == 1 else f"{ports[0]} to {ports[-1]}"
    said = getattr(error, "strerror", None) or str(error)
    return (
        f"The explorer cannot listen at {host}, port {which} ({said}); choose another "
        f"--port or --host."
    )


class Handler(BaseHTTPRequestHandler):
    """One connection."""

    protocol_version = "HTTP/1.1"
    server_version, sys_version = "glassformer", ""
    timeout = PATIENCE
    disable_nagle_algorithm = True

    @property
    def own(self) -> Server:
        """The server."""
        return cast(Server, self.server)

    def log_message(self, format: str, *args: Any) -> None:
        """Requests are nobody's business; errors are answered."""

    def do_GET(self) -> None:
        """The page and its files."""
        self._answered(self._file)

    def do_HEAD(self) -> None:
        """The same without the files."""
        self._answered(self._file)

    def do_POST(self) -> None:
        """Requests."""
        self._answered(self._asked)

    def send_error(self, code: int, message: str | None = None, explain: str | None = None) -> None:
        """What the class above refuses (a line that is no HTTP, an unknown method), in our form."""
        self.close_connection = True
        sentence = f"{message or HTTPStatus(code).phrase}; the explorer answers GET, HEAD and POST."
        self._fail(HTTPStatus(code), sentence, "Refused")

    def _answered(self, answer: Any) -> None:
        """Answer, or say what is wrong."""
        self._begun = False
        try:
            body = self._body() if self.command == "POST" else b""
            if not self.own.guard.meant(self.headers):
                raise Refused(
                    HTTPStatus.FORBIDDEN,
                    "This address is not the explorer's own; open the one that it printed.",
                )
            answer(body)
        except Refused as error:
            self.close_connection = True
            self._fail(error.status, str(error), "Refused")
        except UnknownOp as error:
            self._fail(HTTPStatus.NOT_FOUND, str(error), "ConfigError")
        except GlassformerError as error:
            self._fail(HTTPStatus.BAD_REQUEST, str(error), type(error).__name__)
        except (ClientDisconnected, ConnectionError, TimeoutError):
            self.close_connection = True
        except Exception as error:  # noqa: BLE001 - the last place where anything can be said
            what = " ".join(f"{type(error).__name__}: {error}".split())[:300]
            sentence = (
                f"Something went wrong that should not ({what}); please report it with "
                f"what was asked."
            )
            self._fail(HTTPStatus.INTERNAL_SERVER_ERROR, sentence, "Bug")

    def _file(self, body: bytes) -> None:
        parts = urlsplit(self.path)
        token = parse_qs(parts.query).get("token", [""])[0]
        if parts.path == "/" and token:
            if not self.own.guard.right(token):
                raise Refused(
                    HTTPStatus.FORBIDDEN,
                    "The token is not the one that was printed; open that address.",
                )
            self._send(
                HTTPStatus.SEE_OTHER,
                b"",
                "text/plain",
                Location="/",
                Set_Cookie=self.own.guard.set_cookie,
            )
            return
        file = self.own.files.find(parts.path)
        if file is None:
            raise Refused(HTTPStatus.NOT_FOUND, "There is no such file; the explorer is at /.")
        content, tag = file
        if tag in self.headers.get("If-None-Match", ""):
            self._send(HTTPStatus.NOT_MODIFIED, b"", "", ETag=tag, Cache_Control="no-cache")
        else:
            self._send(
                HTTPStatus.OK, content, kind_of(parts.path), ETag=tag, Cache_Control="no-cache"
            )

    def _asked(self, body: bytes) -> None:
        path = urlsplit(self.path).path
        if path not in ("/api", "/stream"):
            raise Refused(HTTPStatus.NOT_FOUND, "Requests are sent to /api and /stream.")
        if not self.own.guard.own_page(self.headers):
            raise Refused(
                HTTPStatus.FORBIDDEN,
                "A page of another site must not ask here; use the explorer's own.",
            )
        if not self.own.guard.admitted(self.headers):
            raise Refused(
                HTTPStatus.FORBIDDEN,
                "This browser has no token yet; open the address that `glassformer inspect` "
                "printed, then this link again.",
            )
        request = parsed(body)
        if path == "/stream":
            self._stream(request)
            return
        reply = self.own.computed(partial(self.own.explorer.handle, request, self._gone))
        self._send(
            HTTPStatus.OK, reply.to_bytes(), "application/octet-stream", compress=worth(reply)
        )

    def _body(self) -> bytes:
        """What was sent; it is read before anything is refused, so that the next request is found
        behind it."""
        size = self.headers.get("Content-Length", "")
        if "Transfer-Encoding" in self.headers or not (size.isascii() and size.isdigit()):
            raise Refused(HTTPStatus.LENGTH_REQUIRED, "The request must say its Content-Length.")
        if len(size) > 12 or int(size) > LARGEST_BODY:
            most = LARGEST_BODY >> 20
            raise Refused(
                HTTPStatus.REQUEST_ENTITY_TOO_LARGE,
                f"The request is larger than {most} MB; send a smaller picture.",
            )
        body = self.rfile.read(int(size))
        if self.headers.get_content_type() != "application/json":
            raise Refused(
                HTTPStatus.UNSUPPORTED_MEDIA_TYPE,
                "A request is sent as Content-Type: application/json.",
            )
        return body

    def _stream(self, request: Any) -> None:
        """One line after another; an error before the first is an error of its own, a later one the
        last line."""
        with closing(cast(Any, self.own.explorer.stream(request, self._gone))) as items:
            following = partial(self.own.computed, partial(next, items, None))
            first = following()
            self._head(
                HTTPStatus.OK,
                "application/x-ndjson",
                {"Transfer-Encoding": "chunked", "Cache-Control": "no-store"},
            )
            for line in _lines(first, following):
                data = f"{text(line)}\n".encode()
                self.wfile.write(b"%x\r\n%s\r\n" % (len(data), data))
                self.wfile.flush()
        self.wfile.write(b"0\r\n\r\n")

    def _gone(self) -> bool:
        """Whether the other side has hung up."""
        try:
            readable, _, _ = select.select([self.connection], [], [], 0)
            return bool(readable) and self.connection.recv(1, socket.MSG_PEEK) == b""
        except OSError:
            return True
        except ValueError:  # of a thousand open connections, those beyond are not watched
            return False

    def _fail(self, status: HTTPStatus, sentence: str, kind: str) -> None:
        if getattr(self, "_begun", False):  # half of another answer is out already
            self.close_connection = True
            return
        with suppress(ConnectionError, TimeoutError):
            self._send(
                status,
                text({"error": sentence, "kind": kind}).encode(),
                "application/json",
                Cache_Control="no-store",
            )

    def _send(
        self, status: HTTPStatus, content: bytes, kind: str, compress: bool = True, **headers: str
    ) -> None:
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        named.setdefault("Cache-Control", "no-store")
        if compress and len(content) >= SMALL and "gzip" in self.headers.get("Accept-Encoding", ""):
            content, named["Content-Encoding"] = gzip.compress(content, 1, mtime=0), "gzip"
        named["Vary"] = "Accept-Encoding"
        if status != HTTPStatus.NOT_MODIFIED:
            named["Content-Length"] = str(len(content))
        self._head(status, kind, named)
        if self.command != "HEAD":
            self.wfile.write(content)

    def _head(self, status: HTTPStatus, kind: str, headers: dict[str, str]) -> None:
        self._begun = True
        self.send_response(status)
        for name, value in {
            **HEADERS,
            **({"Content-Type": kind} if kind else {}),
            **headers,
        }.items():
            self.send_header(name, value)
        if self.close_connection:
            self.send_header("Connection", "close")
        self.end_headers()


def _lines(first: Any, following: Callable[[], Any]) -> Iterator[Any]:
    """What a stream says, to its end."""
    try:
        if first is not None:
            yield first
            yield from iter(following, None)
        yield {"done": True}
    except GlassformerError as error:
        yield {"error": str(error), "kind": type(error).__name__}


def parsed(body: bytes) -> Any:
    """A request's JSON; ConfigError: it is none, or a number in it that JSON does not have."""
    try:
        return json.loads(body, parse_constant=_refused)
    except (ValueError, RecursionError) as error:
        raise ConfigError(
            f"The request is not JSON ({type(error).__name__}: {str(error)[:100]}); send an object."
        ) from None


def _refused(constant: str) -> None:
    raise ValueError(f"{constant} is no JSON")


def worth(reply: Reply) -> bool:
    """Whether an answer shrinks enough to be compressed: pixels and names do, the digits of floats
    do not."""
    shrinking = sum(
        array.nbytes for array in reply.arrays.values() if array.dtype in (np.uint8, np.int32)
    )
    return 2 * shrinking >= sum(array.nbytes for array in reply.arrays.values())
