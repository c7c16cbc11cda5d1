"""Signals, where they can be handled: in the main thread, and those that the system has."""

import math
import os
import signal
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from typing import Any

STOPPING = ("SIGINT", "SIGTERM", "SIGHUP", "SIGBREAK")
"""Ctrl-C, the request to end, a terminal that is closed, and on Windows Ctrl-Break or a closed
console."""
ECHO = 1.0
"""Seconds in which a signal may come again."""
INTERRUPTED = 128 + signal.SIGINT
"""Exit code after Ctrl-C."""
TERMINATED = int(signal.SIGTERM)
"""The number of the request to end."""
KILLED = int(getattr(signal, "SIGKILL", signal.SIGTERM))
"""The number of what no process survives, also one that is stopped."""


@dataclass
class Stop:
    """A request to stop: `signal`, the first that came; None: none has."""

    signal: int | None = None


@contextmanager
def handle(handler: Callable[[int, Any], None], *names: str) -> Iterator[dict[int, Any]]:
    """Handle the signals of these names in the body, and put their handlers back; gives the
    handlers before.

    A signal that the system lacks is left out, and so is SIGHUP if it is ignored, as by nohup.
    Outside the main thread nothing is handled.
    """
    kinds = _signals(names) if threading.current_thread() is threading.main_thread() else []
    before: dict[int, Any] = {}
    for kind in kinds:
        if kind not in _signals(["SIGHUP"]) or signal.getsignal(kind) != signal.SIG_IGN:
            before[kind] = signal.signal(kind, handler)
    try:
        yield before
    finally:
        for kind, own in before.items():
            signal.signal(kind, own)


def ignore_requests_to_stop() -> None:
    """Ignore `STOPPING` signals in a process that its parent ends."""
    for kind in _signals(STOPPING):
        signal.signal(kind, signal.SIG_IGN)


def _signals(names: Iterable[str]) -> list[int]:
    """The signals of these names that the system has."""
    return [getattr(signal, name) for name in names if hasattr(signal, name)]


@contextmanager
def interruptions(stop: Stop) -> Iterator[None]:
    """Let a `STOPPING` signal request a stop in the body; a second one does not wait: Ctrl-C does
    what it did before, others exit with 128 + their number.

    Within `ECHO` seconds of the first, others count as the same: a launcher sends the signal that
    it gets to its processes, which may have got it themselves.
    """
    began = math.inf

    def receive(number: int, frame: object) -> None:
        nonlocal began
        if stop.signal and number == signal.SIGINT:
            signal.signal(number, before[number] or signal.default_int_handler)
            raise KeyboardInterrupt
        if stop.signal and time.monotonic() - began > ECHO:
            raise SystemExit(128 + number)
        if stop.signal is None:
            began, stop.signal = time.monotonic(), number

    with handle(receive, *STOPPING) as before:
        yield


def each_interrupts() -> AbstractContextManager[dict[int, Any]]:
    """Let every Ctrl-C raise KeyboardInterrupt in the body, however many there are."""
    return handle(signal.default_int_handler, "SIGINT")


def end_at_second_interrupt() -> None:
    """Let a second Ctrl-C end the program, wherever it tidies up after the first.

    Nothing is lost by it: what is half written lies beside its place.
    """

    def first(number: int, frame: object) -> None:
        signal.signal(number, second)
        raise KeyboardInterrupt

    def second(number: int, frame: object) -> None:
        os._exit(128 + number)

    ours = threading.current_thread() is threading.main_thread()
    if ours and signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, first)
