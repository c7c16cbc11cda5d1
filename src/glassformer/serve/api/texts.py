"""Texts of one call: prompts to ids, how each text is generated, and tokens to what is shown.

Prompt ─> Request of the engine ─> Event ─> Choice: text that may be shown, log p, the end
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import Any, Literal

import numpy as np

from glassformer.generate.config import GenerateConfig
from glassformer.generate.request import Event, Scored
from glassformer.generate.text import RowText
from glassformer.serve.api.formats import Format
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
        self._sent = 0
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

    def complete(self) -> list[Token]:
        """The tokens since the last call whose characters are shown."""
        begin, n = self._sent, len(self.tokens)
        while not self.finish and n > begin:
            last = self.tokens[n - 1]
            if last.text and last.end <= len(self.text):
                break
            n -= 1
        self._sent = n
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
