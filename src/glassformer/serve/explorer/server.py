"""Server of the explorer at one address, until a signal (see `listener`)."""

from concurrent.futures import Executor, ThreadPoolExecutor
from typing import Self

from glassformer.serve.api import listener
from glassformer.serve.api.envelope import Log
from glassformer.serve.explorer.application import LIMITS, Application, Guard
from glassformer.serve.explorer.handler import Explorer

PORT, PORTS = 8420, 50
"""The port that is tried first if none is asked for, and how many after it."""


class Server(listener.Server):
    """One explorer at one address; ConfigError: the address is taken, or not this machine's.

    `port` None: the first free one from `PORT` on; 0: any. `worker`: one thread, best the one that
    made the explorer, since each computing thread keeps OpenMP helpers, and small operations take
    twice the time where there are more of them than processors.
    """

    def __init__(
        self,
        explorer: Explorer,
        host: str = "127.0.0.1",
        port: int | None = None,
        worker: Executor | None = None,
    ):
        ports = range(PORT, PORT + PORTS) if port is None else [port]
        socket = listener.listening(host, *ports)
        self.guard = Guard(host, socket.getsockname()[1])
        self.worker = worker or ThreadPoolExecutor(1, "explorer")
        self.routes = Application(explorer, self.guard, self.worker)
        super().__init__(self.routes, socket, LIMITS, self.routes.calls, Log(None))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.socket.close()
        self.worker.shutdown(cancel_futures=True)
