"""Calls: requests that were accepted. Admission, deadlines, drain, and what ends with a call.

call = calls.admit(weight=2)      ApiError 429: the queue is full; 503: the server drains
with call:                        its texts are aborted and its place is free at the end
    await call.limited(work())    ApiError 504 at the deadline, 503 at the end of the drain
"""

import asyncio
import time
from collections.abc import Awaitable, Callable, Coroutine, MutableMapping
from contextlib import suppress
from functools import partial
from typing import Any, Self, TypeVar

from glassformer.engine import Event
from glassformer.serve.api.engine_thread import EngineThread, Work
from glassformer.serve.api.engines import TextRequest
from glassformer.serve.api.limits import Limits
from glassformer.serve.api.metrics import Metrics
from glassformer.serve.api.problems import ApiError, ClientGone

Answer = TypeVar("Answer")
Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
AGAIN = {"Retry-After": "1"}


class Call:
    """One accepted request; `salt`: texts share computed prefixes with those of the same one."""

    def __init__(self, calls: "Calls", weight: int, salt: bytes):
        self.calls, self.weight, self.salt = calls, weight, salt
        self.began = asyncio.get_running_loop().time()
        self._news, self._came = list[tuple[int, Event]](), asyncio.Event()
        self._numbers, self._timeout = dict[int, int](), None
        self._last = dict[int, float]()
        """When the last token of a text came."""
        self._futures = list[asyncio.Future[Any]]()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def close(self) -> None:
        """Abort what is still computed, and free the call's place."""
        for index in list(self._numbers):
            self.abort(index)
        for future in self._futures:
            future.cancel()
        self._futures = []
        self.calls.release(self)

    def generate(self, index: int, text: TextRequest) -> None:
        """Begin a text, whose tokens are `news`."""
        self._numbers[index] = self.calls.engine.add(text, partial(self._add, index))

    def _add(self, index: int, event: Event) -> None:
        self._news.append((index, event))
        self._came.set()

    def abort(self, index: int) -> None:
        """End a text."""
        self.calls.engine.abort(self._numbers.pop(index))

    def batch(self, key: Any, work: Work, inputs: Any) -> asyncio.Future[list[Any]]:
        """The coming results of a micro-batch."""
        future = asyncio.wrap_future(self.calls.engine.batch(key, work, inputs))
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

    def count(self, index: int, now: float) -> None:
        """Measure the time of a token of a text, that came now."""
        name = "inter_token_seconds" if index in self._last else "ttft_seconds"
        self.calls.metrics.time(name, now - self._last.get(index, self.began))
        self._last[index] = now

    def expire(self) -> None:
        """End the call now, with an error."""
        if self._timeout is not None:
            self._timeout.reschedule(asyncio.get_running_loop().time())

    async def limited(self, work: Awaitable[Answer]) -> Answer:
        """The result of `work` within the deadline."""
        try:
            async with asyncio.timeout_at(self.began + self.calls.limits.deadline) as self._timeout:
                return await work
        except TimeoutError:
            if self.calls.expired:
                raise ApiError(
                    503, "The server is ending and did not finish this request; send it again."
                ) from None
            raise ApiError(
                504,
                f"The request took more than {self.calls.limits.deadline:g} seconds; send a "
                "shorter one.",
                headers={"x-should-retry": "false"},
            ) from None
        finally:
            self._timeout = None


class Calls:
    """All calls of a server."""

    def __init__(self, engine: EngineThread, limits: Limits, metrics: Metrics):
        self.engine, self.limits, self.metrics = engine, limits, metrics
        self.draining = self.expired = False
        self.weight = 0
        """Sequences and batches that were accepted and are not finished."""
        self._open: dict[Call, None] = {}
        self._idle = asyncio.Event()
        self._idle.set()

    def __len__(self) -> int:
        return len(self._open)

    def check(self, weight: int = 1) -> None:
        """Raise ApiError 503 for a server that drains, 429 for a queue without room."""
        if self.draining:
            self.metrics.count("rejected_total", labels=("draining",))
            raise ApiError(503, "The server is ending; send the request again.", headers=AGAIN)
        if self.weight + weight > self.limits.queue:
            self.metrics.count("rejected_total", labels=("full",))
            raise ApiError(
                429,
                f"The server has {self.weight} texts in hand, and {self.limits.queue} is the "
                "most; send the request again in a moment.",
                code="queue_full",
                headers=AGAIN,
            )

    def admit(self, weight: int = 1, salt: bytes = b"") -> Call:
        """Accept a request of so many sequences or batches; errors of `check`."""
        if weight > self.limits.queue:
            raise ApiError(
                400,
                f"The request asks for {weight} texts, and {self.limits.queue} may be asked for "
                "at once; send it in parts.",
            )
        self.check(weight)
        call = Call(self, weight, salt)
        self._open[call] = None
        self.weight += weight
        self._idle.clear()
        return call

    def release(self, call: Call) -> None:
        """Free a call's place, once."""
        if call in self._open:
            del self._open[call]
            self.weight -= call.weight
            if not self._open:
                self._idle.set()

    @property
    def begin_by(self) -> float:
        """When a text that is accepted now must have begun."""
        return time.monotonic() + self.limits.begin

    async def drain(self, seconds: float) -> None:
        """Accept nothing more; wait for what runs, and end the rest with an error."""
        self.draining = True
        try:
            async with asyncio.timeout(seconds):
                await self._idle.wait()
        except TimeoutError:
            self.expired = True
            for call in list(self._open):
                call.expire()
            await self._idle.wait()


async def until_gone(receive: Receive, work: Coroutine[Any, Any, Answer]) -> Answer:
    """The result of `work`, which is cancelled when the client leaves: then ClientGone."""
    task = asyncio.ensure_future(work)
    watch = asyncio.ensure_future(_gone(receive, task))
    try:
        await asyncio.wait({task, watch}, return_when=asyncio.FIRST_COMPLETED)
        if task.cancelled() or not task.done():
            raise ClientGone
        return task.result()
    finally:
        for one in (task, watch):
            one.cancel()
        await asyncio.gather(task, watch, return_exceptions=True)


async def _gone(receive: Receive, work: asyncio.Future[Any]) -> None:
    """Cancel work when its client leaves, before it goes on sending to nobody."""
    while (await receive())["type"] != "http.disconnect":
        pass
    work.cancel()
