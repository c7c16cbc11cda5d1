"""Names of the elements of a sequence: tokens, patches, colours, and the word each belongs to.

"The cat"  ->  Element("The", 17, "token", word=0), Element(" cat", 4, "token", word=1)
"""

import itertools
from collections.abc import Sequence
from dataclasses import dataclass

from glassformer.core.errors import DataError
from glassformer.processors.word_spans import WORD, token_words, word_spans
from glassformer.tokenizers.text import Tokenizer

Ids = Sequence[int]
Owners = Sequence[int | None]
"""The number of the word that each element belongs to; None: no word."""


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


def token_elements(tokenizer: Tokenizer, ids: Ids, words: Owners = ()) -> tuple[Element, ...]:
    """Elements of token ids; `words` may be shorter than `ids`: the rest belongs to no word."""
    specials = set(tokenizer.specials.values())
    owners = itertools.chain(words, itertools.repeat(None))
    return tuple(
        Element(token_label(tokenizer, i), i, "special" if i in specials else "token", word)
        for i, word in zip(ids, owners, strict=False)
    )


def words_of(tokenizer: Tokenizer, text: str, first: int = 0, prefix: str = "") -> list[int | None]:
    """Word number of each token of prefix + text, counted from `first`; None: it has no word."""
    words = token_words(tokenizer, text, word_spans(text, WORD), prefix)
    return [None if word is None else word + first for word in words]


def next_word(words: Owners) -> int:
    """The first unused word number."""
    return 1 + max((word for word in words if word is not None), default=-1)
