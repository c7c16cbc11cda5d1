"""POST /v1/chat/completions: the assistant's next message, by the run's chat template."""

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
from glassformer.serve.api.models import CHAT, Served
from glassformer.serve.api.problems import ApiError
from glassformer.serve.api.requests import ChatRequest
from glassformer.serve.api.service import Service
from glassformer.serve.api.texts import (
    Choice,
    Prompt,
    Token,
    Wanted,
    begun,
    chat_log_probs,
    check_fits,
    how_of,
    room,
    run_to_end,
    usage,
)


class Chat:
    """One request with what it has become."""

    def __init__(self, asked: ChatRequest, served: Served):
        self.asked, self.served = asked, served
        self.prompt = _prompt(served, asked)
        wanted = asked.max_completion_tokens or asked.max_tokens
        default = served.run.options().max_new_tokens
        how = how_of(served, asked, room(served, [self.prompt], wanted, default))
        ends = tuple(sorted({*served.run.task.template.ends, *how.eos_token_id}))
        form, top = format_of(served, asked, ends), asked.top_logprobs or 0
        self.wanted = Wanted(how, ends, asked.n or 1, top, format=form)
        self.inspection = asked.inspect and Inspection(served, asked.inspect)
        if self.inspection:
            self.inspection.check([len(self.prompt.ids)], self.wanted)
        self.head = {
            "id": f"chatcmpl-{secrets.token_hex(12)}",
            "created": int(time.time()),
            "model": served.id,
        }
        self.choices: list[Choice] = []

    def begin(self, call: Call) -> None:
        """Hand the request to the thread that computes."""
        self.choices = begun(call, self.served, [self.prompt], self.wanted)

    async def plain(self, call: Call, request: Request) -> dict[str, Any]:
        """The whole reply."""
        await run_to_end(call, self.choices, _nothing, _no_ping)
        made = [
            {
                "index": one.index,
                "message": {"role": "assistant", "content": one.text, "refusal": None},
                "logprobs": self.log_probs(one.tokens),
                "finish_reason": one.finish,
            }
            for one in self.choices
        ]
        if self.inspection:
            await self.inspection.added(call, self.choices, made)
        more = {"choices": made, "usage": self.used(request)}
        return self.head | {"object": "chat.completion"} | more

    def log_probs(self, tokens: Sequence[Token]) -> dict[str, Any] | None:
        """The tokens' log-probabilities, if they are asked for."""
        return chat_log_probs(self.served.run.tokenizer, tokens) if self.asked.logprobs else None

    async def streamed(self, call: Call, request: Request, emit: Emit) -> None:
        """The reply piece by piece: who speaks, the text, why it ended."""
        for one in self.choices:
            await self.emit(emit, one, {"role": "assistant", "content": ""})

        async def shown(choice: Choice, text: str, tokens: Sequence[Token]) -> None:
            told = self.log_probs(tokens)
            if text or told is not None:
                await self.emit(emit, choice, {"content": text}, told)
            if choice.finish is not None:
                await self.emit(emit, choice, {}, finish=choice.finish)

        await run_to_end(call, self.choices, shown, partial(emit, None))
        used = self.used(request)
        if self.asked.usage_streamed:
            await emit(self.chunk | {"choices": [], "usage": used})

    @property
    def chunk(self) -> dict[str, Any]:
        """What all events begin with."""
        return self.head | {"object": "chat.completion.chunk"}

    async def emit(
        self,
        emit: Emit,
        choice: Choice,
        delta: dict[str, Any],
        log_probs: dict[str, Any] | None = None,
        finish: str | None = None,
    ) -> None:
        """Send a piece of one choice."""
        own = {"index": choice.index, "delta": delta, "logprobs": log_probs}
        none = {"usage": None} if self.asked.usage_streamed else {}
        await emit(self.chunk | {"choices": [own | {"finish_reason": finish}]} | none)

    def used(self, request: Request) -> dict[str, int]:
        """The usage, told to the log too."""
        found, facts = usage(self.choices, [self.prompt]), request.scope["facts"]
        facts.prompt_tokens = found["prompt_tokens"]
        facts.generated_tokens = found["completion_tokens"]
        return found


async def chat(service: Service, request: Request) -> Plain | Events:
    """Answer a request; ApiError, DataError, ConfigError: it cannot be answered."""
    asked, served = await service.read(request, ChatRequest, CHAT)
    made = await service.prepare(Chat, asked, served)
    call = service.calls.admit(made.wanted.n, request.scope["facts"].key)
    made.begin(call)
    if asked.stream:
        return Events(call, partial(made.streamed, call, request))
    return Plain(call, partial(made.plain, call, request))


def _prompt(served: Served, asked: ChatRequest) -> Prompt:
    """The messages up to the answer; ApiError: the last one is the assistant's, or they are
    longer than the context."""
    messages = [one.plain() for one in asked.messages]
    if messages[-1]["role"] == "assistant":
        raise ApiError(
            400, "messages: the last one is the assistant's; end with the user's.", "messages"
        )
    tokenizer, context = served.run.tokenizer, served.run.model.config.max_length
    least = sum(tokenizer.at_least(one["content"]) for one in messages)
    check_fits(least, 0, context)
    return Prompt("", tuple(served.run.task.template.encode(messages, prompt=True).ids.tolist()))


async def _nothing(choice: Choice, text: str, tokens: Sequence[Token]) -> None:
    pass


async def _no_ping() -> None:
    pass
