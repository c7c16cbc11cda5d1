"""One handler for all predictions; replies are one JSON value, or a stream of events.

    data: {"choices": [...]}          an event
    data: [DONE]                      the end, or
    data: {"error": {...}}            an error, and no [DONE]

A route is a name, the schemas of its request and its reply, and a function that reads a request as
a job. A client that leaves ends the computation.
"""

import asyncio
from collections.abc import AsyncGenerator, Callable, Coroutine
from contextlib import aclosing
from typing import Any

from fastapi import FastAPI
from fastapi.routing import APIRoute
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from glassformer.serve.api.admission import Admitted, until_gone
from glassformer.serve.api.envelope import GONE, Facts, facts_of
from glassformer.serve.api.models import Served
from glassformer.serve.api.problems import AsciiResponse, ClientGone, dumped, problem
from glassformer.serve.api.requests import ModelRequest
from glassformer.serve.api.service import Serving

LIGHT = 1 << 12
"""Bytes of a body whose text is tokenized in less than a few milliseconds."""
NOT_STORED = {"cache-control": "no-store"}
STREAMED: dict[int | str, dict[str, Any]] = {
    200: {"content": {"text/event-stream": {"schema": {"type": "string"}}}}
}
"""Replies of a route that may stream, for the OpenAPI document."""


class QueuedRoute(APIRoute):
    """A route that refuses a request before it reads it, if the queue has no room."""

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        """See `APIRoute`."""
        handle = super().get_route_handler()

        async def check(request: Request) -> Response:
            request.app.state.service.calls.check()
            return await handle(request)

        return check


def add_route(
    app: FastAPI,
    route: str,
    kind: type[ModelRequest],
    reply: Any,
    read: Callable[[Served, Any], Any],
) -> None:
    """Add a prediction at /v1/ROUTE. `read` makes a job of a request and documents the route; a job
    has a `weight`, computes a `value` and, if it may stream, `events`."""

    async def handle(asked: Any, request: Request, service: Serving) -> Response:
        served, facts = service.find_model(request, asked.model, route), facts_of(request)
        service.check_characters(getattr(asked, "input", ""))
        light = asked.is_light and len(await request.body()) <= LIGHT
        job = await service.prepare(read, served, asked, light=light)
        call = service.calls.admit(job.weight)
        if getattr(asked, "stream", None):
            return Events(call, facts, job.events(service, call, facts))
        with call:
            work = call.limited(job.value(service, call, facts))
            return AsciiResponse(await until_gone(request.receive, work), headers=NOT_STORED)

    handle.__annotations__["asked"] = kind  # FastAPI reads the schema of the body here
    app.router.add_api_route(
        f"/v1/{route}",
        handle,
        methods=["POST"],
        name=read.__name__,
        description=read.__doc__,
        response_model=reply,
        responses=STREAMED if "stream" in kind.model_fields else None,
        route_class_override=QueuedRoute,
    )


class Events(Response):
    """The events that `items` has, in an accepted call."""

    media_type = "text/event-stream"

    def __init__(self, call: Admitted, facts: Facts, items: AsyncGenerator[dict[str, Any]]):
        super().__init__(headers=NOT_STORED)
        del self.headers["content-length"]
        self.call, self.facts, self.items = call, facts, items

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
                    await write(_event(item))

        await send({"type": "http.response.start", "status": 200, "headers": self.raw_headers})
        last = b"data: [DONE]\n\n"
        try:
            await self.call.limited(emit())
        except Exception as error:  # noqa: BLE001 - the status is sent, the error is an event
            self.facts.error = error
            last = _event(problem(error).body)
        try:
            async with asyncio.timeout(self.call.calls.limits.send):
                await write(last, more=False)
        except TimeoutError:
            raise ClientGone from None


def _event(value: Any) -> bytes:
    return b"data: " + dumped(value) + b"\n\n"
