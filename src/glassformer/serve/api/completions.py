"""POST /v1/completions: text behind a prompt, and the log-probabilities of a prompt."""

import secrets
import time
from collections.abc import Sequence
from functools import partial
from typing import Any

from starlette.requests import Request

from glassformer.serve.api.answers import Emit, Events, Plain
from glassformer.serve.api.calls import Call
from glassformer.serve.api.formats import format_of
from glassformer.serve.api.inspection import Inspection
from glassformer.serve.api.models import COMPLETIONS, Served
from glassformer.serve.api.requests import CompletionRequest
from glassformer.serve.api.service import Service
from glassformer.serve.api.texts import (
    Choice,
    Finish,
    Token,
    Wanted,
    begun,
    completion_log_probs,
    how_of,
    prompts_of,
    room,
    run_to_end,
    usage,
)

NEW_TOKENS = 16
"""New tokens where a request does not say how many, as in OpenAI's API."""


class Completion:
    """One request with what it has become."""

    def __init__(self, asked: CompletionRequest, served: Served):
        self.asked, self.served = asked, served
        self.prompts = prompts_of(served, asked.prompt)
        n_tokens = room(served, self.prompts, asked.max_tokens, NEW_TOKENS)
        how, echo = how_of(served, asked, n_tokens), bool(asked.echo)
        self.top = asked.logprobs or 0
        ends = how.ends(served.run.tokenizer.specials.get("eos"))
        self.wanted = Wanted(
            how,
            ends,
            asked.n or 1,
            self.top,
            behind=True,
            echo=echo,
            scored=echo and asked.logprobs is not None,
            empty=not n_tokens,
            format=format_of(served, asked, ends),
        )
        self.inspection = asked.inspect and Inspection(served, asked.inspect)
        if self.inspection:
            self.inspection.check([len(prompt.ids) for prompt in self.prompts], self.wanted)
        self.head = {
            "id": f"cmpl-{secrets.token_hex(12)}",
            "object": "text_completion",
            "created": int(time.time()),
            "model": served.id,
        }
        self.choices: list[Choice] = []

    def begin(self, call: Call) -> None:
        """Hand the request to the thread that computes."""
        self.choices = begun(call, self.served, self.prompts, self.wanted)

    def choice(
        self, index: int, text: str, tokens: Sequence[Token], finish: Finish | None
    ) -> dict[str, Any]:
        """A choice of the reply, or a piece of it."""
        log_probs = None
        if self.asked.logprobs is not None:
            log_probs = completion_log_probs(self.served.run.tokenizer, tokens, self.top)
        return {"index": index, "text": text, "logprobs": log_probs, "finish_reason": finish}

    async def plain(self, call: Call, request: Request) -> dict[str, Any]:
        """The whole reply."""
        await run_to_end(call, self.choices, _nothing, _no_ping)
        made = [self.choice(o.index, o.text, o.tokens, o.finish) for o in self.choices]
        if self.inspection:
            await self.inspection.added(call, self.choices, made)
        return self.head | {"choices": made, "usage": self.used(request)}

    async def streamed(self, call: Call, request: Request, emit: Emit) -> None:
        """The reply piece by piece."""

        async def shown(choice: Choice, text: str, tokens: Sequence[Token]) -> None:
            await self.emit(emit, self.choice(choice.index, text, tokens, choice.finish))

        await run_to_end(call, self.choices, shown, partial(emit, None))
        used = self.used(request)
        if self.asked.usage_streamed:
            await emit(self.head | {"choices": [], "usage": used})

    async def emit(self, emit: Emit, choice: dict[str, Any]) -> None:
        """Send a piece of one choice."""
        none = {"usage": None} if self.asked.usage_streamed else {}
        await emit(self.head | {"choices": [choice]} | none)

    def used(self, request: Request) -> dict[str, int]:
        """The usage, told to the log too."""
        found, facts = usage(self.choices, self.prompts), request.scope["facts"]
        facts.prompt_tokens = found["prompt_tokens"]
        facts.generated_tokens = found["completion_tokens"]
        return found


async def completions(service: Service, request: Request) -> Plain | Events:
    """Answer a request; ApiError, ConfigError: it cannot be answered."""
    asked, served = await service.read(request, CompletionRequest, COMPLETIONS)
    facts = request.scope["facts"]
    light = facts.light and asked.response_format is None and asked.grammar is None
    made = await service.prepare(Completion, asked, served, light=light)
    call = service.calls.admit(made.wanted.n * len(made.prompts), facts.key)
    made.begin(call)
    if asked.stream:
        return Events(call, partial(made.streamed, call, request))
    return Plain(call, partial(made.plain, call, request))


async def _nothing(choice: Choice, text: str, tokens: Sequence[Token]) -> None:
    pass


async def _no_ping() -> None:
    pass
