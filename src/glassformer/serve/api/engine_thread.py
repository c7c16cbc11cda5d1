"""The one thread that computes: the seam between the event loop and everything that uses torch.

event loop                          this thread
add(text), abort(text)    ──queue──> one step of each engine: a token of every text
batch(key, work, inputs)  ──queue──> a step of a micro-batch: all queued inputs of the same key
text.sink(event, time)    <──loop──  all events of some steps, in one callback
"""

import asyncio
import math
import time
from collections import deque
from collections.abc import Callable, Generator, Hashable, Iterator, Sequence
from concurrent.futures import Future
from contextlib import suppress
from contextvars import Context
from dataclasses import dataclass, replace
from functools import partial
from queue import Empty, SimpleQueue
from threading import Event as Flag
from threading import Thread
from typing import Any, TypeVar

import torch

from glassformer.models.transformer import Transformer
from glassformer.runtime.engine import Engine
from glassformer.runtime.memory import pool_of, program_of
from glassformer.runtime.prefixes import BLOCK
from glassformer.runtime.request import Event, Request
from glassformer.runtime.speculative import Drafts

Answer = TypeVar("Answer")
Steps = Generator[object, None, Answer]
"""A computation that yields between two steps, and returns its result."""
SHORT, TURN = 0.003, 0.01
"""SHORT: seconds of a step of small operations, which hardly leave Python's lock to the event loop.
TURN: longest wait for the loop after one."""
PACE = 1 / 30
"""Seconds that tokens are kept until the event loop gets them, except a text's first and last:
sending costs as much as computing one."""
BEAT = 1.0
"""Seconds after which an idle thread shows that it lives."""
TOGETHER, AT_ONCE = 64, 4
"""Inputs of one micro-batch, about, and micro-batches that have begun."""
Work = Callable[[list[Any]], Sequence[Any] | Steps[Sequence[Any]]]
"""Computes a result for each of a list of inputs, together or step by step."""


@dataclass(eq=False)
class Text:
    """A text for a model to write. `sink`: takes each event and its time (`time.monotonic`) on the
    event loop. `drafts`: proposes its tokens."""

    model: Transformer
    request: Request
    sink: Callable[[Event, float], None]
    drafts: Drafts | None = None
    place: tuple[Engine, int] | None = None
    """Its engine, and its number there."""
    begun: bool = False
    """Whether it has had an event."""


@dataclass
class _Job:
    """Inputs for a work."""

    key: Hashable
    work: Work
    inputs: list[Any]
    future: Future[list[Any]]


