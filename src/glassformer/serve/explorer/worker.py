"""The one thread that computes: requests in their order, and between two steps of a long one those
that came meanwhile.

Each computing thread keeps OpenMP helpers for its whole life. With more of them than processors,
OpenMP lets them sleep between two operations, and small operations take twice the time.
"""

import threading
from collections.abc import Callable
from concurrent.futures import Future
from contextlib import suppress
from contextvars import Context
from functools import partial
from queue import Empty, SimpleQueue
from typing import Any

import torch

DEEPEST = 8
"""Requests that may wait inside each other, each within a step of the one before."""


class Worker:
    """A thread with its tasks."""

    def __init__(self) -> None:
        self._tasks: SimpleQueue[tuple[Future[Any], Callable[[], Any]]] = SimpleQueue()
        self._depth, self._open = 0, True
        self._thread = threading.Thread(target=self._work, name="explorer", daemon=True)
        self._thread.start()

    def submit(self, work: Callable[..., Any], *arguments: Any) -> "Future[Any]":
        """Return the coming result of `work`."""
        future = Future[Any]()
        self._tasks.put((future, partial(work, *arguments)))
        return future

    def between(self) -> None:
        """Do what others wait for now; called by a task between two of its steps."""
        if threading.current_thread() is self._thread and self._depth < DEEPEST:
            for _ in range(self._tasks.qsize()):
                with suppress(Empty):  # taken within another task
                    self._do(*self._tasks.get_nowait())

    def close(self, seconds: float) -> None:
        """End after all tasks that are not cancelled, and wait for at most so long."""
        self.submit(setattr, self, "_open", False)
        self._thread.join(seconds)

    def _work(self) -> None:
        while self._open:
            self._do(*self._tasks.get())

    def _do(self, future: Future[Any], work: Callable[[], Any]) -> None:
        if not future.set_running_or_notify_cancel():
            return
        self._depth += 1
        try:
            # tapes and modes of the task that waits are not those of this one
            with torch.inference_mode(False), torch.enable_grad():
                future.set_result(Context().run(work))
        except BaseException as error:  # noqa: BLE001 - raised where the result is asked for
            future.set_exception(error)
        finally:
            self._depth -= 1
