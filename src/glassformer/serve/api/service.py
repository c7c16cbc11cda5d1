"""State that all handlers share: the models, the thread that computes, the requests in hand."""

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Annotated, Any, TypeVar

from fastapi import Depends
from starlette.requests import Request

from glassformer.errors import suggest
from glassformer.serve.api.access import Rules
from glassformer.serve.api.admission import Admission, Limits
from glassformer.serve.api.engine_thread import EngineThread
from glassformer.serve.api.envelope import Log, facts_of
from glassformer.serve.api.metrics import Metrics
from glassformer.serve.api.models import Served
from glassformer.serve.api.problems import ApiError

Answer = TypeVar("Answer")


@dataclass
class Service:
    """One server's state."""

    models: dict[str, Served]
    engine: EngineThread
    limits: Limits = field(default_factory=Limits)
    rules: Rules = field(default_factory=Rules)
    log: Log = field(default_factory=Log)

    def __post_init__(self) -> None:
        self.calls = Admission(self.limits, "texts")
        self.metrics = Metrics(self.engine, self.calls)
        self._pool = ThreadPoolExecutor(2, "prepare")

    async def prepare(
        self, work: Callable[..., Answer], *arguments: object, light: bool = False
    ) -> Answer:
        """The result of `work` beside the event loop: tokenizing, templates, decoding of files; at
        once if it is light, since a thread would wait longer for its turn beside an engine."""
        if light:
            return work(*arguments)
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(self._pool, work, *arguments)

    def find_model(self, request: Request, name: str, route: str = "") -> Served:
        """The model of a request. ApiError: there is none, or it has not this route."""
        if (served := self.models.get(name)) is None:
            tail = suggest(name[:128], self.models)
            raise ApiError(
                404, f"There is no model {name[:128]!r}; {tail}.", "model", "model_not_found"
            )
        facts_of(request).model = name
        if route:
            served.check(route)
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
