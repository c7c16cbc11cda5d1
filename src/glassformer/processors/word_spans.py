"""The tokens of a text and the words that they belong to.

    text     ein  Häuschen           words   0 "ein"   1 "Häuschen"
    tokens   e in ␣ ␣ H ä us chen <eos>
    word_of  0 0  - - 1 1 1  1    -

A word is a maximal run of characters that are not space, or a match of another expression.
"""

import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from itertools import accumulate, pairwise

import numpy as np

from glassformer.errors import ConfigError
from glassformer.tokenizers.library import utf8
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

    A token that touches two words belongs to the one of which it holds more bytes, to the first of
    equals; a token of space, of the prefix or without text belongs to none. ConfigError: `word` is
    no regular expression.
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
    whole = prefix + text
    if tokenizer.kind == "character":  # also where a character is unknown, which has no bytes
        return _by_bytes(text, spans, prefix, [len(character.encode()) for character in whole])
    parts = [tokenizer.token_bytes(int(index)) for index in tokenizer.encode(whole)]
    if b"".join(parts) == utf8(whole):
        return _by_bytes(text, spans, prefix, [len(part) for part in parts])
    # tokens that do not spell the text, as those of lower-case words and of SentencePiece
    owners = _owners(text, spans, prefix, tokenizer.encode_spans(whole)[1].tolist(), len)
    # the library gives a space that it puts before a text the place of the first character
    return [None if part.isspace() else word for part, word in zip(parts, owners, strict=True)]


def _by_bytes(
    text: str, spans: list[tuple[int, int]], prefix: str, lengths: list[int]
) -> list[int | None]:
    """The word of each token, given how many bytes each has."""
    places = pairwise(accumulate(lengths, initial=0))
    return _owners(text, spans, prefix, places, lambda piece: len(piece.encode()))


def _owners(
    text: str,
    spans: list[tuple[int, int]],
    prefix: str,
    places: Iterable[tuple[int, int]],
    size: Callable[[str], int],
) -> list[int | None]:
    """The word of each token, given the places that each came from in units of `size`."""
    owner: list[int | None] = [None] * size(prefix)
    for piece, number in _pieces(text, spans):
        owner += [number] * size(piece)
    return [_most(owner[begin:end]) for begin, end in places]


def _most(touched: list[int | None]) -> int | None:
    """The word that occurs most often, the first of equals."""
    found = Counter(word for word in touched if word is not None).most_common(1)
    return found[0][0] if found else None


def _pieces(text: str, spans: list[tuple[int, int]]) -> Iterator[tuple[str, int | None]]:
    """The words of a text with their numbers, and the text between them with None."""
    place = 0
    for number, (begin, end) in enumerate(spans):
        yield text[place:begin], None
        yield text[begin:end], number
        place = end
    yield text[place:], None
