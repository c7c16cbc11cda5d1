"""Lines of standard input, as every command reads them that answers a line by a line.

A program that writes one line and waits gets its answer; of a file, many lines are taken together.
Memory is bounded however long the input or its lines are.
"""

import os
import queue
import sys
import threading
import time
from collections.abc import Iterator
from typing import BinaryIO

from glassformer.errors import DataError
from glassformer.training.progress import clock

LONG = 1 << 12
"""A line counts as one more for each so many bytes."""
SAID_EVERY = 5.0


def chunks(most: int) -> Iterator[list[str]]:
    """Lines of standard input as they come: all that are there by now, at least one, at most `most`
    (fewer long ones).

    A thread reads ahead. DataError: a line that is not UTF-8.
    """
    if sys.stdin is None:
        return
    if sys.stdin.isatty():
        sys.stderr.write("type a line and press Enter; end with Ctrl-D\n")
    lines = _Ahead(maxsize=2 * most)
    # a stream of its own: a thread that waits in sys.stdin when the program ends would abort it
    stream = open(os.dup(sys.stdin.fileno()), "rb")  # noqa: SIM115 - the thread closes it
    reader = threading.Thread(target=_read, args=(stream, lines), daemon=True)
    reader.start()
    number, ended = 0, False
    while not ended:
        chunk: list[str] = []
        size = 0
        raw = lines.get()
        while raw is not None:
            number += 1
            chunk.append(_text(raw, number))
            size += _size(raw)
            if size >= most:
                break
            try:
                raw = lines.get_nowait()
            except queue.Empty:
                break
        ended = raw is None
        if chunk:
            yield chunk


def one_line(text: str) -> str:
    """A text that a line can hold: whatever ends a line becomes a space."""
    return " ".join(text.splitlines()) if text else text


class Lines:
    """Says on stderr how many lines are done, every few seconds and at the end of what took
    longer."""

    def __init__(self) -> None:
        self._begin = self._said = time.monotonic()
        self._number = 0

    def tell(self, number: int, last: bool = False) -> None:
        """`number` lines are done."""
        now = time.monotonic()
        due = now - self._said > SAID_EVERY or (last and now - self._begin > SAID_EVERY)
        if due and number > self._number:
            rate = number / (now - self._begin)
            sys.stderr.write(
                f"{number:,} lines in {clock(now - self._begin)}, {rate:.1f} lines/s\n"
            )
            self._said, self._number = now, number


class _Ahead(queue.Queue[bytes | None]):
    """Lines that were read and not yet taken, None at the end; its size is theirs, so that long
    ones are few."""

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
            f"offset {error.start}); "
            "convert it first, for instance with iconv."
        ) from None
