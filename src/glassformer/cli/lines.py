"""Lines of standard input, for the commands that answer each line.

A program that writes one line and waits gets its answer; of a file, many lines are taken together.
"""

import sys
import time
from collections.abc import Iterable, Iterator, Sequence
from io import BufferedReader
from typing import cast

from glassformer.cli.terminal import END_KEY
from glassformer.core.errors import DataError

READ = 1 << 20
"""Bytes that are read together at most."""
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

    DataError: a line that is not UTF-8.
    """
    if sys.stdin is None:
        return
    if sys.stdin.isatty():
        sys.stderr.write(f"type a line and press Enter; end with {END_KEY}\n")
    stream, rest, number = cast(BufferedReader, sys.stdin.buffer), b"", 1
    while arrived := stream.read1(READ):
        *lines, rest = (rest + arrived).split(b"\n")
        texts = [_text(raw, n) for n, raw in enumerate(lines, number)]
        number += len(lines)
        yield from (texts[at : at + most] for at in range(0, len(texts), most))
    if rest:
        yield [_text(rest, number)]


def _text(raw: bytes, number: int) -> str:
    try:
        return raw.decode("utf-8").rstrip("\r")
    except UnicodeDecodeError as error:
        raise DataError(
            f"Line {number} of standard input is not UTF-8 (byte 0x{raw[error.start]:02x} at "
            f"offset {error.start}); convert it first, for instance with iconv."
        ) from None
