"""Progress of long work: a live line on a terminal, plain lines when piped; always on stderr."""

import os
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from io import StringIO
from typing import TextIO

Listener = Callable[[str], None]
LEARNING = "learning"
"""Name of a thread that works in a library, and does not notice that the program ends."""
_LISTENER: ContextVar[Listener | None] = ContextVar("progress", default=None)
PLAIN_SECONDS = 10.0
SOON = 0.25
"""Seconds before training of which nothing is shown."""


@contextmanager
def following(listener: Listener) -> Iterator[None]:
    """Give the listener the reports of the body."""
    token = _LISTENER.set(listener)
    try:
        yield
    finally:
        _LISTENER.reset(token)


def report(what: str) -> None:
    """Report what is being done to the listener of this context."""
    if (listener := _LISTENER.get()) is not None:
        listener(what)


def report_reading(file: str, done: int, total: int) -> None:
    """Report how many bytes of a file are read; a compressed one gives more than its `total`."""
    share = f" ({done / total:.0%})" if done <= total else ""
    report(f"reading {os.path.basename(file)}: {done / 1e6:,.0f} MB{share}")


def clock(seconds: float) -> str:
    """Seconds as 1:02:03 or 2:03."""
    minutes, second = divmod(max(0, round(seconds)), 60)
    hours, minute = divmod(minutes, 60)
    return f"{hours}:{minute:02}:{second:02}" if hours else f"{minute}:{second:02}"


def size(n: float) -> str:
    """Bytes as 512 B, 1.5 GB."""
    for unit in ("B", "KB", "MB"):
        if n < 1000:
            return f"{n:,.0f} {unit}"
        n /= 1000
    return f"{n:,.1f} GB" if n < 1000 else f"{n / 1000:,.1f} TB"


class Progress:
    """Display of a training: one line that is redrawn, and messages on separate lines."""

    def __init__(self, stream: TextIO | StringIO | None = None, quiet: bool = False):
        self._stream = sys.stderr if stream is None else stream
        self._live = self._stream.isatty() and not quiet
        self._often = 0.1 if self._live else PLAIN_SECONDS
        self._quiet, self._shown, self._width = quiet, 0.0, 0
        self._begin, self._before = time.monotonic(), 0.0

    def message(self, text: str) -> None:
        """Print a line that stays."""
        if not self._quiet:
            erased = f"\r{' ' * self._width}\r" if self._width else ""
            self._write(f"{erased}{text}\n", 0)

    def show(self, step: int, steps: int, text: str) -> None:
        """Show a text on the newest step: redrawn in place on a terminal, beside a bar; when piped,
        every ten seconds and at the end."""
        now = time.monotonic()
        if step == steps or now - self._shown >= self._often:
            self._shown = now
            self._update(f"{bar(step, steps)} {text}" if self._live else text)

    def before(self, what: str) -> None:
        """Show work before training, if it takes long: in place on a terminal, every ten seconds
        when piped."""
        now = time.monotonic()
        if now - self._begin >= SOON and now - self._before >= self._often:
            self._before = now
            self._update(what)

    def _update(self, text: str) -> None:
        """Write a line over the one that was drawn, or one that stays."""
        if self._live:
            text = text[: self._columns() - 1]  # one that wraps could not be redrawn
            self._write(f"\r{text.ljust(self._width)}", len(text))
        else:
            self.message(text)

    def close(self) -> None:
        """End the live line, which stays as the last thing that was shown."""
        if self._width:
            self._write("\n", 0)

    def _write(self, text: str, width: int) -> None:
        self._stream.write(text)
        self._stream.flush()
        self._width = width

    def _columns(self) -> int:
        try:
            return os.get_terminal_size(self._stream.fileno()).columns or 80
        except (OSError, ValueError):
            return 80


def bar(done: int, total: int) -> str:
    """A bar of 20 block characters, `done` of `total`."""
    full, rest = divmod(min(160, round(160 * done / max(1, total))), 8)
    return ("█" * full + " ▏▎▍▌▋▊▉"[rest] * (rest > 0)).ljust(20, "·")
