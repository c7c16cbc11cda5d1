"""State that all handlers share: the models, the thread that computes, the calls.

body ─ FastAPI ─> request in its schema ─> model by its name ─> route ─> handler
"""

import asyncio
import time
from collections.abc import Callable, Coroutine
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Annotated, Any, TypeVar

from fastapi import Depends
from fastapi.routing import APIRoute
from starlette.requests import Request
from starlette.responses import Response

from glassformer.serve.api.access import Rules
from glassformer.serve.api.calls import Calls
from glassformer.serve.api.engine_thread import EngineThread
from glassformer.serve.api.engines import Panicked
from glassformer.serve.api.envelope import Log, facts_of
from glassformer.serve.api.limits import Limits
from glassformer.serve.api.metrics import Metrics
from glassformer.serve.api.models import Registry, Served
from glassformer.serve.api.problems import ApiError
from glassformer.serve.api.requests import ModelRequest

Answer = TypeVar("Answer")
STREAMED: dict[int | str, dict[str, Any]] = {
    200: {"content": {"text/event-stream": {"schema": {"type": "string"}}}}
}
"""Replies of a route that may stream, for the OpenAPI document."""

COUNTS = {
    "texts_running": "Texts that are being generated.",
    "texts_waiting": "Texts that wait for room in the cache.",
    "cache_pages": "Pages of keys and values.",
    "cache_pages_free": "Those of them that are free.",
}
"""Gauges of the engines' counts."""


@dataclass
class Service:
    """One server's state."""

    registry: Registry
    engine: EngineThread
    limits: Limits = field(default_factory=Limits)
    rules: Rules = field(default_factory=Rules)
    log: Log = field(default_factory=Log)
    metrics: Metrics = field(default_factory=Metrics)
    calls: Calls = field(init=False)

    def __post_init__(self) -> None:
        self.calls = Calls(self.engine, self.limits, self.metrics)
        self._pool = ThreadPoolExecutor(2, "prepare")
        calls, engine, gauge = self.calls, self.engine, self.metrics.gauge
        # first: the engine has given back the pages of a text that it does not count
        gauge("engine_load", "Texts and batches of the thread that computes.", lambda: engine.load)
        gauge("in_flight", "Requests that are being answered.", lambda: len(calls))
        gauge("queue_depth", "Texts and batches that are not finished.", lambda: calls.weight)
        for name, about in COUNTS.items():
            key = name.removeprefix("texts_").removeprefix("cache_")
            gauge(name, about, lambda key=key: engine.engines.counts[key])
        beat = lambda: time.monotonic() - engine.beat
        gauge("engine_heartbeat_age_seconds", "Seconds since that thread read its queue.", beat)

    async def prepare(
        self, work: Callable[..., Answer], *arguments: Any, light: bool = False
    ) -> Answer:
        """The result of `work` beside the event loop: tokenizing, templates, decoding of files; at
        once if it is light, since a thread would wait longer for its turn beside an engine."""
        if light:
            return _safely(work, *arguments)
        return await asyncio.get_running_loop().run_in_executor(
            self._pool, _safely, work, *arguments
        )

    def find_model(self, request: Request, asked: ModelRequest, route: str = "") -> Served:
        """Return the model of a request. ApiError: there is none, or it has not this route."""
        served = self.registry.named(asked.model)
        facts_of(request).model = served.id
        if route:
            served.check(route)
        return served

    def check_characters(self, texts: list[str]) -> None:
        """Raise ApiError 400 for more text than one request may have."""
        if (n := sum(map(len, texts))) > (most := self.limits.characters):
            raise ApiError(
                400, f"The inputs have {n:,} characters, more than {most:,}; send them in parts."
            )


class QueuedRoute(APIRoute):
    """A route that refuses a request before it reads it, if the queue has no room."""

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        """See `APIRoute`."""
        handle = super().get_route_handler()

        async def check(request: Request) -> Response:
            request.app.state.service.calls.check()
            return await handle(request)

        return check


async def _service(request: Request) -> Service:
    return request.app.state.service


Serving = Annotated[Service, Depends(_service)]
"""The server's state, as the argument of a handler."""


def _safely(work: Callable[..., Answer], *arguments: Any) -> Answer:
    """A library's panic as an error that handlers know."""
    try:
        return work(*arguments)
    except Exception:
        raise
    except BaseException as error:
        raise Panicked(type(error).__name__) from error
