"""The likeliest tokens for each blank of a text, by a masked language model.

    The ___ sat on the [MASK].        two blanks: each is predicted while the other is hidden too

A blank is three or more underscores, `[MASK]`, `<mask>`, or the tokenizer's own mask symbol.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice

import numpy as np

from glassformer.core.errors import ConfigError
from glassformer.data.example import Example
from glassformer.models.transformer import Transformer
from glassformer.processors.tokens.text_reader import TextReader
from glassformer.tasks.predict.classify import Batches, answers
from glassformer.tokenizers.text import Tokenizer

TOGETHER = 32
"""Sequences whose logits are in memory at once."""


@dataclass(frozen=True)
class Word:
    """A token for a blank: its text as it stands there, its printable form, and its probability."""

    word: str
    piece: str
    id: int
    probability: float


@dataclass(frozen=True)
class Filled:
    """A text with the likeliest word in each blank, and the likeliest words of each, best first.

    Words of several blanks are chosen apart, and so need not fit together.
    """

    text: str
    blanks: list[list[Word]]


def fill(
    model: Transformer,
    reader: TextReader,
    batches: Batches,
    texts: Sequence[str],
    top: int = 1,
    first: int = 1,
) -> list[Filled]:
    """The `top` likeliest tokens for each blank of each text, with p = softmax over all tokens.

    Of a text longer than the model, each blank is read in a window around it. ConfigError: a text
    without a blank, counted from `first`, a tokenizer without a mask symbol, no token asked for.
    """
    if top < 1:
        raise ConfigError(f"At least 1 word is given for a blank, and top={top}; raise it.")
    tokenizer = reader.tokenizer
    split = [
        parts_of(tokenizer, text, f"Text {number}") for number, text in enumerate(texts, first)
    ]
    windows = [list(_windows(reader, parts)) for parts in split]
    found = _likeliest(model, tokenizer, batches, [one for own in windows for one in own], top)
    filled = []
    for parts, own in zip(split, windows, strict=True):
        blanks = list(islice(found, sum(len(one.at) for one in own if one.at is not None)))
        words = [blank[0].word for blank in blanks]
        text = "".join(part + word for part, word in zip(parts, [*words, ""], strict=True))
        filled.append(Filled(text, blanks))
    return filled


def _mask(tokenizer: Tokenizer) -> tuple[str, int]:
    """The mask symbol and its id."""
    if "mask" not in tokenizer.specials:
        raise ConfigError("The tokenizer has no mask symbol, which a blank becomes.")
    index = tokenizer.specials["mask"]
    return tokenizer.symbol(index), index


def parts_of(tokenizer: Tokenizer, text: str, name: str) -> list[str]:
    """What stands before, between and behind the blanks of a text; ConfigError: it has none."""
    symbol = _mask(tokenizer)[0]
    parts = re.split(rf"\[MASK\]|<mask>|{re.escape(symbol)}|_{{3,}}", text)
    if len(parts) == 1:
        raise ConfigError(f"{name} has no blank; write ___ or {symbol} where a word is missing.")
    return parts


def _windows(reader: TextReader, parts: Sequence[str]) -> Iterator[Example]:
    """The sequence of a text with all its blanks, or one around each blank if it is too long.

    The space before a word belongs to its token, except where tokens are bytes or characters.
    """
    tokenizer, ids, at = reader.tokenizer, list[int](), list[int]()
    single, mask = tokenizer.kind in ("byte", "character"), _mask(tokenizer)[1]
    for number, part in enumerate(parts):
        if number:
            at.append(len(ids))
            ids.append(mask)
        before = part if single or number == len(parts) - 1 else part.rstrip(" ")
        ids += tokenizer.encode(before).tolist() if before else []
    room, begin = reader.room, len(reader.frame.begin)
    spans = [(0, len(ids), at)] if len(ids) <= room else list[tuple[int, int, list[int]]]()
    for place in () if spans else at:
        start = min(max(0, place - room // 2), len(ids) - room)
        spans.append((start, start + room, [place]))
    for start, end, own in spans:
        places = np.array(own, np.int64) - start + begin
        yield Example(reader.framed(np.array(ids[start:end], np.int32)), at=places)


def _likeliest(
    model: Transformer,
    tokenizer: Tokenizer,
    batches: Batches,
    examples: Sequence[Example],
    top: int,
) -> Iterator[list[Word]]:
    """The likeliest words of each blank, in order; ids without a token are left out."""
    known = min(tokenizer.vocab_size, model.config.vocab_size)
    for start in range(0, len(examples), TOGETHER):
        for logits in answers(model, examples[start : start + TOGETHER], batches):
            best = logits.softmax(-1)[:, :known].topk(min(top, known))
            for ids, shares in zip(best.indices.tolist(), best.values.tolist(), strict=True):
                yield [_word(tokenizer, i, p) for i, p in zip(ids, shares, strict=True)]


def _word(tokenizer: Tokenizer, index: int, probability: float) -> Word:
    text = tokenizer.shown_bytes(index, False).decode(errors="replace")
    word = text if tokenizer.kind in ("byte", "character") else text.strip() or text
    return Word(word, tokenizer.piece(index), index, probability)
