"""Word vectors of a file or of a model's own embedding, and arithmetic on them.

    e_king - e_man + e_woman ≈ e_queen

Source: Note E (directions in the space of embeddings).
"""

import difflib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np

from glassformer.core.errors import ConfigError, DataError, counted
from glassformer.inspect.vectors import nearest, read_named, unit
from glassformer.layers.embed import TokenEmbedding
from glassformer.models.transformer import Transformer
from glassformer.tokenizers.text import Tokenizer

SIGNS = {"+": 1, "-": -1, "−": -1, "–": -1}
CANCELLED = 1e-6
COMPARED = 20_000
"""Most words that a misspelt one is compared with."""

Found = tuple[int | None, np.ndarray]
"""A word's place among the words, if it has one, and its vector, float32 [D]."""


@dataclass(frozen=True)
class WordVectors:
    """`words`, each once, their `vectors` float32 [N, D], and `other` for words not among them."""

    name: str
    words: Sequence[str]
    vectors: np.ndarray
    other: Callable[[str], Found | None] = lambda word: None

    @cached_property
    def _places(self) -> dict[str, int]:
        return {word: i for i, word in enumerate(self.words)}

    def analogy(self, expression: str, k: int = 10) -> list[tuple[str, float]]:
        """The `k` words nearest to `king - man + woman`, best first with their similarity.

        Its own words are left out. Each vector is brought to length 1 first, so that a frequent
        word's long vector does not decide alone (3CosAdd of Levy and Goldberg 2014). One word alone
        gives its neighbours. DataError: no such expression, an unknown word, words that cancel.
        """
        terms = [(sign, *self.find(word)) for sign, word in parse(expression)]
        wanted = np.sum([sign * unit(vector) for sign, _, vector in terms], 0)
        if np.abs(wanted).max() < CANCELLED:
            raise DataError(
                f"In {expression.strip()!r} the words cancel each other; leave one of them out."
            )
        own = {place for _, place, _ in terms}
        indices, similarities = nearest(wanted[None], self.vectors, k + len(own))
        found = zip(indices[0].tolist(), similarities[0].tolist(), strict=True)
        return [(self.words[int(i)], likeness) for i, likeness in found if i not in own][:k]

    def find(self, word: str) -> Found:
        """Place and vector of a word; DataError: an unknown word."""
        if word in self._places:
            return self._places[word], self.vectors[self._places[word]]
        if found := self.other(word):
            return found
        known = f"the {counted(len(self.words), 'word')} of {self.name}"
        raise DataError(f"{word!r} is not among {known}; {self._hint(word)}")

    def _hint(self, word: str) -> str:
        """The tail of a sentence: similar words, among those of like beginning and length."""
        like = {
            other.casefold(): other
            for other in reversed(self.words)  # so that the first of equals stays
            if other[:1].casefold() == word[:1].casefold() and abs(len(other) - len(word)) < 3
        }
        close = difflib.get_close_matches(word.casefold(), [*like][:COMPARED], n=2)
        names = " or ".join(repr(like[name]) for name in close)
        return f"did you mean {names}?" if close else "choose another word."


def parse(expression: str) -> list[tuple[int, str]]:
    """`king - man + woman` as [(1, king), (-1, man), (1, woman)]; signs stand between spaces.

    DataError: no such expression.
    """
    parts = expression.split()
    if parts and parts[0] not in SIGNS:
        parts = ["+", *parts]
    signs, words = parts[::2], parts[1::2]
    if not words or len(signs) != len(words) or {*signs} - {*SIGNS} or {*words} & {*SIGNS}:
        raise DataError(
            f"{expression.strip()!r} cannot be worked out; write it as 'king - man + woman'."
        )
    return [(SIGNS[sign], word) for sign, word in zip(signs, words, strict=True)]


def model_words(model: Transformer, tokenizer: Tokenizer, name: str) -> WordVectors:
    """The tokens of a vocabulary that are whole words, with their rows of the embedding matrix.

    A word of several tokens has their mean. ConfigError: no such token.
    """
    element = (model.source_embed or model.embed).element
    if not isinstance(element, TokenEmbedding):
        raise ConfigError(f"{name} reads {model.config.elements}, not words; give --vectors FILE.")
    rows = element.weight.detach().float().cpu().numpy()
    ids = _whole_words(tokenizer, " ") or _whole_words(tokenizer, "")
    if not ids:
        raise ConfigError(
            f"No token of {name} is a whole word (its tokenizer is of kind {tokenizer.kind}); give "
            f"the vectors of words with --vectors FILE, or a run whose tokenizer is of kind word "
            f"or bpe."
        )
    whole = list(ids.values())

    def of_tokens(word: str) -> Found | None:
        own = tokenizer.encode_word(word).tolist()
        if not own or tokenizer.specials.get("unk") in own:
            return None
        alone = len(own) == 1 and own[0] in whole
        return whole.index(own[0]) if alone else None, rows[own].mean(0)

    return WordVectors(name, list(ids), rows[whole], of_tokens)


def _whole_words(tokenizer: Tokenizer, before: str) -> dict[str, int]:
    """Words that, with this before them, are one token, and not only inside of longer words."""
    found: dict[str, int] = {}
    pieces = range(0 if tokenizer.kind in ("byte", "character") else tokenizer.vocab_size)
    for index in sorted({*pieces} - {*tokenizer.specials.values()}):
        word = tokenizer.piece(index).strip()
        if " " in word or not any(map(str.isalnum, word)):
            continue
        if tokenizer.encode(before + word).tolist() == [index]:
            found[word] = index
    return found


def read_words(path: Path) -> WordVectors:
    """The word vectors of a file, the first of a repeated word. DataError: names the line."""
    texts, vectors = read_named(path)
    first: dict[str, int] = {}
    for i, word in enumerate(texts):
        first.setdefault(word, i)
    if not first:
        raise DataError(
            f"{path} has no word with a vector; give lines such as 'king 0.1 -0.2 0.3'."
        )
    kept = vectors[list(first.values())] if len(first) < len(texts) else vectors
    return WordVectors(str(path), list(first), kept)
