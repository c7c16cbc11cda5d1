"""The one thread that computes: the seam between the event loop and everything that uses torch.

event loop                                this thread
add(text, sink) -> number      ──queue──> one step of each engine: a token of every text
abort(number)                  ──queue──> ...
batch(key, work, inputs)       ──queue──> all queued inputs with the same key in one call
sink(event), for every event of a step, in one callback  <──
"""

import asyncio
import time
from collections import deque
from collections.abc import Callable, Hashable, Sequence
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from queue import Empty, SimpleQueue
from threading import Thread
from typing import Any, TypeVar

import torch

from glassformer.serve.api.engines import Engines, News, Sink, TextRequest, contained

Answer = TypeVar("Answer")
BEAT = 1.0
"""Seconds after which an idle thread shows that it lives."""
TOGETHER = 64
"""Inputs of one micro-batch, about."""


@dataclass
class _Job:
    """Inputs for a work that takes a list and gives a list."""

    key: Hashable
    work: Callable[[list[Any]], Sequence[Any]]
    inputs: list[Any]
    future: Future[list[Any]]


class EngineThread:
    """The thread with its queue of commands; `threads`: of each of torch's computations."""

    def __init__(self, threads: int | None = None, engines: Engines | None = None) -> None:
        self._commands: SimpleQueue[Callable[[], None] | None] = SimpleQueue()
        self.engines = Engines() if engines is None else engines  # an empty one is false
        self._jobs, self._numbers = deque[_Job](), 0
        self._loop: asyncio.AbstractEventLoop | None = None
        self.beat = time.monotonic()
        """When the thread last came by its queue."""
        self._thread = Thread(target=self._work, name="engine", daemon=True)
        self._thread.start()
        if threads is not None:
            self.call(torch.set_num_threads, threads)

    @property
    def alive(self) -> bool:
        """Whether the thread runs."""
        return self._thread.is_alive()

    @property
    def load(self) -> int:
        """Texts and batches that are not finished, about; for the metrics."""
        return len(self.engines) + len(self._jobs)

    def add(self, text: TextRequest, sink: Sink) -> int:
        """Begin a text; `sink` is called on the running event loop. Gives the text's number."""
        self._loop, self._numbers = asyncio.get_running_loop(), self._numbers + 1
        self._commands.put(partial(self.engines.add, self._numbers, text, sink))
        return self._numbers

    def abort(self, number: int) -> None:
        """End a text within a step; one that has ended is none."""
        self._commands.put(partial(self.engines.abort, number))

    def batch(
        self, key: Hashable, work: Callable[[list[Any]], Sequence[Any]], inputs: Sequence[Any]
    ) -> "Future[list[Any]]":
        """`work(inputs)`, perhaps in one call with the inputs of others of the same key; a future
        that is cancelled before is not computed."""
        future: Future[list[Any]] = Future()
        job = _Job(key, work, list(inputs), future)
        self._commands.put(lambda: self._jobs.append(job))
        return future

    def call(self, work: Callable[..., Answer], *arguments: Any) -> Answer:
        """The result of `work` in the thread; for the time before the server answers."""
        return self.batch(object(), lambda _: [work(*arguments)], [None]).result()[0]

    def close(self, seconds: float = 2.0) -> None:
        """End after the present step."""
        self._commands.put(None)
        self._thread.join(seconds)

    def _work(self) -> None:
        while self._taken():
            self._deliver(self.engines.step())
            self._compute()

    def _taken(self) -> bool:
        """Do the commands that came, waiting for one if there is nothing else; False: the end."""
        idle = not len(self.engines) and not self._jobs
        self.beat = time.monotonic()
        with suppress(Empty):
            while True:
                command = self._commands.get(block=idle, timeout=BEAT if idle else None)
                if command is None:
                    return False
                command()
                idle = False
        return True

    def _deliver(self, events: list[News]) -> None:
        if events and self._loop is not None:
            with suppress(RuntimeError):  # the loop has ended, and nobody waits
                self._loop.call_soon_threadsafe(_deliver, events)

    def _compute(self) -> None:
        """One micro-batch: the first job, and others of its key."""
        if not self._jobs:
            return
        first, jobs, size = self._jobs[0], list[_Job](), 0
        for job in list(self._jobs):
            if job.key == first.key and (not jobs or size + len(job.inputs) <= TOGETHER):
                self._jobs.remove(job)
                if job.future.running() or job.future.set_running_or_notify_cancel():
                    jobs.append(job)
                    size += len(job.inputs)
        try:
            self._answer(jobs)
        except BaseException as error:  # noqa: BLE001 - raised where it is asked for
            if len(jobs) == 1:
                jobs[0].future.set_exception(contained(error))
            else:  # one of them fails, and only that one
                for job in reversed(jobs):
                    self._jobs.appendleft(replace(job, key=object()))

    @staticmethod
    def _answer(jobs: list[_Job]) -> None:
        """Compute jobs in one call."""
        if not jobs:
            return
        with torch.inference_mode(False), torch.enable_grad():
            results = list(jobs[0].work([one for job in jobs for one in job.inputs]))
        begin = 0
        for job in jobs:
            job.future.set_result(results[begin : begin + len(job.inputs)])
            begin += len(job.inputs)


def _deliver(events: list[News]) -> None:
    for sink, event in events:
        sink(event)
