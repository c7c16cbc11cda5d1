"""Texts that an engine writes: /v1/completions and /v1/chat/completions.

request ─ read ─> Completion ─ admitted ─> texts in the engine ─> one value, or events
"""

import asyncio
import secrets
import time
from collections.abc import AsyncGenerator, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from glassformer.core.random_stream import seed_from
from glassformer.runtime.config import GenerateConfig
from glassformer.runtime.request import Event, Request
from glassformer.serve.api import replies
from glassformer.serve.api.admission import Admitted
from glassformer.serve.api.engine_thread import Text
from glassformer.serve.api.envelope import Facts
from glassformer.serve.api.formats import format_of
from glassformer.serve.api.inspection import Inspection
from glassformer.serve.api.problems import ApiError
from glassformer.serve.api.requests import (
    LARGEST,
    ChatRequest,
    CompletionRequest,
    Sampling,
    several,
)
from glassformer.serve.api.service import CHAT, COMPLETIONS, Served, Service
from glassformer.serve.api.texts import (
    Choice,
    Prompt,
    Token,
    chat_log_probs,
    completion_log_probs,
)
from glassformer.tasks.predictors.likelihood import prompt_ids
from glassformer.tasks.predictors.text import RowText

NEW_TOKENS = 16
"""New tokens of a completion whose request does not say how many, as in OpenAI's API."""


