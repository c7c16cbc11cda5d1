"""What all handlers share: the models, the thread that computes, the calls, and how a request is
read.

    body, counted ─> strict JSON ─> schema ─> model by its name ─> route ─> handler
"""

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any, Final, TypeVar

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
from glassformer.serve.api.problems import ApiError, ClientGone
from glassformer.serve.api.requests import ModelRequest
from glassformer.serve.api.strict_json import parsed

Asked = TypeVar("Asked", bound=ModelRequest)
Answer = TypeVar("Answer")
JSON: Final = "application/json"


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

    async def prepare(self, work: Callable[..., Answer], *arguments: Any) -> Answer:
        """The result of `work` beside the event loop: tokenizing, templates, decoding of files."""
        return await asyncio.get_running_loop().run_in_executor(
            self._pool, _safely, work, *arguments
        )

    async def read(self, request: Request, kind: type[Asked], route: str) -> tuple[Asked, Served]:
        """A request and the model that it is for; ApiError: it is none, or another model's."""
        kind_of_body = request.headers.get("content-type", "").partition(";")[0].strip().lower()
        if kind_of_body != JSON:
            raise ApiError(415, f"A request is sent as Content-Type: {JSON}.")
        body = await self._body(request)
        asked = validated(kind, parsed(body, self.limits.depth))
        served = self.registry.named(asked.model)
        request.scope["facts"].model = served.id
        if route:
            served.check(route)
        return asked, served

    async def _body(self, request: Request) -> bytes:
        """The bytes of a request; ApiError 413: too many, 408: too slow."""
        most, size = self.limits.body, request.headers.get("content-length", "")
        too_large = ApiError(
            413,
            f"The request is larger than {most:,} bytes; send less, or start the server with a "
            "larger --max-body.",
        )
        if size.isdecimal() and (len(size) > 15 or int(size) > most):
            raise too_large
        received = bytearray()
        try:
            async with asyncio.timeout(self.limits.receive):
                while True:
                    message = await request.receive()
                    if message["type"] == "http.disconnect":
                        raise ClientGone
                    received += message.get("body", b"")
                    if len(received) > most:
                        raise too_large
                    if not message.get("more_body", False):
                        return bytes(received)
        except TimeoutError:
            raise ApiError(
                408, f"The request did not come within {self.limits.receive:g} seconds."
            ) from None

    def check_characters(self, texts: list[str]) -> None:
        """Raise ApiError 400 for more text than one request may have."""
        if (n := sum(map(len, texts))) > (most := self.limits.characters):
            raise ApiError(
                400, f"The inputs have {n:,} characters, more than {most:,}; send them in parts."
            )


def validated(kind: type[Asked], value: Any) -> Asked:
    """A value as a request; ApiError 400 names the field."""
    try:
        return kind.model_validate(value)
    except ValidationError as error:
        first = _closest(error)
        place = [part for part in map(str, first["loc"]) if part.isalnum() or part.isidentifier()]
        known = kind.model_fields.keys()
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
