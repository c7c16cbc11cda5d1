"""Worker processes for what strangers define, limited in processor time and memory.

    WORKERS = Workers(memory=256 << 20)
    text, spans = WORKERS.run(render, template, values, seconds=0.1, what="the chat template")

A worker imports the module of the function, never the user's script. It gets arguments as the
standard library's connections send them. Its answers are JSON: a stranger who takes a worker over
cannot send an object that runs code here.
"""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from contextlib import suppress
from multiprocessing import connection
from queue import LifoQueue
from subprocess import DEVNULL
from typing import Any

from glassformer.core.errors import DataError, GlassformerError
from glassformer.core.files import WINDOWS
from glassformer.core.signals import ignore_requests_to_stop

START = 60.0
"""Seconds until a worker must have imported its function."""
PATIENCE = 0.1 if WINDOWS else 10.0
"""Seconds by the clock beyond the processor time: other programs may keep a worker waiting. Windows
has no limit of processor time."""
CONNECTION: Any = getattr(connection, "PipeConnection", None) or connection.Connection


class Workers:
    """At most `count` processes of `memory` bytes each; safe for threads, and after a fork."""

    def __init__(self, memory: int, count: int = 1) -> None:
        self._memory, self._count = memory, count
        self._fill()
        if hasattr(os, "register_at_fork"):
            os.register_at_fork(after_in_child=self._fill)

    def run(self, function: Callable[..., Any], *arguments: Any, seconds: float, what: str) -> Any:
        """Return what a function returns, as JSON has it.

        A worker opens no file: what functions import comes with the module of the first one.
        DataError: the function raises it, or `what` it works on takes more `seconds` of processor
        time, or more memory.
        """
        idle = self._idle
        worker = idle.get()
        try:
            if worker is None or worker.process.poll() is not None:
                worker = _Worker()
                if worker.call(_limit, (self._memory, function), START) is None:
                    raise GlassformerError(
                        f"the worker for {what} does not start; run {sys.executable} -P -m "
                        f"{__name__} 0 to see why"
                    )
            answer = worker.call(function, arguments, seconds)
            if answer is None:
                raise DataError(f"{what} takes too much time or memory; use another one")
        except BaseException:  # after Ctrl-C, its answer would be taken for the next one's
            if worker is not None:
                worker.connection.close()
                worker.process.kill()
                worker.process.wait()
            worker = None
            raise
        finally:
            idle.put(worker)
        if "error" in answer:
            raise DataError(answer["error"])
        return answer["result"]

    def _fill(self) -> None:
        self._idle: LifoQueue[_Worker | None] = LifoQueue()
        for _ in range(self._count):
            self._idle.put(None)


class _Worker:
    """A process, and the connection to it, at whose end it ends too."""

    def __init__(self) -> None:
        self.connection, other = connection.Pipe()
        handle = other.fileno()
        if WINDOWS:
            os.set_handle_inheritable(handle, True)
        self.process = subprocess.Popen(
            [sys.executable, "-P", "-m", __name__, str(handle)],
            stdin=DEVNULL,
            stdout=DEVNULL,
            stderr=DEVNULL,
            close_fds=not WINDOWS,
            pass_fds=() if WINDOWS else (handle,),
            env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
        )
        other.close()

    def call(self, *task: *tuple[Callable[..., Any], tuple[Any, ...], float]) -> Any:
        """Return the answer to a function, its arguments and seconds; None: the process ended."""
        with suppress(EOFError, OSError):
            self.connection.send(task)
            if self.connection.poll(task[-1] + PATIENCE):
                return json.loads(self.connection.recv_bytes())
        return None


def main() -> None:
    """Call functions until the other end of the connection is closed."""
    ignore_requests_to_stop()
    ours = CONNECTION(int(sys.argv[1]))
    with suppress(EOFError, OSError):
        while True:
            function, arguments, seconds = ours.recv()
            _allow(seconds)
            try:
                answer = {"result": function(*arguments)}
            except DataError as error:
                answer = {"error": str(error)}
            said = json.dumps(answer).encode()
            _allow(0)
            ours.send_bytes(said)


def _allow(seconds: float) -> None:
    """End this process after this much more processor time; 0: never."""
    if hasattr(signal, "setitimer"):
        signal.setitimer(signal.ITIMER_PROF, seconds)


def _limit(memory: int, _function: Callable[..., Any]) -> None:
    """Limit this process to `memory` bytes and to no file, where the system has limits; the
    function's module is imported."""
    with suppress(ImportError):  # Windows
        import resource

        for kind, most in (("AS", memory), ("FSIZE", 0), ("NOFILE", 0), ("CORE", 0)):
            resource.setrlimit(getattr(resource, f"RLIMIT_{kind}"), (most, most))


if __name__ == "__main__":
    main()
