"""Replies of accepted requests: one JSON value, or a stream of events.

    data: {"choices": [...]}          an event
    : ping                            silence
    data: [DONE]                      the end, or
    data: {"error": {...}}            an error, and no [DONE]

A client that leaves ends the computation: streams and plain replies are made beside a watcher.
"""

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any

from starlette.types import Receive, Scope, Send

from glassformer.serve.api.calls import Call
from glassformer.serve.api.problems import ClientGone, dumped, problem
from glassformer.serve.api.receiving import until_gone

Emit = Callable[[Any], Awaitable[None]]
"""Sends an event; None: a ping."""
EVENTS = {"content-type": "text/event-stream; charset=utf-8", "cache-control": "no-store"}
JSON = {"content-type": "application/json", "cache-control": "no-store"}


class Plain:
    """The JSON value that `work` gives."""

    def __init__(self, call: Call, work: Callable[[], Coroutine[Any, Any, Any]]):
        self.call, self.work = call, work

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """See ASGI."""
        with self.call:
            value = await until_gone(receive, self.call.limited(self.work()))
        body = dumped(value)
        await _start(send, 200, JSON | {"content-length": str(len(body))})
        await send({"type": "http.response.body", "body": body})


class Events:
    """The events that `work` emits."""

    def __init__(self, call: Call, work: Callable[[Emit], Coroutine[Any, Any, None]]):
        self.call, self.work = call, work

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """See ASGI."""
        with self.call:
            await until_gone(receive, self._sent(scope, send))

    async def _sent(self, scope: Scope, send: Send) -> None:
        async def write(data: bytes, more: bool = True) -> None:
            await send({"type": "http.response.body", "body": data, "more_body": more})

        async def emit(value: Any) -> None:
            await write(b": ping\n\n" if value is None else event(value))

        await _start(send, 200, EVENTS)
        try:
            await self.call.limited(self.work(emit))
            last = b"data: [DONE]\n\n"
        except Exception as error:  # noqa: BLE001 - the status is sent, the error is an event
            scope["facts"].failed(error)
            last = event(problem(error).body)
        try:
            async with asyncio.timeout(self.call.calls.limits.send):
                await write(last, more=False)
        except TimeoutError:
            raise ClientGone from None


def event(value: Any) -> bytes:
    """A value as an event."""
    return b"data: " + dumped(value) + b"\n\n"


async def _start(send: Send, status: int, headers: dict[str, str]) -> None:
    raw = [(name.encode(), value.encode()) for name, value in headers.items()]
    await send({"type": "http.response.start", "status": status, "headers": raw})
