"""uvicorn around an application, at a socket, and its end.

SIGTERM, Ctrl-C   ─> not ready, no new requests ─> running ones finish, or end with an error at
                     the end of the drain
a second signal   ─> at once
"""

import asyncio
import logging
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

import uvicorn
from starlette.types import ASGIApp

from glassformer.core.errors import ConfigError
from glassformer.serve.api.admission import Admission, Limits
from glassformer.serve.api.envelope import Log

CLOSING = 2
"""Seconds that uvicorn waits for connections when all calls have ended."""


class Server(uvicorn.Server):
    """uvicorn at a socket that listens; it drains `calls`, the requests in hand of `app`."""

    def __init__(self, app: ASGIApp, listener: socket.socket, calls: Admission, log: Log):
        self.socket, self.limits, self.calls, self.log = listener, calls.limits, calls, log
        super().__init__(
            uvicorn.Config(
                app,
                http="h11",  # with a limit for header fields
                limit_concurrency=self.limits.connections,
                ws="none",
                lifespan="off",
                log_config=None,
                access_log=False,
                server_header=False,
                timeout_keep_alive=self.limits.keep_alive,
                timeout_graceful_shutdown=CLOSING,
            )
        )

    def answer(self) -> None:
        """Answer until the end."""
        logger = logging.getLogger("uvicorn")
        logger.handlers, logger.propagate = [_JsonLines(self.log)], False
        self.run(sockets=[self.socket])

    @contextmanager
    def beside(self) -> Iterator[None]:
        """Answer in a thread beside the body."""
        thread = threading.Thread(target=self.answer, name="server", daemon=True)
        thread.start()
        try:
            yield
        finally:
            self.end()
            thread.join()

    def end(self) -> None:
        """End at once."""
        self.should_exit = self.force_exit = True

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """Drain at the first signal, end at the second."""
        if self.calls.draining:
            self.end()
        else:
            self.calls.draining = True
            asyncio.run_coroutine_threadsafe(self._drain(), asyncio.get_running_loop())

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """See `uvicorn.Server`, which also waits for connections when it must not."""
        if self.force_exit:
            for connection in list(self.server_state.connections):
                connection.transport.abort()
        await super().shutdown(sockets)

    async def _drain(self) -> None:
        self.log.write(event="draining", requests=len(self.calls))
        await self.calls.drain(self.limits.drain)
        self.should_exit = True


class _JsonLines(logging.Handler):
    """uvicorn's warnings as lines of our log."""

    def __init__(self, log: Log):
        super().__init__(logging.WARNING)
        self.log = log

    def emit(self, record: logging.LogRecord) -> None:
        """Write a record without its traceback, which may hold a prompt."""
        self.log.write(level=record.levelname, event=record.getMessage().splitlines()[0])


def listening(host: str, *ports: int) -> socket.socket:
    """A socket that listens at the first of these ports that is free; ConfigError: none is, or the
    address is not this machine's."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    said = "ports are 0 to 65535"
    for port in (one for one in ports if 0 <= one < 1 << 16):
        try:
            made = socket.create_server((host, port), family=family, backlog=2048)
        except OSError as error:
            said = (error.strerror or str(error)).partition(" (while")[0]  # the address again
        else:
            # connections inherit them; asyncio sets the first only for sockets that it made
            made.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            if hasattr(socket, "TCP_USER_TIMEOUT"):  # a client that reads nothing is cut
                made.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, 1000 * Limits.send)
            return made
    tried = " to ".join(map(str, dict.fromkeys((ports[0], ports[-1]))))
    raise ConfigError(
        f"The server cannot listen at {host}, port {tried} ({said}); choose another --port or "
        "--host."
    )


def address_of(host: str, port: int) -> str:
    """The address of a server."""
    return f"http://{f'[{host}]' if ':' in host else host}:{port}"
