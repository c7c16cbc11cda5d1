"""Replies of the routes whose texts the engine writes, /v1/completions and /v1/chat/completions.

request ─ prepare ─> TextReply ─ admitted ─> texts in the engine ─> one value, or events
"""

import secrets
import time
from abc import ABC, abstractmethod
from collections.abc import AsyncGenerator, Iterable, Sequence
from typing import Any, ClassVar, Self

from starlette.requests import Request
from starlette.responses import Response

from glassformer.serve.api.answers import Events, json_reply
from glassformer.serve.api.calls import Call
from glassformer.serve.api.envelope import Facts, facts_of
from glassformer.serve.api.inspection import Inspection
from glassformer.serve.api.models import Served
from glassformer.serve.api.requests import Sampling
from glassformer.serve.api.service import Service
from glassformer.serve.api.texts import Choice, Prompt, Token, Wanted, begin, follow, usage


class TextReply(ABC):
    """A request, the texts that are wanted after each of `prompts`, and the reply with them."""

    route: ClassVar[str]
    prefix: ClassVar[str]
    """Beginning of the reply's id."""
    kinds: ClassVar[tuple[str, str]]
    """`object` of a reply and of an event."""

    def __init__(self, asked: Any, served: Served, prompts: Sequence[Prompt], wanted: Wanted):
        self.asked, self.served, self.prompts, self.wanted = asked, served, prompts, wanted
        self.inspection = asked.inspect and Inspection(served, asked.inspect)
        if self.inspection:
            self.inspection.check([len(prompt.ids) for prompt in prompts], wanted)
        made = {"id": f"{self.prefix}-{secrets.token_hex(12)}", "created": int(time.time())}
        self.head = made | {"model": served.id}
        self.choices: list[Choice] = []

    @classmethod
    @abstractmethod
    def read(cls, asked: Any, served: Served) -> Self:
        """Prepare a request; ApiError, ConfigError, DataError: it cannot be answered."""

    @abstractmethod
    def whole(self, choice: Choice) -> dict[str, Any]:
        """Fields of a choice in a reply."""

    @abstractmethod
    def pieces(
        self, choice: Choice, text: str, tokens: Sequence[Token]
    ) -> Iterable[dict[str, Any]]:
        """Fields of the events for a choice with new text and tokens."""

    def opening(self, choice: Choice) -> Iterable[dict[str, Any]]:
        """Fields of the events before any text."""
        return ()

    async def value(self, call: Call, facts: Facts) -> dict[str, Any]:
        """Return the whole reply."""
        self._begin(call)
        async for _ in follow(call, self.choices):
            pass
        made = [
            {"index": one.index, "finish_reason": one.finish, **self.whole(one)}
            for one in self.choices
        ]
        if self.inspection:
            await self.inspection.added(call, self.choices, made)
        return self.head | {"object": self.kinds[0], "choices": made, "usage": self._count(facts)}

    async def events(self, call: Call, facts: Facts) -> AsyncGenerator[dict[str, Any] | None]:
        """Yield the reply piece by piece; None: silence."""
        self._begin(call)
        head = self.head | {"object": self.kinds[1]}
        none = {"usage": None} if self.asked.usage_streamed else {}
        for choice in self.choices:
            for piece in self.opening(choice):
                yield head | {"choices": [{"index": choice.index, **piece}]} | none
        async for new in follow(call, self.choices):
            if new is None:
                yield None
                continue
            for piece in self.pieces(*new):
                yield head | {"choices": [{"index": new[0].index, **piece}]} | none
        used = self._count(facts)
        if self.asked.usage_streamed:
            yield head | {"choices": [], "usage": used}

    def _begin(self, call: Call) -> None:
        self.choices = begin(call, self.served, self.prompts, self.wanted)

    def _count(self, facts: Facts) -> dict[str, int]:
        """Return the usage, and keep it for the log."""
        found = usage(self.choices, self.prompts)
        facts.prompt_tokens = found["prompt_tokens"]
        facts.generated_tokens = found["completion_tokens"]
        return found


async def answer(
    kind: type[TextReply], request: Request, service: Service, asked: Sampling, light: bool = False
) -> Response:
    """Answer a request, prepared without a thread if it is light; errors of `TextReply.read`."""
    served = service.find_model(request, asked, kind.route)
    made = await service.prepare(kind.read, asked, served, light=light)
    service.calls.check_wait(served.run.model)
    facts = facts_of(request)
    call = service.calls.admit(made.wanted.n * len(made.prompts), facts.key)
    if asked.stream:
        return Events(request, call, made.events(call, facts))
    return await json_reply(request, call, made.value(call, facts))
