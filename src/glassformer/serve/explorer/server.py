"""The explorer at an address of its own, until a signal.

SIGTERM                    ─> no new requests ─> running ones finish, or end with an error at the
                              end of the drain
Ctrl-C, a second SIGTERM   ─> at once
"""

from types import FrameType
from typing import Self

from glassformer.serve.api import listener
from glassformer.serve.api.envelope import Log
from glassformer.serve.explorer.application import LIMITS, Application
from glassformer.serve.explorer.auth import Guard
from glassformer.serve.explorer.handler import Explorer
from glassformer.serve.explorer.worker import Worker
from glassformer.signals import INTERRUPTED

PORT, PORTS = 8420, 50
"""The port that is tried first if none is asked for, and how many after it."""
ENDING = 2.0
"""Seconds that the end waits for the computation in progress."""


class Server(listener.Server):
    """One explorer at one address; ConfigError: the address is taken, or not this machine's.

    `port` None: the first free one from `PORT` on; 0: any. `worker`: one thread, best the one that
    made the explorer.
    """

    def __init__(
        self,
        explorer: Explorer,
        host: str = "127.0.0.1",
        port: int | None = None,
        worker: Worker | None = None,
    ):
        ports = range(PORT, PORT + PORTS) if port is None else [port]
        socket = listener.listening(host, *ports)
        self.guard = Guard(host, socket.getsockname()[1])
        self.worker, self._ending = worker or Worker(), 0
        self.routes = Application(explorer, self.guard, self.worker)
        super().__init__(self.routes, socket, LIMITS, self.routes.calls, Log(None))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.socket.close()
        self.worker.close(ENDING)

    @property
    def address(self) -> str:
        """Address at which the explorer is opened, token included."""
        return self.guard.address

    def until_signal(self) -> int:
        """Answer until a signal; the exit code: 0, or 143 where SIGTERM left requests without an
        answer."""
        self.answer()
        unanswered = self._ending and (self.calls.expired or self.force_exit)
        return 128 + self._ending if unanswered else 0

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """See `listener.Server`; Ctrl-C ends at once."""
        if 128 + sig == INTERRUPTED:
            self.end()
        else:
            self._ending = sig
            super().handle_exit(sig, frame)
