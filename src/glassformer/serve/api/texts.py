"""Texts of one call: prompts to ids, how each text is generated, and tokens to what is shown.

Prompt ─> Request of the engine ─> Event ─> Choice: text that may be shown, log p, the end
"""

import hashlib
import math
import secrets
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import Any, Literal

import numpy as np

from glassformer.generate.config import GenerateConfig
from glassformer.generate.likelihood import prompt_ids
from glassformer.generate.request import Event, Request, Scored
from glassformer.generate.text import RowText
from glassformer.serve.api.calls import Call
from glassformer.serve.api.engines import TextRequest
from glassformer.serve.api.formats import Format
from glassformer.serve.api.models import Served
from glassformer.serve.api.problems import ApiError
from glassformer.serve.api.requests import LARGEST, Sampling
from glassformer.tokenizers.stream import StreamDecoder
from glassformer.tokenizers.text import Tokenizer

Finish = Literal["stop", "length"]
LEAST_LOG = -9999.0
"""In place of log 0, which JSON does not have."""


@dataclass(frozen=True)
class Prompt:
    """A prompt: its text, its ids, the number of ids before the text. `given_ids`: the text was
    decoded from ids."""

    text: str
    ids: tuple[int, ...]
    framed: int = 0
    given_ids: bool = False


@dataclass(frozen=True)
class Token:
    """A token of a text: its id, log p, the likeliest ids with theirs, its place, its characters.

    A character that several tokens spell is of the last of them, and begins where the first is.
    """

    id: int
    log_prob: float | None
    top: tuple[tuple[int, float], ...]
    offset: int
    text: str

    @property
    def end(self) -> int:
        """The place of the next token."""
        return self.offset + len(self.text)


@dataclass(frozen=True)
class Wanted:
    """What is wanted behind each prompt: `n` texts, with the `top` likeliest tokens of each place.

    `behind`: a text goes on where the prompt ends. `echo`: the prompt stands before it, with its
    log-probabilities if they are `scored`. `empty`: that is all; of the text nothing is shown.
    `format`: what the text must be.
    """

    how: GenerateConfig
    ends: tuple[int, ...]
    n: int = 1
    top: int = 0
    behind: bool = False
    echo: bool = False
    scored: bool = False
    empty: bool = False
    format: Format | None = None


@dataclass
class Choice:
    """One text as its tokens come."""

    index: int
    prompt: Prompt
    wanted: Wanted
    tokenizer: Tokenizer
    text: str = ""
    tokens: list[Token] = field(default_factory=list)
    """Those that are shown: of an echoed prompt, too."""
    ids: list[int] = field(default_factory=list)
    """New tokens."""
    finish: Finish | None = None

    def __post_init__(self) -> None:
        before = self.prompt.ids if self.wanted.behind else ()
        self._row = RowText(self.tokenizer, before, self.wanted.how.stop, self.wanted.ends)

    def push(self, event: Event) -> str:
        """The text that an event makes safe to show; errors of its computation."""
        if event.error is not None:
            raise event.error
        assert event.token is not None
        before = len(self.text)
        if self.wanted.echo and not self.ids:
            self._echo(event.prompt[self.prompt.framed :])
        if self.wanted.empty:
            self.finish = "length"
        else:
            self._continue(event.token, event.finish == "length")
        return self.text[before:]

    def _continue(self, new: Scored, last: bool) -> None:
        self.ids.append(new.id)
        shown, finish = self._row.push(new.id, last)
        self._add(new, self._row.added)
        self.text += shown
        if finish is not None:
            self.finish = "length" if finish == "length" else "stop"
        if finish == "stop":  # a stop string and what follows it are not of the text
            n, kept = len(self.text), [one for one in self.tokens if one.offset < len(self.text)]
            self.tokens = [replace(one, text=one.text[: n - one.offset]) for one in kept]

    def _echo(self, scores: Sequence[Scored]) -> None:
        texts = _shares(self.tokenizer, self.prompt) if scores else ()
        for one, text in zip(scores, texts, strict=bool(scores)):
            self._add(one, text)
        self.text = self.prompt.text

    def _add(self, one: Scored, text: str) -> None:
        offset = self.tokens[-1].end if self.tokens else len(self.text)
        self.tokens.append(Token(one.id, one.log_prob, one.top, offset, text))

    def complete(self, begin: int) -> list[Token]:
        """The tokens from `begin` on whose characters are shown."""
        n = len(self.tokens)
        while not self.finish and n > begin:
            last = self.tokens[n - 1]
            if last.text and last.end <= len(self.text):
                break
            n -= 1
        return self.tokens[begin:n]


