"""Tokens of a text to what is shown of it: characters, log-probabilities, the end."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import Any, Literal

import numpy as np

from glassformer.runtime.request import Event, Scored
from glassformer.tasks.predictors.text import RowText
from glassformer.tokenizers.stream import StreamDecoder
from glassformer.tokenizers.text import Tokenizer

LEAST_LOG = -9999.0
"""Instead of log 0, which JSON does not have."""


@dataclass(frozen=True)
class Prompt:
    """A prompt: its text, its ids, the number of ids before the text. `given_ids`: the text was
    decoded from ids."""

    text: str
    ids: tuple[int, ...]
    framed: int = 0
    given_ids: bool = False


@dataclass(frozen=True)
class Token(Scored):
    """A token of a text with its place and its characters.

    A character that several tokens spell is of the last of them, and begins where the first is.
    """

    offset: int = 0
    text: str = ""

    @property
    def end(self) -> int:
        """The place of the next token."""
        return self.offset + len(self.text)


@dataclass
class Choice:
    """One text as its tokens come. `echo`: the prompt comes before it; `empty`: of the text itself
    nothing is shown."""

    index: int
    prompt: Prompt
    tokenizer: Tokenizer
    row: RowText
    echo: bool = False
    empty: bool = False
    text: str = ""
    tokens: list[Token] = field(default_factory=list)
    """Those that are shown: of an echoed prompt, too."""
    finish: Literal["stop", "length"] | None = None
    n_sent: int = 0
    """Number of tokens that `complete` has given."""

    def push(self, event: Event) -> str:
        """The text that an event makes safe to show; errors of its computation."""
        if event.error is not None:
            raise event.error
        assert event.token is not None
        before = len(self.text)
        if self.echo and not self.row.ids:
            scores = event.scored[self.prompt.framed :]
            texts = _shares(self.tokenizer, self.prompt) if scores else ()
            for one, text in zip(scores, texts, strict=True):
                self._add(one, text)
            self.text = self.prompt.text
        if self.empty:
            self.finish = "length"
        else:
            self._continue(event.token, event.finish == "length")
        return self.text[before:]

    def _continue(self, new: Scored, last: bool) -> None:
        shown, finish = self.row.push(new, last)
        self._add(new, self.row.added)
        self.text += shown
        if finish is not None:
            self.finish = "length" if finish == "length" else "stop"
        if finish == "stop":  # a stop string and what follows it are not of the text
            n, kept = len(self.text), [one for one in self.tokens if one.offset < len(self.text)]
            self.tokens = [replace(one, text=one.text[: n - one.offset]) for one in kept]

    def _add(self, one: Scored, text: str) -> None:
        offset = self.tokens[-1].end if self.tokens else len(self.text)
        self.tokens.append(Token(one.id, one.log_prob, one.top, offset, text))

    def complete(self) -> list[Token]:
        """The tokens since the last call whose characters are shown."""
        begin, n = self.n_sent, len(self.tokens)
        while not self.finish and n > begin:
            last = self.tokens[n - 1]
            if last.text and last.end <= len(self.text):
                break
            n -= 1
        self.n_sent = n
        return self.tokens[begin:n]


def _shares(tokenizer: Tokenizer, prompt: Prompt) -> list[str]:
    """The characters of each token of a prompt; joined, its text."""
    text = prompt.text
    if prompt.given_ids:
        decoder = StreamDecoder(tokenizer, skip_specials=False)
        shares = [decoder.push(index) for index in prompt.ids]
        return [*shares[:-1], shares[-1] + decoder.flush()]
    spans = tokenizer.encode_spans(text)[1]
    begins = [*spans[1:, 0].tolist(), len(text)]
    ends = np.maximum.accumulate(np.minimum(spans[:, 1], begins))
    ends[-1] = len(text)
    return [text[a:b] for a, b in pairwise([0, *ends.tolist()])]


def completion_log_probs(tokenizer: Tokenizer, tokens: Sequence[Token], top: int) -> dict[str, Any]:
    """Tokens as the `logprobs` of /v1/completions."""
    return {
        "tokens": [one.text for one in tokens],
        "token_logprobs": [_number(one.log_prob) for one in tokens],
        "top_logprobs": [_top(tokenizer, one) for one in tokens] if top else None,
        "text_offset": [one.offset for one in tokens],
    }


def _top(tokenizer: Tokenizer, one: Token) -> dict[str, float | None] | None:
    """The likeliest tokens in the place of one, which is always among them."""
    if one.log_prob is None:
        return None
    row = dict[str, float | None]()
    known = dict(one.top) | {one.id: one.log_prob}
    for index, log_prob in sorted(known.items(), key=lambda pair: -pair[1]):
        row.setdefault(_name(tokenizer, index, one), _number(log_prob))  # of a name the likeliest
    return row


def chat_log_probs(tokenizer: Tokenizer, tokens: Sequence[Token]) -> dict[str, Any]:
    """Tokens as the `logprobs` of /v1/chat/completions."""
    content = list[Any]()
    for one in tokens:
        tops = [
            _as_json(_name(tokenizer, index, one), log_prob, tokenizer.shown_bytes(index, False))
            for index, log_prob in one.top
        ]
        raw = tokenizer.shown_bytes(one.id)
        raw = raw if _text(raw) is None else one.text.encode()  # its own if a part of a character
        content.append(_as_json(one.text, one.log_prob, raw) | {"top_logprobs": tops})
    return {"content": content, "refusal": None}


def _as_json(text: str, log_prob: float | None, raw: bytes) -> dict[str, Any]:
    return {"token": text, "logprob": _number(log_prob), "bytes": list(raw)}


def _number(log_prob: float | None) -> float | None:
    """log p as JSON has it."""
    return None if log_prob is None else max(LEAST_LOG, log_prob)


def _name(tokenizer: Tokenizer, index: int, chosen: Token) -> str:
    r"""A token among the likeliest: its text, or `bytes:\xe2` of a part of a character."""
    if index == chosen.id and chosen.text:
        return chosen.text
    raw = tokenizer.shown_bytes(index, skip_specials=False)
    text = _text(raw)
    return "bytes:" + "".join(f"\\x{byte:02x}" for byte in raw) if text is None else text


def _text(raw: bytes) -> str | None:
    """The text of bytes; None: they have a part of a character."""
    try:
        return raw.decode()
    except UnicodeDecodeError:
        return None
