"""Lines of standard input, for the commands that answer each line.

A program that writes one line and waits gets its answer; of a file, many lines are taken together.
Memory is bounded however long the input or its lines are.
"""

import os
import queue
import sys
import threading
import time
from collections.abc import Iterable, Iterator, Sequence
from typing import BinaryIO

from glassformer.cli.terminal import END_KEY
from glassformer.errors import DataError

LONG = 1 << 12
"""A line counts as one more for each so many bytes."""
REPORT_EVERY = 5.0
"""Seconds between two lines of progress."""


class Pace:
    """Progress of long work, reported on stderr every few seconds: `120 lines in 0:07, 17.1
    lines/s`, with the time left if the number of all is known."""

    def __init__(self, noun: str, total: int | None = None):
        self._noun, self._total, self._done = noun, total, 0
        self._began = self._reported = time.monotonic()

    def add(self, done: int, last: bool = False) -> None:
        """Count more work; `last`: it ends here, and its sum is reported if it took long."""
        self._done += done
        now, since = time.monotonic(), self._began if last else self._reported
        if now - since <= REPORT_EVERY or not (done or last):
            return
        from glassformer.training.progress import clock

        rate, of = self._done / (now - self._began), ""
        if self._total is not None:
            of = f" of {self._total:,}, {clock((self._total - self._done) / rate)} left"
        sys.stderr.write(
            f"{self._done:,} {self._noun}{of} in {clock(now - self._began)}, "
            f"{rate:.1f} {self._noun}/s\n"
        )
        self._reported = now


def numbered(groups: Iterable[Sequence[str]]) -> Iterator[tuple[int, Sequence[str]]]:
    """Groups of lines, each with the number of its first line from 1.

    Output is flushed after each group, and progress is reported.
    """
    pace, number = Pace("lines"), 0
    for lines in groups:
        yield number + 1, lines
        number += len(lines)
        sys.stdout.flush()
        pace.add(len(lines))
    pace.add(0, last=True)


def chunks(most: int) -> Iterator[list[str]]:
    """Lines of standard input as they come: all that are there by now, at least one, at most `most`
    (fewer long ones).

    A thread reads ahead. DataError: a line that is not UTF-8.
    """
    if sys.stdin is None:
        return
    if sys.stdin.isatty():
        sys.stderr.write(f"type a line and press Enter; end with {END_KEY}\n")
    lines = _Ahead(maxsize=2 * most)
    # a stream of its own: a thread that waits in sys.stdin when the program ends would abort it
    stream = open(os.dup(sys.stdin.fileno()), "rb")  # noqa: SIM115 - the thread closes it
    reader = threading.Thread(target=_read, args=(stream, lines), daemon=True)
    reader.start()
    chunk: list[str] = []
    size = 0
    for number, raw in enumerate(iter(lines.get, None), 1):
        chunk.append(_text(raw, number))
        size += _size(raw)
        if size >= most or lines.empty():
            yield chunk
            chunk, size = [], 0
    if chunk:
        yield chunk


def one_line(text: str) -> str:
    """A text that a line can hold: whatever ends a line becomes a space."""
    return " ".join(text.splitlines()) if text else text


class _Ahead(queue.Queue[bytes | None]):
    """Lines that were read and not yet taken, None at the end; a long line counts as several."""

    def _init(self, maxsize: int) -> None:
        super()._init(maxsize)
        self._total = 0

    def _put(self, item: bytes | None) -> None:
        super()._put(item)
        self._total += _size(item)

    def _get(self) -> bytes | None:
        item = super()._get()
        self._total -= _size(item)
        return item

    def _qsize(self) -> int:
        return self._total


def _size(raw: bytes | None) -> int:
    return 1 + len(raw or b"") // LONG


def _read(stream: BinaryIO, lines: _Ahead) -> None:
    try:
        with stream:
            for raw in stream:
                lines.put(raw)
    finally:
        lines.put(None)


def _text(raw: bytes, number: int) -> str:
    try:
        return raw.decode("utf-8").rstrip("\r\n")
    except UnicodeDecodeError as error:
        raise DataError(
            f"Line {number} of standard input is not UTF-8 (byte 0x{raw[error.start]:02x} at "
            f"offset {error.start}); convert it first, for instance with iconv."
        ) from None
