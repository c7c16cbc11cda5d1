"""Admission: how much is in hand, and its end, which frees its place.

with admission.admit(1) as call:   ApiError 429: too much is in hand; 503: the server drains
    await call.limited(work())     ApiError 504 at the deadline, 503 at the end of the drain
"""

import asyncio
from collections.abc import Awaitable
from typing import Self, TypeVar

from glassformer.serve.api.limits import Limits
from glassformer.serve.api.metrics import Metrics
from glassformer.serve.api.problems import ApiError

Answer = TypeVar("Answer")
Accepted = TypeVar("Accepted", bound="Admitted")
AGAIN = {"Retry-After": "1"}


class Admitted:
    """One accepted request, which weighs so much."""

    def __init__(self, calls: "Admission", weight: int):
        self.calls, self.weight, self._timeout = calls, weight, None
        self.began = asyncio.get_running_loop().time()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def close(self) -> None:
        """Free the call's place."""
        self.calls.release(self)

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


class Admission:
    """All requests in hand; at most `limits.queue` of a unit."""

    def __init__(self, limits: Limits, metrics: Metrics, unit: str):
        self.limits, self.metrics, self.unit = limits, metrics, unit
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
            self.metrics.rejected.labels("draining").inc()
            raise ApiError(503, "The server is ending; send the request again.", headers=AGAIN)
        if self.weight + weight > self.limits.queue:
            self.metrics.rejected.labels("full").inc()
            raise ApiError(
                429,
                f"The server has {self.weight} {self.unit} in hand, and {self.limits.queue} is the "
                "most; send the request again in a moment.",
                code="queue_full",
                headers=AGAIN,
            )

    def admit(self, weight: int) -> Admitted:
        """Accept a request of this weight."""
        return self.accept(Admitted(self, weight))

    def accept(self, call: Accepted) -> Accepted:
        """Take a request in hand; errors of `check`."""
        if call.weight > self.limits.queue:
            raise ApiError(
                400,
                f"The request asks for {call.weight} {self.unit}, and {self.limits.queue} may be "
                "asked for at once; send it in parts.",
            )
        self.check(call.weight)
        self._open[call] = None
        self.weight += call.weight
        self._idle.clear()
        return call

    def release(self, call: Admitted) -> None:
        """Free a call's place, once."""
        if call in self._open:
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
