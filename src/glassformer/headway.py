"""How far work before training has come, in a few words, told to whoever listens in this context.

with following(print):
    ...                        prints "reading corpus.txt: 120 MB (12%)", often
"""

import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from datetime import timedelta

Listener = Callable[[str], None]
LEARNING = "learning"
"""Name of a thread that works in a library, and does not hear that the program ends."""
_LISTENER: ContextVar[Listener | None] = ContextVar("headway", default=None)


@contextmanager
def following(listener: Listener) -> Iterator[None]:
    """Tell the listener what is done in the body."""
    token = _LISTENER.set(listener)
    try:
        yield
    finally:
        _LISTENER.reset(token)


def report(what: str) -> None:
    """Say what is being done."""
    if (listener := _LISTENER.get()) is not None:
        listener(what)


class Pace:
    """How far work on so many bytes has come: reports have its rate and the time left.

    encoding text: 320 of 1,000 MB, 8.1 MB/s, 0:01:24 left
    """

    def __init__(self, doing: str, total: int):
        self._doing, self._total = doing, total
        self._done, self._kept, self._began = 0, 0, time.monotonic()

    def add(self, done: int, kept: bool = False) -> None:
        """So many bytes more are done; `kept`: they were before this work began."""
        self._done += done
        self._kept += done if kept else 0
        seconds, worked = time.monotonic() - self._began, self._done - self._kept
        told = f"{self._doing}: {self._done / 1e6:,.0f} of {self._total / 1e6:,.0f} MB"
        if worked and seconds:
            left = timedelta(seconds=round((self._total - self._done) * seconds / worked))
            told += f", {worked / seconds / 1e6:.1f} MB/s, {left} left"
        report(told)


def report_reading(file: str, done: int, total: int) -> None:
    """Say that so many bytes of a file are read, of so many; a compressed one gives more than it
    has."""
    share = f" ({done / total:.0%})" if done <= total else ""
    report(f"reading {os.path.basename(file)}: {done / 1e6:,.0f} MB{share}")
