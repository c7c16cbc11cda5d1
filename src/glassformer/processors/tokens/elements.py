"""Names of the elements of a sequence: tokens, patches, colours, and the word each belongs to.

"The cat"  ->  Element("The", 17, "token", word=0), Element(" cat", 4, "token", word=1)
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain, repeat

import numpy as np

from glassformer.core.batch import Batch
from glassformer.core.errors import DataError
from glassformer.processors.tokens.word_spans import WORD, token_words, word_spans
from glassformer.tokenizers.text import Tokenizer

Ids = Sequence[int]
Content = str | list[np.ndarray] | tuple[int, ...] | np.ndarray
"""Neighbouring elements: a text, the ids of each of several words, or elements without a word."""


@dataclass(frozen=True)
class Element:
    """One element of a sequence."""

    label: str
    """A token's text, white space kept; or `patch 2,3`, `frame 5`, `[class]`, `[register 1]`."""
    id: int | None
    """The token id; None for patches."""
    kind: str
    """token, special, image, audio; class, register: learned."""
    word: int | None = None
    """The number of its word; None: it belongs to no word."""
    row: int | None = None
    """Row of a patch in its grid; of audio, along time."""
    column: int | None = None
    """Column of a patch in its grid; of audio, along frequency."""

    @property
    def learned(self) -> bool:
        """Whether it is no part of the input, but a learned token of the model."""
        return self.kind in ("class", "register")


@dataclass(frozen=True)
class EncodedInput:
    """One sequence: its batch, the elements of the stack with the head, those of a source."""

    batch: Batch
    elements: tuple[Element, ...]
    source: tuple[Element, ...] = ()


def prefix_elements(class_token: bool, n_registers: int) -> tuple[Element, ...]:
    """Elements of the learned tokens before patches."""
    first = [Element("[class]", None, "class")] * class_token
    registers = range(1, n_registers + 1)
    return (*first, *(Element(f"[register {n}]", None, "register") for n in registers))


def token_label(tokenizer: Tokenizer, index: int) -> str:
    r"""Text of a token, white space kept; bytes that are not UTF-8 as `\xe2`; `id 7` for an id
    beyond the vocabulary (a model may have more rows than its tokenizer has tokens)."""
    if index in tokenizer.specials.values():
        return tokenizer.piece(index)
    try:
        return tokenizer.token_bytes(index).decode("utf-8", "backslashreplace")
    except DataError:
        return f"id {index}"


def token_names(tokenizer: Tokenizer, size: int) -> tuple[str, ...]:
    """Names of the first `size` ids."""
    return tuple(token_label(tokenizer, i) for i in range(size))


def token_elements(
    tokenizer: Tokenizer, ids: Ids, contents: Sequence[Content] = (), prefix: str = ""
) -> tuple[Element, ...]:
    """Return the elements of token ids that these contents became, a text after the prefix; what
    is left belongs to no word."""
    specials = set(tokenizer.specials.values())
    words = chain(_words_of(tokenizer, contents, prefix), repeat(None))
    return tuple(
        Element(token_label(tokenizer, i), i, "special" if i in specials else "token", word)
        for i, word in zip(ids, words, strict=False)
    )


def _words_of(tokenizer: Tokenizer, contents: Sequence[Content], prefix: str) -> list[int | None]:
    """Return the number of the word of each element, counted over all contents; None: no word."""
    found = list[int | None]()
    for content in contents:
        first = 1 + max((word for word in found if word is not None), default=-1)
        if isinstance(content, str):
            own = token_words(tokenizer, content, word_spans(content, WORD), prefix)
            found += [None if word is None else word + first for word in own]
        elif isinstance(content, list):
            found += [first + number for number, ids in enumerate(content) for _ in ids]
        else:
            found += [None] * len(content)
    return found