@dataclass
class Completion:
    """A request, the texts that are wanted after each of `prompts`, and the reply with them.

    `how`, `ends`: how they are generated, and the ids that end them. `top`: how many of the
    likeliest tokens are reported beside each. `echo`: the prompt comes before its text.
    """

    served: Served
    asked: Any
    prompts: Sequence[Prompt]
    how: GenerateConfig
    ends: tuple[int, ...]
    top: int
    echo: bool = False
    prefix: ClassVar[str] = "cmpl"
    """Beginning of the reply's id."""
    kinds: ClassVar[tuple[str, str]] = ("text_completion", "text_completion")
    """`object` of a reply and of an event."""
    continues: ClassVar[bool] = True
    """Whether a text begins in the middle of what the prompt ends with."""
    opening: ClassVar[Mapping[str, Any]] = {}
    """Fields of each choice's event before any text."""

    def __post_init__(self) -> None:
        served, asked, tokenizer = self.served, self.asked, self.served.run.tokenizer
        self.n = asked.n or 1
        """Texts of each prompt."""
        every = [prompt for prompt in self.prompts for _ in range(self.n)]
        self.weight = len(every)
        self.format = format_of(served, asked, self.ends)
        size = [len(prompt.ids) for prompt in every], self.how.max_new_tokens
        self.inspection = asked.inspect and Inspection(served, asked.inspect, *size)
        made = {"id": f"{self.prefix}-{secrets.token_hex(12)}", "created": int(time.time())}
        self.head, self.choices = made | {"model": served.id}, list[Choice]()
        for i, prompt in enumerate(every):
            before, empty = prompt.ids if self.continues else (), asked.max_tokens == 0
            row = RowText(tokenizer, before, self.how.stop, self.ends)
            self.choices.append(Choice(i, prompt, tokenizer, row, self.echo, empty))

    def whole(self, choice: Choice) -> dict[str, Any]:
        """Fields of a choice in a reply."""
        return next(iter(self.pieces(choice, choice.text, choice.tokens)))

    def pieces(
        self, choice: Choice, text: str, tokens: Sequence[Token]
    ) -> Iterable[dict[str, Any]]:
        """Fields of the events for a choice with new text and tokens."""
        log_probs = None
        if self.asked.logprobs is not None:
            log_probs = completion_log_probs(self.served.run.tokenizer, tokens, self.top)
        yield {"text": text, "logprobs": log_probs, "finish_reason": choice.finish}

    async def value(self, service: Service, call: Admitted, facts: Facts) -> dict[str, Any]:
        """Return the whole reply."""
        async for _ in self._write(service, call, facts):
            pass
        made = [
            {"index": one.index, "finish_reason": one.finish, **self.whole(one)}
            for one in self.choices
        ]
        if self.inspection:
            future = service.engine.batch(object(), self.inspection.look, self.choices)
            for one, seen in zip(made, await asyncio.wrap_future(future), strict=True):
                one["inspect"] = seen
        return self.head | {"object": self.kinds[0], "choices": made, "usage": self._count(facts)}

    async def events(
        self, service: Service, call: Admitted, facts: Facts
    ) -> AsyncGenerator[dict[str, Any]]:
        """Yield the reply piece by piece."""
        head = self.head | {"object": self.kinds[1]}
        last = {"usage": None} if self.asked.usage_streamed else {}

        def event(choice: Choice, piece: Mapping[str, Any]) -> dict[str, Any]:
            return head | {"choices": [{"index": choice.index, **piece}]} | last

        for choice in self.choices if self.opening else ():
            yield event(choice, self.opening)
        async for choice, text, tokens in self._write(service, call, facts):
            for piece in self.pieces(choice, text, tokens):
                yield event(choice, piece)
        used = self._count(facts)
        if self.asked.usage_streamed:
            yield head | {"choices": [], "usage": used}

    async def _write(
        self, service: Service, call: Admitted, facts: Facts
    ) -> AsyncGenerator[tuple[Choice, str, Sequence[Token]]]:
        """Begin the text of each choice; yield choices with their new text and tokens, those of the
        same time as one piece, until all have ended."""
        news, texts = asyncio.Queue[tuple[Choice, Event, float]](), list[Text]()
        for choice in self.choices:
            sink = lambda event, now, choice=choice: news.put_nowait((choice, event, now))
            request = self._request(choice, facts.key)
            texts.append(Text(self.served.run.model, request, sink, self.served.drafts))
            call.callback(service.engine.abort, texts[-1])
            service.engine.add(texts[-1])
        metrics, times, left = service.metrics, dict[int, float](), len(texts)
        while left:
            came, moved = [await news.get()], dict[int, str]()
            while not news.empty():
                came.append(news.get_nowait())
            for choice, event, now in came:
                i = choice.index
                if choice.finish is not None:
                    continue  # a step after its stop string
                moved[i] = moved.get(i, "") + choice.push(event)
                seconds = metrics.inter_token if i in times else metrics.ttft
                seconds.observe(now - times.get(i, call.began))
                times[i] = now
                if choice.finish is not None:
                    left -= 1
                    service.engine.abort(texts[i])
            for i, text in moved.items():
                if text or self.choices[i].finish is not None:
                    yield self.choices[i], text, self.choices[i].complete()

    def _request(self, choice: Choice, salt: bytes) -> Request:
        """Make the engine's request for a text."""
        how, number = self.how, choice.index % self.n
        if number:  # the first has the request's own seed
            seed = seed_from(f"{how.seed}/{number}") & LARGEST
            how = how.model_copy(update={"seed": seed})
        scores = choice.echo and self.asked.logprobs is not None
        allowed = self.format.begin() if self.format else None
        return Request(choice.prompt.ids, how, self.ends, self.top, scores, salt, allowed)

    def _count(self, facts: Facts) -> dict[str, int]:
        """Return the usage, and keep it for the log."""
        facts.prompt_tokens = read = sum(len(prompt.ids) for prompt in self.prompts)
        facts.generated_tokens = made = sum(len(choice.row.ids) for choice in self.choices)
        return {"prompt_tokens": read, "completion_tokens": made, "total_tokens": read + made}


def _event(delta: dict[str, Any], log_probs: Any = None, finish: Any = None) -> dict[str, Any]:
    return {"delta": delta, "logprobs": log_probs, "finish_reason": finish}


class Chat(Completion):
    """Messages of the assistant."""

    prefix, kinds = "chatcmpl", ("chat.completion", "chat.completion.chunk")
    continues, opening = False, _event({"role": "assistant", "content": ""})

    def whole(self, choice: Choice) -> dict[str, Any]:
        """Return the message with its log-probabilities."""
        message = {"role": "assistant", "content": choice.text, "refusal": None}
        return {"message": message, "logprobs": self._log_probs(choice.tokens)}

    def pieces(
        self, choice: Choice, text: str, tokens: Sequence[Token]
    ) -> Iterable[dict[str, Any]]:
        """Yield the new text, and the reason of the end as another event."""
        log_probs = self._log_probs(tokens)
        if text or log_probs is not None:
            yield _event({"content": text}, log_probs)
        if choice.finish is not None:
            yield _event({}, finish=choice.finish)

    def _log_probs(self, tokens: Sequence[Token]) -> dict[str, Any] | None:
        return chat_log_probs(self.served.run.tokenizer, tokens) if self.asked.logprobs else None


