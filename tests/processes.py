"""Commands in processes of their own, for tests that send signals."""

import signal
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any


def _interruptible() -> None:
    """In the child: Ctrl-C ends it, also where the tests run in the background with it ignored."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


@contextmanager
def started(command: list[str], seconds: float = 120, **options: Any) -> Iterator[Any]:
    """A process that hears SIGINT; it is killed after some seconds, so that no read waits longer."""
    options = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE} | options
    with subprocess.Popen(command, preexec_fn=_interruptible, **options) as process:
        timer = threading.Timer(seconds, process.kill)
        timer.start()
        try:
            yield process
        finally:
            timer.cancel()
            process.kill()
