"""Ctrl-C and SIGTERM end a run after its step, so that it can be saved first."""

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def interruptions() -> Iterator[list[int]]:
    """A list that receives SIGINT and SIGTERM for the body; a second Ctrl-C raises
    KeyboardInterrupt at once.

    Outside the main thread signals cannot be caught, and the list stays empty.
    """
    received: list[int] = []
    if threading.current_thread() is not threading.main_thread():
        yield received
        return

    def receive(number: int, frame: object) -> None:
        if received and number == signal.SIGINT:
            raise KeyboardInterrupt
        received.append(number)

    kinds = (signal.SIGINT, signal.SIGTERM)
    before = [signal.signal(kind, receive) for kind in kinds]
    try:
        yield received
    finally:
        for kind, handler in zip(kinds, before, strict=True):
            signal.signal(kind, handler)
