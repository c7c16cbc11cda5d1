"""What all handlers share: the models, the thread that computes, the calls, and how a request is
read.

    body, counted ─> strict JSON ─> schema ─> model by its name ─> route ─> handler
"""

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any, TypeVar

from pydantic import BaseModel, ValidationError
from starlette.requests import Request

from glassformer.serve.api.access import Rules
from glassformer.serve.api.calls import Calls
from glassformer.serve.api.engine_thread import EngineThread
from glassformer.serve.api.engines import Panicked
from glassformer.serve.api.envelope import Log
from glassformer.serve.api.limits import Limits
from glassformer.serve.api.metrics import Metrics
from glassformer.serve.api.models import Registry, Served
from glassformer.serve.api.problems import ApiError
from glassformer.serve.api.receiving import check_body, received
from glassformer.serve.api.requests import ModelRequest, Only
from glassformer.serve.api.strict_json import parsed

Asked = TypeVar("Asked", bound=ModelRequest)
Answer = TypeVar("Answer")
LIGHT = 1 << 12
"""Bytes of a body that is read in less than a few milliseconds, its text tokenized."""


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

    async def read(self, request: Request, kind: type[Asked], route: str) -> tuple[Asked, Served]:
        """A request and the model that it is for; ApiError: it is none, or another model's, or
        one of a `route` that has a queue without room, which is told before anything is read."""
        if route:
            self.calls.check()
        check_body(request.headers, self.limits)
        body, facts = await received(request.receive, self.limits), request.scope["facts"]
        facts.light = len(body) <= LIGHT
        asked = await self.prepare(_asked, kind, body, self.limits.depth, light=facts.light)
        served = self.registry.named(asked.model)
        facts.model = served.id
        if route:
            served.check(route)
        return asked, served

    def check_characters(self, texts: list[str]) -> None:
        """Raise ApiError 400 for more text than one request may have."""
        if (n := sum(map(len, texts))) > (most := self.limits.characters):
            raise ApiError(
                400, f"The inputs have {n:,} characters, more than {most:,}; send them in parts."
            )


def _asked(kind: type[Asked], body: bytes, depth: int) -> Asked:
    return validated(kind, parsed(body, depth))


def validated(kind: type[Asked], value: Any) -> Asked:
    """A value as a request; ApiError 400 names the field."""
    try:
        return kind.model_validate(value)
    except ValidationError as error:
        first = _closest(error)
        place = [part for part in map(str, first["loc"]) if part.isalnum() or part.isidentifier()]
        fields = kind.model_fields.items()
        known = [
            name for name, field in fields if not any(isinstance(m, Only) for m in field.metadata)
        ]
        param = place[0][:64] if place else None
        said = first["msg"].removeprefix("Value error, ")
        if first["type"] == "extra_forbidden":
            name = ".".join(place)[:100]
            close = "" if len(place) > 1 else f"; known are {', '.join(known)}"
            raise ApiError(400, f"There is no field {name!r}{close}.", param) from None
        where = ".".join(place)[:100] or "The request"
        raise ApiError(400, f"{where}: {said[:1].lower()}{said[1:]}.", param) from None


def _closest(error: ValidationError) -> Any:
    """What is wrong with the form that comes closest to the value, where a field has several: not
    its type if that of another is right, and the innermost error."""
    told = error.errors(include_url=False, include_context=False, include_input=False)
    return max(told, key=lambda one: (not one["type"].endswith("_type"), len(one["loc"])))


def schema_of(kind: type[BaseModel]) -> dict[str, Any]:
    """The JSON schema of a request or a reply, its parts among the components."""
    return kind.model_json_schema(ref_template="#/components/schemas/{model}")


def _safely(work: Callable[..., Answer], *arguments: Any) -> Answer:
    """A library's panic as an error that handlers know."""
    try:
        return work(*arguments)
    except Exception:
        raise
    except BaseException as error:
        raise Panicked(type(error).__name__) from error
