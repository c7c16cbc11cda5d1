"""The tokens of a text and the words that they belong to.

    text     ein  Häuschen           words   0 "ein"   1 "Häuschen"
    tokens   e in ␣ ␣ H ä us chen <eos>
    word_of  0 0  - - 1 1 1  1    -

A word is a maximal run of characters that are not space, or a match of another expression.
"""

import re
import string
import unicodedata
from collections import Counter
from dataclasses import dataclass
from functools import cache
from itertools import groupby

import numpy as np

from glassformer.core.errors import ConfigError
from glassformer.tokenizers.text import Tokenizer

WORD = r"[\S\x1c-\x1f]+"
"""Runs of characters that are not Unicode white space; Python's \\s has four more separators."""
NUMBERS_AND_NAMES = r"\d+|[^\s\d.,،፣/()-]+"
"""Parts of a date: numbers, and runs of characters that are no number, space or punctuation."""


@dataclass(frozen=True)
class Side:
    """One side of a pair: its text, its tokens in printable form, its words, and the word of each
    token or None."""

    text: str
    pieces: tuple[str, ...]
    words: tuple[str, ...]
    word_of: tuple[int | None, ...]

    def tokens(self, word: int) -> list[int]:
        """The places of the tokens of a word."""
        return [place for place, owner in enumerate(self.word_of) if owner == word]


def read_side(
    tokenizer: Tokenizer,
    text: str,
    ids: np.ndarray,
    prefix: str = "",
    word: str = WORD,
    before: int = 0,
) -> Side:
    """One side of a pair; `ids` are those of prefix + text, behind `before` special symbols, with
    or without special symbols after.

    A token that touches two words belongs to the one of which it holds more characters, to the
    first of equals; a token of space, of the prefix or without text belongs to none. ConfigError:
    `word` is no regular expression.
    """
    spans = word_spans(text, word)
    owners = [*[None] * before, *token_words(tokenizer, text, spans, prefix)]
    assert len(owners) <= len(ids)
    rest = [None] * (len(ids) - len(owners))
    pieces = tuple(tokenizer.piece(int(index)) for index in ids)
    return Side(text, pieces, tuple(text[begin:end] for begin, end in spans), (*owners, *rest))


def word_spans(text: str, word: str = WORD) -> list[tuple[int, int]]:
    """Begin and end of each word in characters; ConfigError: `word` is no regular expression."""
    try:
        return [found.span() for found in re.finditer(word, text) if found[0]]
    except re.error as problem:
        raise ConfigError(
            rf"word is {word!r}, which is no regular expression: {problem}; give one, for "
            r"instance '\S+'."
        ) from None


def token_words(
    tokenizer: Tokenizer, text: str, spans: list[tuple[int, int]], prefix: str = ""
) -> list[int | None]:
    """The number of the word of each token of prefix + text, or None; see `read_side`."""
    owners: list[int | None] = [None] * len(prefix + text)
    for number, (begin, end) in enumerate(spans):
        own = slice(len(prefix) + begin, len(prefix) + end)
        owners[own] = [number] * (end - begin)
    ids, places = _places(tokenizer, prefix + text)
    found = [_most(owners[begin:end]) for begin, end in places]
    # the library gives a space that it puts before a text the place of the first character
    spaces = [tokenizer.token_bytes(index).isspace() for index in ids]
    return [None if space else word for space, word in zip(spaces, found, strict=True)]


def _places(tokenizer: Tokenizer, text: str) -> tuple[list[int], list[tuple[int, int]]]:
    """Return the ids of a text, and the characters that each came from: begin and end."""
    if tokenizer.kind not in ("byte", "character"):
        ids, places = tokenizer.encode_spans(text)
        return ids.tolist(), places.tolist()
    sizes = [len(one.encode()) if tokenizer.kind == "byte" else 1 for one in text]
    places = [(at, at + 1) for at, size in enumerate(sizes) for _ in range(size)]
    return tokenizer.encode(text).tolist(), places


def _most(touched: list[int | None]) -> int | None:
    """The word that occurs most often, the first of equals."""
    found = Counter(word for word in touched if word is not None).most_common(1)
    return found[0][0] if found else None


def split_punctuation(text: str) -> list[str]:
    """The words of a text as kind `word` splits it: at white space, punctuation marks apart."""
    found: list[str] = []
    for word in text.split():
        for alone, characters in groupby(word, _is_punctuation):
            part = list(characters)
            found += part if alone else ["".join(part)]
    return found


@cache
def _is_punctuation(character: str) -> bool:
    return character in string.punctuation or unicodedata.category(character).startswith("P")
