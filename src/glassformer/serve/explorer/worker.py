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
from queue import Empty, SimpleQueue
from typing import Any, TypeVar

import torch

Answer = TypeVar("Answer")
DEEPEST = 8
"""Requests that may stand still at once, each within a step of the one before."""


class Worker:
    """A thread with its tasks."""

    def __init__(self) -> None:
        self._tasks: SimpleQueue[tuple[Future[Any], Callable[[], Any]] | None] = SimpleQueue()
        self._depth, self._closed = 0, False
        self._thread = threading.Thread(target=self._work, name="explorer", daemon=True)
        self._thread.start()

    def submit(self, work: Callable[..., Answer], *arguments: Any) -> "Future[Answer]":
        """The coming result of `work`."""
        future: Future[Answer] = Future()
        if self._closed:
            future.cancel()
        else:
            self._tasks.put((future, lambda: work(*arguments)))
        return future

    def between(self) -> None:
        """Do what others wait for now; called by a task between two of its steps."""
        if threading.current_thread() is not self._thread or self._depth >= DEEPEST:
            return
        for _ in range(self._tasks.qsize()):
            try:
                task = self._tasks.get_nowait()
            except Empty:  # taken within another task
                return
            if task is None:
                self._tasks.put(None)
                return
            self._do(*task)

    def close(self, seconds: float) -> None:
        """End after the present task, which is waited for so long; the others are cancelled."""
        self._closed = True
        with suppress(Empty):
            while True:
                if (task := self._tasks.get_nowait()) is not None:
                    task[0].cancel()
        self._tasks.put(None)
        if threading.current_thread() is not self._thread:
            self._thread.join(seconds)

    def _work(self) -> None:
        while (task := self._tasks.get()) is not None:
            self._do(*task)
            del task  # or its answer would be kept until the next one comes
        self._closed = True
        with suppress(Empty):  # what came at the same moment
            while True:
                if (late := self._tasks.get_nowait()) is not None:
                    late[0].cancel()

    def _do(self, future: Future[Any], work: Callable[[], Any]) -> None:
        if not future.set_running_or_notify_cancel():
            return
        self._depth += 1
        try:
            # tapes and modes of the task that stands still are not those of this one
            with torch.inference_mode(False), torch.enable_grad():
                result = Context().run(work)
        except BaseException as error:  # noqa: BLE001 - raised where the result is asked for
            future.set_exception(error)
        else:
            future.set_result(result)
        finally:
            self._depth -= 1
