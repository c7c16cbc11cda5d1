"""How far work before training has come, in a few words, told to whoever listens in this context.

with following(print):
    ...                        prints "reading corpus.txt: 120 MB (12%)", often
"""

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar

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


def report_reading(file: str, done: int, total: int) -> None:
    """Say that so many bytes of a file are read, of so many; a compressed one gives more than it
    has."""
    share = f" ({done / total:.0%})" if done <= total else ""
    report(f"reading {os.path.basename(file)}: {done / 1e6:,.0f} MB{share}")
