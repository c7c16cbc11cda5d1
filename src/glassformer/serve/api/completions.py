"""POST /v1/completions: text behind a prompt, and the log-probabilities of a prompt."""

import secrets
import time
from collections.abc import Sequence
from functools import partial
from typing import Any

from starlette.requests import Request

from glassformer.generate.score import alternatives
from glassformer.serve.api.answers import Emit, Events, Plain
from glassformer.serve.api.calls import Call
from glassformer.serve.api.models import Served
from glassformer.serve.api.requests import CompletionRequest
from glassformer.serve.api.service import Service
from glassformer.serve.api.texts import (
    Choice,
    Finish,
    Prompt,
    Token,
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

    def __init__(self, asked: CompletionRequest, served: Served, prompts: list[Prompt]):
        self.asked, self.served, self.prompts = asked, served, prompts
        self.n_tokens = room(served, prompts, asked.max_tokens, NEW_TOKENS)
        self.how = how_of(served, asked, self.n_tokens)
        self.n, self.top = asked.n or 1, asked.logprobs or 0
        self.head = {
            "id": f"cmpl-{secrets.token_hex(12)}",
            "object": "text_completion",
            "created": int(time.time()),
            "model": served.id,
        }
        self.choices: list[Choice] = []
        self._scores: list[Any] = []

    @property
    def scored(self) -> bool:
        """Whether the prompts' own log-probabilities are wanted."""
        return bool(self.asked.echo) and self.asked.logprobs is not None

    @property
    def weight(self) -> int:
        """Sequences and batches of the request."""
        return self.n * len(self.prompts) * bool(self.n_tokens) + self.scored or 1

    def begin(self, call: Call) -> None:
        """Hand the request to the thread that computes."""
        model, tokenizer = self.served.run.model, self.served.run.tokenizer
        if self.scored:
            work = partial(_scores, model, self.top)
            call_key = ("score", self.served.id, self.top)
            self._future = call.batch(call_key, work, self.prompts)
        if self.n_tokens:
            ends = self.how.ends(tokenizer.specials.get("eos"))
            self.choices = begun(
                call, self.served, self.prompts, self.how, self.n, ends, self.top, behind=True
            )

    async def score(self) -> None:
        """Wait for the prompts' log-probabilities."""
        self._scores = await self._future if self.scored else [[]] * len(self.prompts)

    def echoed(self, prompt: Prompt) -> tuple[str, list[Token]]:
        """What of a prompt stands before its texts: its text and its tokens."""
        if not self.asked.echo:
            return "", []
        scores, tokens, offset = self._scores[self.prompts.index(prompt)], list[Token](), 0
        for index, (log_prob, top) in zip(prompt.ids[prompt.framed :], scores, strict=False):
            tokens.append(Token(index, log_prob, tuple(top.items()), min(offset, len(prompt.text))))
            offset += len(self.served.run.tokenizer.decode([index], skip_specials=False))
        return prompt.text, tokens

    def choice(
        self, index: int, text: str, tokens: Sequence[Token], finish: Finish | None, behind: int = 0
    ) -> dict[str, Any]:
        """A choice of the reply, or a piece of it, `behind` characters of its prompt."""
        log_probs = None
        if self.asked.logprobs is not None:
            log_probs = completion_log_probs(self.served.run.tokenizer, tokens, self.top)
            first = len(tokens) if behind == 0 else 0
            places = log_probs["text_offset"]
            log_probs["text_offset"] = [*places[:first], *(at + behind for at in places[first:])]
        return {"index": index, "text": text, "logprobs": log_probs, "finish_reason": finish}

    async def plain(self, call: Call, request: Request) -> dict[str, Any]:
        """The whole reply."""
        await run_to_end(call, self.choices, _nothing, _no_ping)
        await self.score()
        made = list[dict[str, Any]]()
        for number, prompt in enumerate(self.prompts):
            text, tokens = self.echoed(prompt)
            own = self.choices[number * self.n : (number + 1) * self.n]
            for choice in own:
                moved = [_moved(token, len(text)) for token in choice.tokens]
                said = text + choice.text, [*tokens, *moved], choice.finish
                made.append(self.choice(len(made), *said))
            if not own:
                made += [self.choice(len(made) + i, text, tokens, "length") for i in range(self.n)]
        return self.head | {"choices": made, "usage": self.used(request)}

    async def streamed(self, call: Call, request: Request, emit: Emit) -> None:
        """The reply piece by piece."""
        await self.score()
        if self.asked.echo or not self.choices:
            for number, prompt in enumerate(self.prompts):
                text, tokens = self.echoed(prompt)
                for index in range(number * self.n, (number + 1) * self.n):
                    finish = None if self.choices else "length"
                    await self.emit(emit, self.choice(index, text, tokens, finish))

        async def shown(choice: Choice, text: str, tokens: Sequence[Token]) -> None:
            before = len(choice.prompt.text) if self.asked.echo else 0
            await self.emit(emit, self.choice(choice.index, text, tokens, choice.finish, before))

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
    asked, served = await service.read(request, CompletionRequest, "completions")
    prompts = await service.prepare(prompts_of, served, asked.prompt)
    made = Completion(asked, served, prompts)
    call = service.calls.admit(made.weight)
    made.begin(call)
    if asked.stream:
        return Events(call, partial(made.streamed, call, request))
    return Plain(call, partial(made.plain, call, request))


def _scores(model: Any, top: int, prompts: Sequence[Prompt]) -> list[Any]:
    """For each prompt, log p of each token of its text and of the likeliest ones; None: there is
    nothing before it."""
    found = list[Any]()
    for prompt in prompts:
        frame, ids = prompt.ids[: prompt.framed], prompt.ids[prompt.framed :]
        told = list[Any]() if frame else [(None, {})]
        if len(ids) > (not frame):
            told += alternatives(model, ids, max(1, top), frame)
        found.append(told[: len(ids)])
    return [[(p, best if top else {}) for p, best in told] for told in found]


def _moved(token: Token, by: int) -> Token:
    return Token(token.id, token.log_prob, token.top, token.offset + by)


async def _nothing(choice: Choice, text: str, tokens: Sequence[Token]) -> None:
    pass


async def _no_ping() -> None:
    pass
