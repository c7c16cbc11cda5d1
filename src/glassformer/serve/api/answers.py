"""Replies of accepted requests: one JSON value, or a stream of events.

    data: {"choices": [...]}          an event
    : ping                            silence
    data: [DONE]                      the end, or
    data: {"error": {...}}            an error, and no [DONE]

A client that leaves ends the computation.
"""

import asyncio
from collections.abc import AsyncGenerator, Coroutine
from contextlib import aclosing
from typing import Any

from starlette.requests import Request
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from glassformer.serve.api.calls import Call
from glassformer.serve.api.envelope import GONE, facts_of
from glassformer.serve.api.problems import AsciiResponse, ClientGone, dumped, problem
from glassformer.serve.api.receiving import until_gone

NOT_STORED = {"cache-control": "no-store"}


async def json_reply(request: Request, call: Call, work: Coroutine[Any, Any, Any]) -> Response:
    """The JSON value that `work` gives."""
    with call:
        value = await until_gone(request.receive, call.limited(work))
        return AsciiResponse(value, headers=NOT_STORED)


class Events(Response):
    """The events that `items` has, None: a ping; in an accepted call."""

    media_type = "text/event-stream"

    def __init__(self, request: Request, call: Call, items: AsyncGenerator[Any]):
        super().__init__(headers=NOT_STORED)
        del self.headers["content-length"]
        self.facts, self.call, self.items = facts_of(request), call, items

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """See ASGI."""
        with self.call:
            try:
                await until_gone(receive, self._send(send))
            except ClientGone:
                self.facts.status = GONE

    async def _send(self, send: Send) -> None:
        async def write(data: bytes, more: bool = True) -> None:
            await send({"type": "http.response.body", "body": data, "more_body": more})

        async def emit() -> None:
            async with aclosing(self.items):
                async for item in self.items:
                    await write(b": ping\n\n" if item is None else event(item))

        await send({"type": "http.response.start", "status": 200, "headers": self.raw_headers})
        try:
            await self.call.limited(emit())
            last = b"data: [DONE]\n\n"
        except Exception as error:  # noqa: BLE001 - the status is sent, the error is an event
            self.facts.error = error
            last = event(problem(error).body)
        try:
            async with asyncio.timeout(self.call.calls.limits.send):
                await write(last, more=False)
        except TimeoutError:
            raise ClientGone from None


def event(value: Any) -> bytes:
    """A value as an event."""
    return b"data: " + dumped(value) + b"\n\n"