def _shares(tokenizer: Tokenizer, prompt: Prompt) -> list[str]:
    """The characters of each token of a prompt; joined, its text."""
    ids, text = prompt.ids[prompt.framed :], prompt.text
    if tokenizer.kind == "character" and not prompt.given_ids:
        return list(text)
    if prompt.given_ids or tokenizer.reversible:
        decoder = StreamDecoder(tokenizer, skip_specials=False)
        shares = [decoder.push(index) for index in ids]
        return [*shares[:-1], shares[-1] + decoder.flush()]
    spans = tokenizer.encode_spans(text)[1]
    begins = [*spans[1:, 0].tolist(), len(text)]
    ends = np.maximum.accumulate(np.minimum(spans[:, 1], begins))
    ends[-1] = len(text)
    return [text[a:b] for a, b in pairwise([0, *ends.tolist()])]


def prompts_of(served: Served, given: Any) -> list[Prompt]:
    """The prompts of a request: a text, texts, ids, lists of ids. ApiError: an id that the model
    lacks, a prompt longer than its context."""
    if isinstance(given, str) or isinstance(given[0], int):
        given = [given]
    return [_prompt(served, one) for one in given]


def _prompt(served: Served, given: str | list[int]) -> Prompt:
    tokenizer, context = served.run.tokenizer, served.run.model.config.max_length
    if isinstance(given, str):
        check_fits(tokenizer.at_least(given), 0, context)  # before it is tokenized
        ids, framed = prompt_ids(tokenizer, given)
        return Prompt(given, ids, framed) if ids else _refuse_empty()
    size = min(served.run.model.config.vocab_size, tokenizer.vocab_size)
    if wrong := [token for token in given if token >= size]:
        raise ApiError(
            400, f"prompt: there is no token {wrong[0]}; ids run from 0 to {size - 1}.", "prompt"
        )
    return Prompt(tokenizer.decode(given, skip_specials=False), tuple(given), given_ids=True)


def _refuse_empty() -> Prompt:
    raise ApiError(400, "prompt: it is empty, and this model needs one token at least.", "prompt")


def check_fits(n: int, more: int, context: int) -> None:
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


def room(served: Served, prompts: Sequence[Prompt], wanted: int | None, default: int) -> int:
    """How many tokens are generated: those wanted if they fit, else as many of `default` as do."""
    context = served.run.model.config.max_length
    longest = max(len(prompt.ids) for prompt in prompts)
    if wanted is None:
        check_fits(longest, 1, context)
        return min(default, context + 1 - longest)
    check_fits(longest, wanted, context)
    return wanted


def how_of(served: Served, asked: Sampling, n_tokens: int) -> GenerateConfig:
    """How the texts of a request are generated; ConfigError: the run's own settings forbid it.

    ApiError 400: a token of `logit_bias` that the model lacks.
    """
    banned, size = asked.changes().get("suppress_tokens", ()), served.run.model.config.vocab_size
    if wrong := [token for token in banned if token >= size]:
        raise ApiError(
            400,
            f"logit_bias: there is no token {wrong[0]}; ids run from 0 to {size - 1}.",
            "logit_bias",
        )
    seed = secrets.randbits(62) if asked.seed is None else asked.seed & LARGEST
    fixed = {"beams": 0, "n_best": 1, "overflow": "refuse"}
    return served.run.options(
        **asked.changes(), **fixed, max_new_tokens=max(1, n_tokens), seed=seed
    )


def seed_of(seed: int, choice: int) -> int:
    """The seed of one of several texts of a prompt; the first has the request's own."""
    if choice == 0:
        return seed
    digest = hashlib.sha256(f"{seed}/{choice}".encode()).digest()
    return int.from_bytes(digest[:8], "little") & LARGEST


