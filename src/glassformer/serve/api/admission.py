"""Admission: limits, a count of the requests in hand, and work for one of them.

with admission.admit(1) as call:   ApiError 429: too much is in hand; 503: the server drains
    call.callback(...)             called at its end
    await until_gone(receive, call.limit(work()))
                                   ApiError 504 at the deadline, 503 at the end of the drain;
                                   ClientGone if the client leaves
"""

import asyncio
from collections.abc import Awaitable, Coroutine
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any, TypeVar

from starlette.types import Receive

from glassformer.serve.api.problems import ApiError, ClientGone

Answer = TypeVar("Answer")
AGAIN = {"Retry-After": "1"}


@dataclass(frozen=True)
class Limits:
    """Sizes, counts and seconds."""

    body: int = 1 << 20
    """Bytes of a request."""
    remedy: str = "send less, or start the server with a larger --max-body"
    """Advice for a larger one."""
    queue: int = 256
    """Sequences and micro-batches that are accepted and not finished."""
    unit: str = "texts"
    """How sentences call them."""
    characters: int = 1 << 18
    """Characters of all texts of a request for a model that reads long texts in windows."""
    deadline: float = 300.0
    """Seconds of a request."""
    send: int = 30
    """Seconds in which a client must read something of its reply."""
    drain: float = 30.0
    """Seconds that running requests have after SIGTERM."""
    connections: int = 1024
    """Connections; a request on one more is refused with 503."""
    keep_alive: int = 5
    """Seconds that an idle connection stays open."""

    @property
    def too_large(self) -> str:
        """The sentence for a request with more than `body` bytes."""
        return f"The request is larger than {self.body:,} bytes; {self.remedy}."


class Admitted(ExitStack):
    """One accepted request of a weight; at its end its callbacks are called and its place is
    free."""

    def __init__(self, calls: "Admission", weight: int):
        super().__init__()
        self.calls, self.weight, self._timeout = calls, weight, None
        self.began = asyncio.get_running_loop().time()

    def expire(self) -> None:
        """End the call now, with an error."""
        if self._timeout is not None:
            self._timeout.reschedule(asyncio.get_running_loop().time())

    async def limit(self, work: Awaitable[Answer]) -> Answer:
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


class Admission:
    """All requests in hand; at most `limits.queue` of a unit."""

    def __init__(self, limits: Limits):
        self.limits, self.unit = limits, limits.unit
        self.draining = self.expired = False
        self.weight = 0
        """Weight of all that is not finished."""
        self._open: dict[Admitted, None] = {}
        self._idle = asyncio.Event()
        self._idle.set()

    def __len__(self) -> int:
        return len(self._open)

    def check(self, weight: int = 1) -> None:
        """Raise ApiError 503 for a server that drains, 429 for a queue without room."""
        if self.draining:
            raise ApiError(503, "The server is ending; send the request again.", headers=AGAIN)
        if self.weight + weight > self.limits.queue:
            raise ApiError(
                429,
                f"The server has {self.weight} {self.unit} in hand, and {self.limits.queue} is the "
                "most; send the request again in a moment.",
                code="queue_full",
                headers=AGAIN,
            )

    def admit(self, weight: int = 1) -> Admitted:
        """Accept a request; ApiError 400 if it can never be, and the errors of `check`."""
        if weight > self.limits.queue:
            raise ApiError(
                400,
                f"The request asks for {weight} {self.unit}, and {self.limits.queue} may be "
                "asked for at once; send it in parts.",
            )
        self.check(weight)
        call = Admitted(self, weight)
        self._open[call] = None
        self.weight += weight
        self._idle.clear()
        call.callback(self._release, call)
        return call

    def _release(self, call: Admitted) -> None:
        del self._open[call]
        self.weight -= call.weight
        if not self._open:
            self._idle.set()

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
    watch = asyncio.ensure_future(_cancel_when_gone(receive, task))
    try:
        await asyncio.wait({task, watch}, return_when=asyncio.FIRST_COMPLETED)
        if task.cancelled() or not task.done():
            raise ClientGone
        return task.result()
    finally:
        for one in (task, watch):
            one.cancel()
        await asyncio.gather(task, watch, return_exceptions=True)


async def _cancel_when_gone(receive: Receive, work: asyncio.Future[Any]) -> None:
    """Cancel work when its client leaves, before it continues to send to no one."""
    while (await receive())["type"] != "http.disconnect":
        pass
    work.cancel()