class EngineThread:
    """The thread with its queue of commands, and an `Engine` for each model that writes, made when
    its first text comes.

    `threads`: of each of torch's computations. `max_rows`, `cache_bytes`: those of each engine.
    `pace`: see `PACE`.
    """

    def __init__(
        self,
        threads: int | None = None,
        max_rows: int = 16,
        cache_bytes: int | None = None,
        pace: float = PACE,
    ) -> None:
        self.max_rows, self.cache_bytes, self._pace = max_rows, cache_bytes, pace
        self._commands: SimpleQueue[Callable[[], None] | None] = SimpleQueue()
        self._engines: dict[Transformer, Engine] = {}
        self.texts: dict[tuple[Engine, int], Text] = {}
        self._jobs = deque[_Job]()
        self._begun = deque[tuple[list[_Job], Iterator[object]]]()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._news, self._urgent = list[tuple[Text, Event, float]](), False
        """Events that the loop has not got; whether one of them is a text's first or last."""
        self._sent, self._sent_at = Flag(), -math.inf
        """Set when the loop has sent what it got; when it got it."""
        self.beat = time.monotonic()
        """When the thread last read its queue."""
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
        return len(self.texts) + len(self._jobs) + len(self._begun)

    @property
    def counts(self) -> dict[str, int]:
        """Texts that run and wait, pages of all engines, free ones, and pages of prompts that
        were known already."""
        engines = list(self._engines.values())
        return {
            "running": sum(len(one.running) for one in engines),
            "waiting": sum(len(one.queue.waiting) for one in engines),
            "pages": sum(one.pool.n_slots // BLOCK for one in engines),
            "pages_free": sum(one.pool.n_free // BLOCK for one in engines),
            "prefix_hits": sum(one.prefixes.hits for one in engines),
        }

    def check(self, model: Transformer) -> None:
        """Raise ConfigError for a model that writes, and for which the cache has no room."""
        if model.config.is_decoder_only and model.config.predicts_next:
            pool_of(model, program_of(model), 1, self.cache_bytes)

    def add(self, text: Text) -> None:
        """Begin a text of the running event loop; one that can never run has an error as its only
        event."""
        self._loop = asyncio.get_running_loop()
        self._commands.put(partial(self._add, text))

    def abort(self, text: Text) -> None:
        """End a text within a step, without an event; one that has ended is none."""
        self._commands.put(partial(self._abort, text))

    def batch(self, key: Hashable, work: Work, inputs: Sequence[Any]) -> "Future[list[Any]]":
        """`work(inputs)`, perhaps in one call with the inputs of others of the same key; it ends
        when nobody waits for it."""
        job = _Job(key, work, list(inputs), Future())
        self._commands.put(partial(self._jobs.append, job))
        return job.future

    def submit(self, work: Callable[..., Any], *arguments: Any) -> "Future[list[Any]]":
        """The result of `work`, computed without tapes that others have open."""
        return self.batch(object(), lambda _: [Context().run(work, *arguments)], [None])

    def call(self, work: Callable[..., Answer], *arguments: Any) -> Answer:
        """The result of `work` in the thread, before the server answers: another thread that
        computes would keep helpers of OpenMP, and small operations would take twice the time."""
        return self.submit(work, *arguments).result()[0]

    def close(self, seconds: float = 2.0) -> None:
        """End after the present step."""
        self._commands.put(None)
        self._thread.join(seconds)

    def _work(self) -> None:
        while self._obey():
            began = time.monotonic()
            self._step()
            now = time.monotonic()
            due = self._urgent or self._begun or self._jobs or now - self._sent_at >= self._pace
            if self._news and due:
                self._sent_at = now
                self._deliver(now - began)
            self._compute()

    def _obey(self) -> bool:
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

    def _add(self, text: Text) -> None:
        model, request = text.model, text.request
        try:
            if model not in self._engines:
                self._engines[model] = Engine(
                    model, max_rows=self.max_rows, cache_bytes=self.cache_bytes
                )
            engine = self._engines[model]
            request = text.drafts.drafted(request) if text.drafts else request
            text.place = engine, engine.add(request)
        except Exception as error:  # noqa: BLE001 - it is this text's, the others continue
            self._tell(text, Event(0, error=error), time.monotonic())
        else:
            self.texts[text.place] = text

    def _abort(self, text: Text) -> None:
        if text.place in self.texts:
            engine, number = text.place
            engine.abort(number)  # first: who sees no text any more sees its slots free
            del self.texts[text.place]

    def _step(self) -> None:
        """Compute a step of each engine that has texts."""
        for engine in self._engines.values():
            if engine.idle:
                continue
            events = engine.step()
            now = time.monotonic()
            for event in events:
                text = self.texts[place := (engine, event.request)]
                if event.finish or event.error:
                    del self.texts[place]
                self._tell(text, event, now)

    def _tell(self, text: Text, event: Event, now: float) -> None:
        """Keep an event for the loop."""
        self._urgent |= bool(event.finish or event.error or not text.begun)
        text.begun = True
        self._news.append((text, event, now))

    def _deliver(self, seconds: float) -> None:
        """Give the loop the events that were kept, after a step of these seconds; a short one lets
        it send them."""
        loop, news, self._news, self._urgent = self._loop, self._news, [], False
        assert loop is not None

        def send() -> None:
            for text, event, now in news:
                text.sink(event, now)
            loop.call_soon(self._sent.set)  # after those that were woken

        self._sent.clear()
        with suppress(RuntimeError):  # the loop has ended, and no one waits
            loop.call_soon_threadsafe(send)
            if seconds < SHORT:
                self._sent.wait(TURN)

    def _compute(self) -> None:
        """Begin a micro-batch, if few have begun, and compute a step of the one whose turn it
        is."""
        if len(self._begun) < AT_ONCE and (jobs := self._join()):
            self._begun.append((jobs, _steps(jobs)))
        if self._begun:
            jobs, steps = self._begun.popleft()
            if self._advance(jobs, steps):
                self._begun.append((jobs, steps))

    def _join(self) -> list[_Job]:
        """The first job that somebody waits for, and others of its key."""
        jobs, size = list[_Job](), 0
        for job in list(self._jobs):
            fits = not jobs or (job.key == jobs[0].key and size + len(job.inputs) <= TOGETHER)
            if fits or job.future.cancelled():
                self._jobs.remove(job)
            if fits and not job.future.cancelled():
                jobs.append(job)
                size += len(job.inputs)
        return jobs

    def _advance(self, jobs: list[_Job], steps: Iterator[object]) -> bool:
        """Compute a step, if somebody waits for it; return whether there are more."""
        if all(job.future.cancelled() for job in jobs):
            return False
        try:
            with torch.inference_mode(False), torch.enable_grad():
                next(steps)
        except StopIteration:
            return False
        except BaseException as error:  # noqa: BLE001 - raised where it is awaited
            if len(jobs) > 1:  # one of them fails, and only that one
                self._jobs.extendleft(replace(job, key=object()) for job in reversed(jobs))
            elif jobs[0].future.set_running_or_notify_cancel():
                jobs[0].future.set_exception(error)
            return False
        return True


def _steps(jobs: list[_Job]) -> Iterator[object]:
    """Compute the inputs of all jobs, and give each its results."""
    results, begin = jobs[0].work([one for job in jobs for one in job.inputs]), 0
    if isinstance(results, Generator):
        results = yield from results
    for job in jobs:
        end = begin + len(job.inputs)
        if job.future.set_running_or_notify_cancel():
            job.future.set_result(list(results[begin:end]))
        begin = end