def completions(served: Served, asked: CompletionRequest) -> Completion:
    """Text after a prompt, and the log-probabilities of a prompt."""
    prompts = [_prompt(served, one) for one in several(asked.prompt)]
    how = _how(served, asked, prompts, asked.max_tokens, NEW_TOKENS)
    ends = how.ends(served.run.tokenizer.specials.get("eos"))
    return Completion(served, asked, prompts, how, ends, asked.logprobs or 0, bool(asked.echo))


def chat(served: Served, asked: ChatRequest) -> Chat:
    """The assistant's next message."""
    messages, tokenizer = [one.plain() for one in asked.messages], served.run.tokenizer
    if messages[-1]["role"] == "assistant":
        raise ApiError(
            400, "messages: the last one is the assistant's; end with the user's.", "messages"
        )
    least = sum(tokenizer.at_least(one["content"]) for one in messages)
    _check_fits(least, 0, served.run.model.config.max_length)
    template = served.run.processor.template
    prompt = Prompt("", tuple(template.encode(messages, prompt=True).ids.tolist()))
    new = asked.max_completion_tokens or asked.max_tokens
    how = _how(served, asked, [prompt], new, served.run.options().max_new_tokens)
    ends = tuple(sorted({*template.ends, *how.eos_token_id}))
    return Chat(served, asked, [prompt], how, ends, asked.top_logprobs or 0)


def _prompt(served: Served, given: Any) -> Prompt:
    """A prompt by its text or its ids; ApiError: an id that the model lacks, or too many."""
    tokenizer, config = served.run.tokenizer, served.run.model.config
    if isinstance(given, str):
        _check_fits(tokenizer.at_least(given), 0, config.max_length)  # before it is tokenized
        ids, framed = prompt_ids(tokenizer, given)
        if not ids:
            raise ApiError(
                400, "prompt: it is empty, and this model needs one token at least.", "prompt"
            )
        return Prompt(given, ids, framed)
    _check_ids("prompt", given, min(config.vocab_size, tokenizer.vocab_size))
    return Prompt(tokenizer.decode(given, skip_specials=False), tuple(given), given_ids=True)


def _check_ids(field: str, ids: Sequence[int], size: int) -> None:
    if wrong := [token for token in ids if token >= size]:
        raise ApiError(
            400, f"{field}: there is no token {wrong[0]}; ids run from 0 to {size - 1}.", field
        )


def _check_fits(n: int, more: int, context: int) -> None:
    """Raise ApiError 400 for a prompt that fills more than the context with its new tokens."""
    if n > context or n + more > context + 1:
        new = f" and {more} more were requested" if more else ""
        remedy = "shorten the prompt" if n > context else "shorten the prompt, or lower max_tokens"
        raise ApiError(
            400,
            f"The prompt has at least {n} tokens{new}, and the model's context is {context}; "
            f"{remedy}.",
            "max_tokens" if n <= context else None,
            "context_length_exceeded",
        )


def _how(
    served: Served, asked: Sampling, prompts: Sequence[Prompt], wanted: int | None, default: int
) -> GenerateConfig:
    """The run's options with a request's changes. Number of new tokens: `wanted`, or None: the
    largest up to `default` that fits. ConfigError: the run's own settings forbid them.

    ApiError 400: there is no room for them, or a token of `logit_bias` that the model lacks.
    """
    changes, config = asked.changes(), served.run.model.config
    longest = max(len(prompt.ids) for prompt in prompts)
    _check_fits(longest, 1 if wanted is None else wanted, config.max_length)
    n = min(default, config.max_length + 1 - longest) if wanted is None else wanted
    _check_ids("logit_bias", changes.get("suppress_tokens", ()), config.vocab_size)
    seed = secrets.randbits(62) if asked.seed is None else asked.seed & LARGEST
    changes |= {"beams": 0, "n_best": 1, "overflow": "refuse", "seed": seed}
    return served.run.options(**changes | {"max_new_tokens": max(1, n)})


ROUTES = {
    COMPLETIONS: (CompletionRequest, replies.Completion, completions),
    CHAT: (ChatRequest, replies.ChatCompletion, chat),
}
"""The request and the reply of each route, and how a request is read."""
