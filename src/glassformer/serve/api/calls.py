"""Calls: accepted requests with what they compute, which ends with them.

call = calls.admit(weight=2)      in texts; see `admission`
with call:                        its texts are aborted at the end
    call.generate(0, text)
"""

import asyncio
import math
from contextlib import suppress
from functools import partial
from typing import Any

from glassformer.generate.request import Event
from glassformer.models.transformer import Transformer
from glassformer.serve.api.admission import Admission, Admitted
from glassformer.serve.api.engine_thread import EngineThread, Work
from glassformer.serve.api.engines import TextRequest
from glassformer.serve.api.limits import Limits
from glassformer.serve.api.metrics import Metrics
from glassformer.serve.api.problems import ApiError


class Call(Admitted):
    """One accepted request; `salt`: texts share computed prefixes with those of the same one."""

    def __init__(self, calls: "Calls", weight: int, salt: bytes):
        super().__init__(calls, weight)
        self.engine, self.salt = calls.engine, salt
        self._news, self._came = list[tuple[int, Event]](), asyncio.Event()
        self._numbers, self._last = dict[int, int](), dict[int, float]()
        """Numbers of texts in the engine; when the last token of each came."""
        self._futures = list[asyncio.Future[Any]]()

    def close(self) -> None:
        """Abort what is still computed, and free the call's place."""
        for index in list(self._numbers):
            self.abort(index)
        for future in self._futures:
            future.cancel()
        self._futures = []
        super().close()

    def generate(self, index: int, text: TextRequest) -> None:
        """Begin a text, whose tokens are `news`."""
        self._numbers[index] = self.engine.add(text, partial(self._add, index))

    def _add(self, index: int, event: Event, time: float) -> None:
        self._news.append((index, event))
        if not event.error:
            self._count(index, time)
        self._came.set()

    def abort(self, index: int) -> None:
        """End a text."""
        self.engine.abort(self._numbers.pop(index))

    def batch(self, key: Any, work: Work, inputs: Any) -> asyncio.Future[list[Any]]:
        """The coming results of a micro-batch."""
        future = asyncio.wrap_future(self.engine.batch(key, work, inputs))
        self._futures.append(future)
        return future

    async def news(self, patience: float) -> list[tuple[int, Event]]:
        """The tokens that came of all texts, each with the number that `generate` was given; none
        if none came for so many seconds."""
        with suppress(TimeoutError):
            async with asyncio.timeout(patience):
                await self._came.wait()
        self._came.clear()
        news, self._news = self._news, []
        return news

    def _count(self, index: int, now: float) -> None:
        """Measure the time of a token of a text, that came now."""
        metrics = self.calls.metrics
        seconds = metrics.inter_token if index in self._last else metrics.ttft
        seconds.observe(now - self._last.get(index, self.began))
        self._last[index] = now


class Calls(Admission):
    """All calls of a server."""

    def __init__(self, engine: EngineThread, limits: Limits, metrics: Metrics):
        super().__init__(limits, metrics, "texts")
        self.engine = engine

    def check_wait(self, model: Transformer) -> None:
        """Raise ApiError 429 where a text of a model is not expected to begin in time."""
        wait, most = self.engine.engines.expected_wait(model), self.limits.begin
        if wait > most:
            self.metrics.rejected.labels("slow").inc()
            raise ApiError(
                429,
                f"A new text would wait about {wait:.0f} seconds for the others of this model, and "
                f"{most:g} is the most; send the request again later.",
                code="queue_full",
                headers={"Retry-After": str(math.ceil(wait - most))},
            )

    def admit(self, weight: int = 1, salt: bytes = b"") -> Call:
        """Accept a request of so many sequences or batches."""
        return self.accept(Call(self, weight, salt))
