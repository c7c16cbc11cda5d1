"""Ctrl-C, SIGTERM and SIGHUP end a run after its step, so that it can be saved first."""

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager

KINDS = ("SIGINT", "SIGTERM", "SIGHUP")
"""Windows has no SIGHUP."""


@contextmanager
def interruptions() -> Iterator[list[int]]:
    """A list that receives SIGINT, SIGTERM and SIGHUP (a terminal that is closed) for the body; a
    second Ctrl-C does what it did before, which is to raise KeyboardInterrupt at once.

    Outside the main thread signals cannot be caught, and the list stays empty.
    """
    received: list[int] = []
    if threading.current_thread() is not threading.main_thread():
        yield received
        return

    def receive(number: int, frame: object) -> None:
        if received and number == signal.SIGINT:
            signal.signal(number, before[signal.SIGINT] or signal.default_int_handler)
            raise KeyboardInterrupt
        received.append(number)

    kinds = [getattr(signal, name) for name in KINDS if hasattr(signal, name)]
    if "SIGHUP" in signal.Signals.__members__ and signal.getsignal(signal.SIGHUP) == signal.SIG_IGN:
        kinds.remove(signal.SIGHUP)  # nohup asked for it
    before = {kind: signal.signal(kind, receive) for kind in kinds}
    try:
        yield received
    finally:
        for kind, handler in before.items():
            signal.signal(kind, handler)
