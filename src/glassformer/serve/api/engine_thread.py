"""The one thread that computes: the seam between the event loop and everything that uses torch.

event loop                                this thread
add(text, sink) -> number      ──queue──> one step of each engine: a token of every text
abort(number)                  ──queue──> ...
batch(key, work, inputs)       ──queue──> all queued inputs with the same key in one call
sink(event, time), for all events of some steps, in one callback  <──
"""

import asyncio
import math
import time
from collections import deque
from collections.abc import Callable, Generator, Hashable, Sequence
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from queue import Empty, SimpleQueue
from threading import Event, Thread
from typing import Any, TypeVar

import torch

from glassformer.generate import Steps
from glassformer.serve.api.engines import Engines, News, Sink, TextRequest, contained

Answer = TypeVar("Answer")
SHORT, TURN = 0.003, 0.01
"""Seconds of a step of small operations, and those that the event loop gets behind it at most."""
PACE = 1 / 30
"""Seconds that tokens are kept until the event loop is told of them, but for a text's first and
last: sending costs as much as computing one."""
BEAT = 1.0
"""Seconds after which an idle thread shows that it lives."""
TOGETHER, AT_ONCE = 64, 4
"""Inputs of one micro-batch, about, and micro-batches that have begun."""
Work = Callable[[list[Any]], Sequence[Any] | Steps[Sequence[Any]]]
"""Takes a list and gives a list, at once or step by step."""


@dataclass
class _Job:
    """Inputs for a work."""

    key: Hashable
    work: Work
    inputs: list[Any]
    future: Future[list[Any]]


@dataclass
class _Begun:
    """A work that has begun, and the jobs that it is for."""

    jobs: list[_Job]
    steps: Steps[Sequence[Any]]


class EngineThread:
    """The thread with its queue of commands; `threads`: of each of torch's computations; `pace`:
    see `PACE`."""

    def __init__(
        self, threads: int | None = None, engines: Engines | None = None, pace: float = PACE
    ) -> None:
        self._commands: SimpleQueue[Callable[[], None] | None] = SimpleQueue()
        self.engines = Engines() if engines is None else engines  # an empty one is false
        self._jobs, self._begun, self._numbers = deque[_Job](), deque[_Begun](), 0
        self._loop: asyncio.AbstractEventLoop | None = None
        self._sent, self._kept = Event(), list[News]()
        """Whether the loop has sent what it was told; what it has not been told."""
        self._pace, self._told_at = pace, -math.inf
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
        return len(self.engines) + len(self._jobs) + len(self._begun)

    def add(self, text: TextRequest, sink: Sink) -> int:
        """Begin a text; `sink` is called on the running event loop. Gives the text's number."""
        self._loop, self._numbers = asyncio.get_running_loop(), self._numbers + 1
        self._commands.put(partial(self.engines.add, self._numbers, text, sink))
        return self._numbers

    def abort(self, number: int) -> None:
        """End a text within a step; one that has ended is none."""
        self._commands.put(partial(self.engines.abort, number))

    def batch(self, key: Hashable, work: Work, inputs: Sequence[Any]) -> "Future[list[Any]]":
        """`work(inputs)`, perhaps in one call with the inputs of others of the same key; it ends
        when nobody waits for it."""
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
            began = time.monotonic()
            self._kept += self.engines.step()
            now = time.monotonic()
            due = self._begun or self._jobs or now - self._told_at >= self._pace
            if self._kept and (due or any(one.urgent for one in self._kept)):
                self._told_at = now
                self._deliver(now - began)
            self._compute()

    def _taken(self) -> bool:
        """Do the commands that came, waiting for one if there is nothing else; False: the end."""
        idle = not self.load
        self.beat = time.monotonic()
        with suppress(Empty):
            while True:
                command = self._commands.get(block=idle, timeout=BEAT if idle else None)
                if command is None:
                    return False
                command()
                idle = False
        return True

    def _deliver(self, seconds: float) -> None:
        """Tell the loop of the events that were kept, behind a step of so many seconds. One of
        small operations hardly leaves Python's lock to it, so it gets it here until it has sent
        them."""
        news, self._kept = self._kept, []
        if self._loop is not None:
            self._sent.clear()
            with suppress(RuntimeError):  # the loop has ended, and nobody waits
                self._loop.call_soon_threadsafe(self._tell, self._loop, news)
                if seconds < SHORT:
                    self._sent.wait(TURN)

    def _tell(self, loop: asyncio.AbstractEventLoop, news: list[News]) -> None:
        """On the loop: wake who waits for these events."""
        for one in news:
            one.sink(one.event, one.time)
        loop.call_soon(self._sent.set)  # behind those that were woken

    def _compute(self) -> None:
        """Begin a micro-batch, if few have begun, and go one step on in the one whose turn it
        is."""
        if len(self._begun) < AT_ONCE and (jobs := self._together()):
            inputs = [one for job in jobs for one in job.inputs]
            self._begun.append(_Begun(jobs, _steps(jobs[0].work, inputs)))
        if self._begun:
            self._advance(self._begun.popleft())

    def _together(self) -> list[_Job]:
        """The first job that somebody waits for, and others of its key."""
        jobs, size = list[_Job](), 0
        for job in list(self._jobs):
            fits = not jobs or (job.key == jobs[0].key and size + len(job.inputs) <= TOGETHER)
            if job.future.cancelled():
                self._jobs.remove(job)
            elif fits:
                self._jobs.remove(job)
                jobs.append(job)
                size += len(job.inputs)
        return jobs

    def _advance(self, begun: _Begun) -> None:
        """Compute a step, if somebody waits for it."""
        jobs = begun.jobs
        if all(job.future.cancelled() for job in jobs):
            begun.steps.close()
            return
        try:
            with torch.inference_mode(False), torch.enable_grad():
                next(begun.steps)
        except StopIteration as end:
            _answer(jobs, list(end.value))
        except BaseException as error:  # noqa: BLE001 - raised where it is asked for
            if len(jobs) > 1:  # one of them fails, and only that one
                self._jobs.extendleft(replace(job, key=object()) for job in reversed(jobs))
            elif jobs[0].future.set_running_or_notify_cancel():
                jobs[0].future.set_exception(contained(error))
        else:
            self._begun.append(begun)


def _steps(work: Work, inputs: list[Any]) -> Steps[Sequence[Any]]:
    found = work(inputs)
    if isinstance(found, Generator):
        return (yield from found)
    return found


def _answer(jobs: list[_Job], results: list[Any]) -> None:
    begin = 0
    for job in jobs:
        end = begin + len(job.inputs)
        if job.future.set_running_or_notify_cancel():
            job.future.set_result(results[begin:end])
        begin = end
