"""`fill`: the likeliest tokens for each blank of a text, by a masked language model.

    The ___ sat on the [MASK].        two blanks: each is predicted while the other is hidden too

A blank is three or more underscores, `[MASK]`, `<mask>`, or the tokenizer's own mask symbol.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from itertools import chain
from typing import Any, ClassVar

import numpy as np

from glassformer.core.errors import ConfigError, one_line
from glassformer.data.example import Example
from glassformer.processors.tokens.text_reader import TextReader
from glassformer.tasks.options import FillOptions
from glassformer.tasks.predictors.head import HeadPredictor
from glassformer.tasks.predictors.predictor import OfText, Parsed, Prediction, check_text
from glassformer.tokenizers.text import Tokenizer

TOGETHER = 32
"""Sequences whose logits are in memory together."""


@dataclass(frozen=True)
class Word:
    """A token for a blank: its text there, its printable form, and its probability."""

    word: str
    piece: str
    id: int
    probability: float


@dataclass(frozen=True)
class Filled(Prediction):
    """A text with the likeliest word in each blank, and the likeliest words of each, best first.

    Words of several blanks are chosen apart, and so need not fit together. `text` None: the input
    is blank.
    """

    text: str | None
    blanks: Sequence[Sequence[Word]]

    @property
    def value(self) -> str | None:
        """The text with its blanks filled."""
        return self.text

    def line(self) -> str:
        """See `Prediction`: a line `1 <TAB> 0.4312 <TAB> cat` for each word, and an empty one."""
        return "".join(
            f"{number}\t{one.probability:.4f}\t{one_line(one.word)}\n"
            for number, blank in enumerate(self.blanks, 1)
            for one in blank
        )

    def cell(self) -> str:
        """See `Prediction`: the filled text."""
        return one_line(self.text or "")

    def json(self) -> dict[str, Any]:
        """See `Prediction`: `filled`, and the words of each of the `blanks`."""
        words = [[asdict(word) for word in blank] for blank in self.blanks]
        return {"filled": self.text, "blanks": words}

    def columns(self) -> dict[str, Any]:
        """See `Prediction`; None of a blank input."""
        words = [
            [{"word": one.word, "probability": round(one.probability, 6)} for one in blank]
            for blank in self.blanks
        ]
        return {"filled": self.text, "blanks": None if self.text is None else words}


class Fill(OfText[FillOptions], HeadPredictor[FillOptions]):
    """Words for the blanks of texts, with p = softmax over all tokens.

    Of a text longer than the model, each blank is read in a window around it.
    """

    name, routes, noun = "fill", ("fill",), "Text"
    reply: ClassVar = {
        "filled": {"type": ["string", "null"]},
        "blanks": {"type": "array", "items": {"type": "array", "items": {"type": "object"}}},
    }

    def from_values(self, values: Sequence[Any], where: str) -> str | None:
        """See `Predictor`. ConfigError: the text has no blank."""
        text = super().from_values(values, where)
        if not text.strip():
            return None
        parts_of(self.processor.tokenizer, text, where)
        return text

    def parse(
        self, given: Any, options: FillOptions, where: str = "The input", number: int = 1
    ) -> Parsed:
        """See `Predictor`: `about` has the parts around the blanks."""
        if given is None:
            return Parsed(given, (), number=number)
        parts = parts_of(self.processor.tokenizer, check_text(given), where)
        return Parsed(given, list(_windows(self.processor.reader, parts)), parts, number)

    def compute(self, examples: Sequence[Example], options: FillOptions) -> list[list[list[Word]]]:
        """See `HeadPredictor`: the words of each blank of a sequence."""
        tokenizer, found = self.processor.tokenizer, list[list[list[Word]]]()
        known = min(tokenizer.vocab_size, self.model.config.vocab_size)
        for start in range(0, len(examples), TOGETHER):
            for logits in super().compute(examples[start : start + TOGETHER], options):
                best = logits.softmax(-1)[:, :known].topk(min(options.top, known))
                rows = zip(best.indices.tolist(), best.values.tolist(), strict=True)
                found.append(
                    [[_word(tokenizer, i, p) for i, p in zip(*row, strict=True)] for row in rows]
                )
        return found

    def prediction(
        self, one: Parsed, found: Sequence[list[list[Word]]], options: FillOptions
    ) -> Filled:
        """See `HeadPredictor`: the likeliest word fills each blank."""
        if one.about is None:
            return Filled(None, ())
        blanks = list(chain.from_iterable(found))
        words = [*(blank[0].word for blank in blanks), ""]
        text = "".join(part + word for part, word in zip(one.about, words, strict=True))
        return Filled(text, blanks)


def _mask(tokenizer: Tokenizer) -> tuple[str, int]:
    """The mask symbol and its id."""
    if "mask" not in tokenizer.specials:
        raise ConfigError("The tokenizer has no mask symbol, which a blank becomes.")
    index = tokenizer.specials["mask"]
    return tokenizer.symbol(index), index


def parts_of(tokenizer: Tokenizer, text: str, name: str) -> list[str]:
    """Cut a text at its blanks; ConfigError: it has none."""
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


def _word(tokenizer: Tokenizer, index: int, probability: float) -> Word:
    text = tokenizer.shown_bytes(index, False).decode(errors="replace")
    word = text if tokenizer.kind in ("byte", "character") else text.strip() or text
    return Word(word, tokenizer.piece(index), index, probability)
