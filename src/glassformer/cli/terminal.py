"""Text and lines of standard input, JSON to standard output.

A program that writes one line and waits gets its answer; of a file, many lines are taken together.
"""

import os
import sys
import time
from collections.abc import Iterable, Iterator, Sequence
from io import BufferedReader
from typing import Any, cast

from glassformer.core.errors import DataError
from glassformer.core.files import WINDOWS


def print_json(value: Any) -> None:
    """One line of strict JSON on stdout: a number that JSON does not have (NaN, infinity) is
    null."""
    import json

    from glassformer.core.files import finite

    print(json.dumps(finite(value), ensure_ascii=False, allow_nan=False).translate(LINE_ENDS))


END_KEY = "Ctrl-Z and Enter" if WINDOWS else "Ctrl-D"
"""What ends input that is typed."""
LINE_ENDS = {code: f"\\u{code:04x}" for code in (0x85, 0x2028, 0x2029)}
"""Characters that JSON may hold as they are, but that many programs read as the end of a line."""


def read_stdin(piped: bool = False) -> str:
    """All of standard input, which must be UTF-8; "" with `piped` on a terminal.

    On a terminal, a line on stderr says how to end it.
    """
    if sys.stdin.isatty():
        if piped:
            return ""
        sys.stderr.write(f"reading text from the terminal; end it with {END_KEY}\n")
    return _decode(sys.stdin.buffer.read(), "Standard input")


def _decode(raw: bytes, what: str) -> str:
    try:
        return raw.decode("utf-8")
    except UnicodeDecodeError as error:
        raise DataError(
            f"{what} is not UTF-8 (byte 0x{raw[error.start]:02x} at offset {error.start}); convert "
            "it first, for instance with iconv."
        ) from None


def first_process() -> bool:
    """Whether this process speaks for those that torchrun started with it."""
    return os.environ.get("RANK", "0") == "0"


def on_terminal() -> bool:
    """Whether stdout is a terminal."""
    return sys.stdout.isatty()


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
        from glassformer.core.progress import clock

        rate, of = self._done / (now - self._began), ""
        if self._total is not None:
            of = f" of {self._total:,}, {clock((self._total - self._done) / rate)} left"
        sys.stderr.write(
            f"{self._done:,} {self._noun}{of} in {clock(now - self._began)}, "
            f"{rate:.1f} {self._noun}/s\n"
        )
        self._reported = now


def number_groups(groups: Iterable[Sequence[str]]) -> Iterator[tuple[int, Sequence[str]]]:
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
    """Lines of standard input as they come: all that are there, at least one, at most `most` (fewer
    long ones).

    DataError: a line that is not UTF-8.
    """
    if sys.stdin.isatty():
        sys.stderr.write(f"type a line and press Enter; end with {END_KEY}\n")
    stream, rest, number = cast(BufferedReader, sys.stdin.buffer), b"", 1
    while arrived := stream.read1(READ):
        *lines, rest = (rest + arrived).split(b"\n")
        texts = [_line(raw, n) for n, raw in enumerate(lines, number)]
        number += len(lines)
        yield from (texts[at : at + most] for at in range(0, len(texts), most))
    if rest:
        yield [_line(rest, number)]


def _line(raw: bytes, number: int) -> str:
    return _decode(raw, f"Line {number} of standard input").rstrip("\r")
