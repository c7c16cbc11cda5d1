"""State that all handlers share, and the one handler of predictions. A stream is:

    data: {"choices": [...]}          an event of a stream
    data: [DONE]                      its end, or
    data: {"error": {...}}            an error, and no [DONE]

A route is a name, the schemas of its request and its reply, and a function that reads a request as
a job. A client that leaves ends the computation.
"""

import asyncio
import time
from collections.abc import AsyncGenerator, Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import aclosing
from dataclasses import dataclass, field
from functools import cached_property
from typing import Annotated, Any, TypeVar

from fastapi import Depends, FastAPI
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from glassformer.core.errors import suggest
from glassformer.run import Run
from glassformer.runtime.speculative import Drafts
from glassformer.serve.api.access import Rules
from glassformer.serve.api.admission import Admission, Admitted, Limits, until_gone
from glassformer.serve.api.engine_thread import EngineThread
from glassformer.serve.api.envelope import GONE, Facts, Log, Metrics, facts_of
from glassformer.serve.api.problems import ApiError, AsciiResponse, ClientGone, problem, to_json
from glassformer.serve.api.requests import ModelRequest

Answer = TypeVar("Answer")
COMPLETIONS, CHAT, EMBEDDINGS = "completions", "chat/completions", "embeddings"
LIGHT = 1 << 12
"""Bytes of a body whose text is tokenized in less than a few milliseconds."""
NOT_STORED = {"cache-control": "no-store"}
STREAMED: dict[int | str, dict[str, Any]] = {
    200: {"content": {"text/event-stream": {"schema": {"type": "string"}}}}
}
"""Replies of a route that may stream, for the OpenAPI document."""


@dataclass(frozen=True)
class Served:
    """A run and its name; `drafts`: what proposes its tokens."""

    id: str
    run: Run
    drafts: Drafts | None = None
    created: int = field(default_factory=lambda: int(time.time()))

    @cached_property
    def routes(self) -> tuple[str, ...]:
        """The routes below /v1/ that it answers."""
        predictors = self.run.task.predictors.values()
        return tuple(route for one in predictors for route in one.routes)

    def check(self, route: str) -> None:
        """Raise ApiError 400 for a route that is another model's."""
        if route in self.routes:
            return
        own = " and ".join(f"/v1/{one}" for one in self.routes)
        said, *_ = self.run.task.lack(route) or [f"is for {self.run.task.recipe.task}"]
        sentence = f"The model {self.id!r} {said}. It answers {own}, not /v1/{route}."
        raise ApiError(400, sentence, "model", "model_not_supported")

    def card(self) -> dict[str, Any]:
        """The model as /v1/models lists it."""
        run = self.run
        return {
            "id": self.id,
            "object": "model",
            "created": self.created,
            "owned_by": "glassformer",
            "task": run.task.recipe.task,
            "max_length": run.model.config.max_length,
            "routes": [f"/v1/{route}" for route in self.routes],
            "input": run.processor.schema(),
            "output": run.task.schema(),
        }


@dataclass
class Service:
    """One server's state."""

    models: dict[str, Served]
    engine: EngineThread
    limits: Limits = field(default_factory=Limits)
    rules: Rules = field(default_factory=Rules)
    log: Log = field(default_factory=Log)

    def __post_init__(self) -> None:
        self.calls = Admission(self.limits)
        self.metrics = Metrics(self.engine, self.calls)
        self._pool = ThreadPoolExecutor(2, "prepare")

    async def prepare(self, work: Callable[..., Answer], *arguments: object) -> Answer:
        """The result of `work` beside the event loop: tokenizing, templates, decoding of files."""
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(self._pool, work, *arguments)

    def find_model(self, request: Request, name: str) -> Served:
        """The model of a request; ApiError 404: there is none."""
        if (served := self.models.get(name)) is None:
            tail = suggest(name[:128], self.models)
            raise ApiError(
                404, f"There is no model {name[:128]!r}; {tail}.", "model", "model_not_found"
            )
        facts_of(request).model = name
        return served

    def check_characters(self, given: Any) -> None:
        """Raise ApiError 400 for more text than one request may have."""
        if (n := _characters(given)) > (most := self.limits.characters):
            raise ApiError(
                400, f"The inputs have {n:,} characters, more than {most:,}; send them in parts."
            )


def _characters(given: Any) -> int:
    """Characters of all texts of an input."""
    match given:
        case str():
            return len(given)
        case list():
            return sum(map(_characters, given))
        case _:
            return len(getattr(given, "text", None) or "")


async def _service(request: Request) -> Service:
    return request.app.state.service


Serving = Annotated[Service, Depends(_service)]
"""The server's state, as the argument of a handler."""


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
        served, facts = service.find_model(request, asked.model), facts_of(request)
        served.check(route)
        service.check_characters(getattr(asked, "input", ""))
        if asked.is_light and len(await request.body()) <= LIGHT:
            job = read(served, asked)  # a thread would wait longer for its turn beside an engine
        else:
            job = await service.prepare(read, served, asked)
        call = service.calls.admit(job.weight)
        if getattr(asked, "stream", None):
            return Events(call, facts, job.events(service, call, facts))
        with call:
            work = call.limit(job.value(service, call, facts))
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
            body = b"data: " + data + b"\n\n"
            await send({"type": "http.response.body", "body": body, "more_body": more})

        async def emit() -> None:
            async with aclosing(self.items):
                async for item in self.items:
                    await write(to_json(item))

        await send({"type": "http.response.start", "status": 200, "headers": self.raw_headers})
        last = b"[DONE]"
        try:
            await self.call.limit(emit())
        except Exception as error:  # noqa: BLE001 - the status is sent, the error is an event
            self.facts.error = error
            last = to_json(problem(error).body)
        try:
            async with asyncio.timeout(self.call.calls.limits.send):
                await write(last, more=False)
        except TimeoutError:
            raise ClientGone from None