def begin(call: Call, served: Served, prompts: Sequence[Prompt], wanted: Wanted) -> list[Choice]:
    """Begin the texts of each prompt."""
    model, found = served.run.model, list[Choice]()
    for prompt in prompts:
        for number in range(wanted.n):
            how = wanted.how.model_copy(update={"seed": seed_of(wanted.how.seed, number)})
            choice = Choice(len(found), prompt, wanted, served.run.tokenizer)
            found.append(choice)
            allowed = wanted.format.begin() if wanted.format else None
            of = prompt.ids, how, wanted.ends, wanted.top, wanted.scored, call.salt, allowed
            asked = TextRequest(model, Request(*of), served.drafts)
            call.generate(choice.index, asked)
    return found


async def follow(
    call: Call, choices: Sequence[Choice]
) -> AsyncIterator[tuple[Choice, str, Sequence[Token]] | None]:
    """Yield choices with their new text and tokens until every text has ended; tokens of the same
    time are one piece. None: silence."""
    going, sent = len(choices), [0] * len(choices)
    while going:
        news = await call.news(call.calls.limits.ping)
        if not news:
            yield None
        moved = dict[int, str]()
        for index, event in news:
            choice = choices[index]
            if choice.finish is None:  # else it is a step behind its stop string
                moved[index] = moved.get(index, "") + choice.push(event)
                if choice.finish is not None:
                    going -= 1
                    call.abort(index)
        for index, new in moved.items():
            choice = choices[index]
            if new or choice.finish is not None:
                tokens = choice.complete(sent[index])
                sent[index] += len(tokens)
                yield choice, new, tokens


def number(log_prob: float) -> float:
    """log p as JSON has it."""
    return log_prob if math.isfinite(log_prob) else LEAST_LOG


def completion_log_probs(tokenizer: Tokenizer, tokens: Sequence[Token], top: int) -> dict[str, Any]:
    """Tokens as the `logprobs` of /v1/completions; the chosen token is always among `top`."""
    tops = list[Any]()
    for one in tokens:
        known = dict(one.top)
        if one.log_prob is None:
            tops.append(None)
            continue
        known[one.id] = one.log_prob
        row = dict[str, float]()
        for index, log_prob in sorted(known.items(), key=lambda pair: -pair[1]):
            name = _name(tokenizer, index, one)
            row.setdefault(name, number(log_prob))  # of one name, the likeliest
        tops.append(row)
    return {
        "tokens": [one.text for one in tokens],
        "token_logprobs": [None if t.log_prob is None else number(t.log_prob) for t in tokens],
        "top_logprobs": tops if top else None,
        "text_offset": [one.offset for one in tokens],
    }


def chat_log_probs(tokenizer: Tokenizer, tokens: Sequence[Token]) -> dict[str, Any]:
    """Tokens as the `logprobs` of /v1/chat/completions."""
    content = list[Any]()
    for one in tokens:
        raw = _bytes(tokenizer, one)
        own = {"token": one.text, "logprob": number(one.log_prob or 0.0), "bytes": list(raw)}
        tops = [
            {
                "token": _name(tokenizer, index, one),
                "logprob": number(log_prob),
                "bytes": list(tokenizer.shown_bytes(index, skip_specials=False)),
            }
            for index, log_prob in one.top
        ]
        content.append(own | {"top_logprobs": tops})
    return {"content": content, "refusal": None}


def _name(tokenizer: Tokenizer, index: int, chosen: Token) -> str:
    r"""A token among the likeliest: its text, or `bytes:\xe2` of a part of a character."""
    if index == chosen.id and chosen.text:
        return chosen.text
    raw = tokenizer.shown_bytes(index, skip_specials=False)
    try:
        return raw.decode()
    except UnicodeDecodeError:
        return "bytes:" + "".join(f"\\x{byte:02x}" for byte in raw)


def _bytes(tokenizer: Tokenizer, one: Token) -> bytes:
    """The bytes of a token of a text: its own where it has a part of a character."""
    raw = tokenizer.shown_bytes(one.id)
    try:
        raw.decode()
    except UnicodeDecodeError:
        return raw
    return one.text.encode()


def usage(choices: Sequence[Choice], prompts: Sequence[Prompt]) -> dict[str, int]:
    """Tokens that were read and generated."""
    read = sum(len(prompt.ids) for prompt in prompts)
    made = sum(len(choice.ids) for choice in choices)
    return {"prompt_tokens": read, "completion_tokens": made, "total_tokens": read + made}
