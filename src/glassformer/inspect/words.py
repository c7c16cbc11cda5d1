"""The tokens of a text and the words that they belong to.

    text     ein  Häuschen           words   0 "ein"   1 "Häuschen"
    tokens   e in ␣ ␣ H ä us chen <eos>
    word_of  0 0  - - 1 1 1  1    -

A word is a maximal run of characters that are not space. Knows: tokenizers, UTF-8. Does not know: models, attention.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from glassformer.errors import ConfigError
from glassformer.tokens.lookup import utf8
from glassformer.tokens.text import Tokenizer

_WORD = re.compile(r"[\S\x1c-\x1f]+")  # Unicode's white space, to which Python alone adds four separators


@dataclass(frozen=True)
class Side:
    """One side of a pair: its text, its tokens in printable form, its words, and the word of each token or None."""

    text: str
    pieces: tuple[str, ...]
    words: tuple[str, ...]
    word_of: tuple[int | None, ...]

    def tokens(self, word: int) -> list[int]:
        """The places of the tokens of a word."""
        return [place for place, owner in enumerate(self.word_of) if owner == word]


def read_side(tokenizer: Tokenizer, text: str, ids: np.ndarray, prefix: str = "") -> Side:
    """The side of a text whose `ids` are those of prefix + text and perhaps special symbols behind them.

    A token that touches two words belongs to the one of which it holds more bytes, the first if that is undecided; a
    token of space, of the prefix or without text belongs to none. ConfigError: a tokenizer that cannot be followed.
    """
    pieces = tuple(tokenizer.piece(int(index)) for index in ids)
    owners = token_words(tokenizer, text, prefix)
    if len(owners) > len(ids):
        raise ConfigError(f"There are {len(ids)} ids for a text of {len(owners)} tokens; give those of its tokenizer.")
    rest = [None] * (len(ids) - len(owners))
    return Side(text, pieces, tuple(_WORD.findall(text)), (*owners, *rest))


def token_words(tokenizer: Tokenizer, text: str, prefix: str = "") -> list[int | None]:
    """The number of the word that each token of prefix + text belongs to, or None; see `read_side`."""
    whole = prefix + text
    ids = [int(index) for index in tokenizer.encode(whole)]
    if tokenizer.kind == "character":  # also where a character is unknown, which has no bytes
        return _by_bytes(text, prefix, [len(character.encode()) for character in whole])
    parts = [tokenizer.token_bytes(index) for index in ids]
    if b"".join(parts) == utf8(whole):
        return _by_bytes(text, prefix, [len(part) for part in parts])
    return _by_words(tokenizer, text, prefix, ids)


def _by_bytes(text: str, prefix: str, lengths: list[int]) -> list[int | None]:
    """The word of each token, given how many bytes each has."""
    owner: list[int | None] = [None] * len((prefix + text).encode())
    shift = len(prefix.encode())
    for number, found in enumerate(_WORD.finditer(text)):
        begin = shift + len(text[: found.start()].encode())
        owner[begin : begin + len(found[0].encode())] = [number] * len(found[0].encode())
    words, place = [], 0
    for length in lengths:
        touched = [word for word in owner[place : place + length] if word is not None]
        words.append(max(dict.fromkeys(touched), key=touched.count, default=None))
        place += length
    return words


def _by_words(tokenizer: Tokenizer, text: str, prefix: str, ids: list[int]) -> list[int | None]:
    """The word of each token where tokens do not spell the text (unknown words, lower case): run by run of no space."""
    found, owners = [], []
    for run, number, own in _runs(text, prefix):
        tokens = tokenizer.encode(run).tolist()
        inside = len(tokens) if own == run else min(len(tokens), len(tokenizer.encode(own)) if own else 0)
        found += tokens
        owners += [None] * (len(tokens) - inside) + [number] * inside
    if found != ids:
        raise ConfigError(
            f"The tokens of {text[:40]!r} cannot be told apart by words, since this tokenizer reads across spaces; "
            "use one of kind byte, character, bpe or word."
        )
    return owners


def _runs(text: str, prefix: str) -> Iterator[tuple[str, int, str]]:
    """The runs of no space of prefix + text, each with the number of the word that it ends with and that word."""
    number = 0
    for found in _WORD.finditer(prefix + text):
        own = found[0][max(0, len(prefix) - found.start()) :]
        yield found[0], number, own
        number += bool(own)
