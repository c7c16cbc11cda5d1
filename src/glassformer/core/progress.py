"""How a run tells where it is: a live line on a terminal, plain lines when piped; always on
stderr."""

import os
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from io import StringIO
from typing import TextIO

Listener = Callable[[str], None]
LEARNING = "learning"
"""Name of a thread that works in a library, and does not hear that the program ends."""
_LISTENER: ContextVar[Listener | None] = ContextVar("progress", default=None)
PLAIN_SECONDS = 10.0
SOON = 0.25
"""Seconds before training of which nothing is told."""


@contextmanager
def following(listener: Listener) -> Iterator[None]:
    """Give the listener the reports of the body."""
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
    """Report how many bytes of a file are read; a compressed one gives more than its `total`."""
    share = f" ({done / total:.0%})" if done <= total else ""
    report(f"reading {os.path.basename(file)}: {done / 1e6:,.0f} MB{share}")


@dataclass(frozen=True)
class Moment:
    """What is shown of one step."""

    step: int
    steps: int
    loss: float
    pace: str
    """How fast data go by."""
    share_of_peak: float
    seconds_left: float
    validation_loss: float | None = None


def line(moment: Moment) -> str:
    """One line: step, loss, speed, share of the machine's measured matrix-product peak, time
    left."""
    parts = [f"step {moment.step}/{moment.steps}", f"loss {moment.loss:.4f}"]
    if moment.validation_loss is not None:
        parts.append(f"validation {moment.validation_loss:.4f}")
    parts.append(moment.pace)
    if moment.share_of_peak <= 1:  # else it was measured too low
        parts.append(f"{moment.share_of_peak:.0%} of peak")
    return "  ".join([*parts, f"{clock(moment.seconds_left)} left"])


def clock(seconds: float) -> str:
    """Seconds as 1:02:03 or 2:03."""
    minutes, second = divmod(max(0, round(seconds)), 60)
    hours, minute = divmod(minutes, 60)
    return f"{hours}:{minute:02}:{second:02}" if hours else f"{minute}:{second:02}"


def size(n: float) -> str:
    """Bytes as 512 B, 1.5 GB."""
    for unit in ("B", "KB", "MB", "GB", "TB"):
        if n < 1000 or unit == "TB":
            break
        n /= 1000
    return f"{n:,.0f} {unit}" if unit in ("B", "KB", "MB") else f"{n:,.1f} {unit}"


class Progress:
    """Shows moments; messages are printed on lines of their own."""

    def __init__(self, stream: TextIO | StringIO | None = None, quiet: bool = False):
        self._stream = sys.stderr if stream is None else stream
        self._live = self._stream.isatty() and not quiet
        self._quiet, self._shown, self._width = quiet, 0.0, 0
        self._began, self._told = time.monotonic(), 0.0

    def message(self, text: str) -> None:
        """A line that stays."""
        if not self._quiet:
            self._erase()
            self._stream.write(text + "\n")
            self._stream.flush()

    def show(self, moment: Moment) -> None:
        """The newest moment: redrawn in place on a terminal; when piped, every ten seconds and at
        the end."""
        now, last = time.monotonic(), moment.step == moment.steps
        if not last and now - self._shown < (0.1 if self._live else PLAIN_SECONDS):
            return
        self._shown = now
        if self._live:
            self._draw(f"{bar(moment.step, moment.steps)} {line(moment)}")
        else:
            self.message(line(moment))

    def before(self, what: str) -> None:
        """What is done before training, if it takes long: in place on a terminal, every ten seconds
        when piped."""
        now, often = time.monotonic(), 0.2 if self._live else PLAIN_SECONDS
        if self._quiet or now - self._began < SOON or now - self._told < often:
            return
        self._told = now
        if self._live:
            self._draw(what)
        else:
            self.message(what)

    def _draw(self, text: str) -> None:
        """Write a line over the one that was drawn; one that wraps could not be redrawn."""
        text = text[: self._columns() - 1]
        self._stream.write("\r" + text.ljust(self._width))
        self._stream.flush()
        self._width = len(text)

    def close(self) -> None:
        """Leave the live line behind, as the last thing that was shown."""
        if self._width:
            self._width = 0
            self._stream.write("\n")
            self._stream.flush()

    def _columns(self) -> int:
        try:
            return os.get_terminal_size(self._stream.fileno()).columns or 80
        except (OSError, ValueError):
            return 80

    def _erase(self) -> None:
        if self._width:
            self._stream.write("\r" + " " * self._width + "\r")
            self._width = 0


def bar(done: int, total: int, width: int = 20) -> str:
    """A bar of block characters, `done` of `total`."""
    eighths = min(8 * width, round(width * 8 * done / max(1, total)))
    return ("█" * (eighths // 8) + " ▏▎▍▌▋▊▉"[eighths % 8] * (eighths % 8 > 0)).ljust(width, "·")
