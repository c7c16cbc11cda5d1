"""Words with their vectors, of a file or of a model's own embedding, and arithmetic on them: king -
man + woman.

    e_king - e_man + e_woman ≈ e_queen

Source: Note E (directions in the space of embeddings).
"""

import difflib
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np

from glassformer.errors import ConfigError, DataError, counted
from glassformer.inspect.similarity import analogy, unit
from glassformer.inspect.vectorfiles import read_named, read_text
from glassformer.layers.embed import TokenEmbedding
from glassformer.models.transformer import Transformer
from glassformer.tokenizers.text import Tokenizer

SIGNS = {"+": 1, "-": -1, "−": -1, "–": -1}
CANCELLED = 1e-6
COMPARED = 20_000


@dataclass(frozen=True)
class Vocabulary:
    """A model's tokenizer and embedding matrix [V, D], of which words are made that are no token
    themselves."""

    tokenizer: Tokenizer
    rows: np.ndarray
    word_of: dict[int, int]
    """Of a token that is a whole word, which word it is."""


@dataclass(frozen=True)
class WordVectors:
    """`words`, each once, and their `vectors` float32 [N, D]; `vocabulary`: they are tokens of a
    model."""

    name: str
    words: Sequence[str]
    vectors: np.ndarray
    vocabulary: Vocabulary | None = None

    @cached_property
    def _places(self) -> dict[str, int]:
        return {word: i for i, word in enumerate(self.words)}

    def vector(self, word: str) -> np.ndarray:
        """The vector of a word, float32 [D]; of one of several tokens their mean. DataError: there
        is none."""
        return self._found(word)[1]

    def analogy(self, expression: str, k: int = 10) -> list[tuple[str, float]]:
        """The `k` words nearest to `king - man + woman`, best first with their similarity, its own
        words left out.

        One word alone gives its neighbours. DataError: no such expression, a word that there is
        not, words that cancel.
        """
        terms = [(sign, *self._found(word)) for sign, word in parse(expression)]
        plus, minus = (
            np.stack([self.vectors[0] * 0, *(vector for own, _, vector in terms if own == sign)])
            for sign in (1, -1)
        )
        if np.abs(unit(plus).sum(0) - unit(minus).sum(0)).max() < CANCELLED:
            raise DataError(
                f"In {expression.strip()!r} the words cancel each other; leave one of them out."
            )
        own = {place for _, place, _ in terms if place is not None}
        indices, similarities = analogy(self.vectors, plus, minus, own, k)
        return [(self.words[int(i)], float(s)) for i, s in zip(indices, similarities, strict=True)]

    def _found(self, word: str) -> tuple[int | None, np.ndarray]:
        """A word's place among the words, if it has one, and its vector."""
        if word in self._places:
            return self._places[word], self.vectors[self._places[word]]
        if own := self.vocabulary:
            ids = own.tokenizer.encode(f" {word}")
            if len(ids) and own.tokenizer.specials.get("unk") not in ids.tolist():
                return own.word_of.get(int(ids[0])) if len(ids) == 1 else None, own.rows[ids].mean(
                    0
                )
        known = f"the {counted(len(self.words), 'word')} of {self.name}"
        raise DataError(f"{word!r} is not among {known}; {self._hint(word)}")

    def _hint(self, word: str) -> str:
        """The tail of a sentence: words like this one. Of hundreds of thousands only the likely
        ones are compared."""
        like = [
            w
            for w in self.words
            if w[:1].casefold() == word[:1].casefold() and abs(len(w) - len(word)) < 3
        ]
        same = [w for w in like if w.casefold() == word.casefold()]
        close = same[:2] or difflib.get_close_matches(word, like[:COMPARED], n=2)
        return f"did you mean {' or '.join(map(repr, close))}?" if close else "choose another word."


def parse(expression: str) -> list[tuple[int, str]]:
    """`king - man + woman` as [(1, king), (-1, man), (1, woman)]; signs stand between spaces.
    DataError otherwise."""
    terms: list[tuple[int, str]] = []
    sign: int | None = 1
    parts = expression.split()
    for place, part in enumerate(parts):
        if part in SIGNS and (place == 0 or sign is None):
            sign = SIGNS[part]
        elif part not in SIGNS and sign is not None:
            terms.append((sign, part))
            sign = None
        else:
            raise _no_expression(
                expression, f"{part!r} stands where {'a word' if sign else '+ or -'} is needed"
            )
    if not parts or sign is not None:
        raise _no_expression(expression, "a word is missing at its end")
    return terms


def _no_expression(expression: str, reason: str) -> DataError:
    return DataError(
        f"{expression.strip()!r} cannot be worked out, {reason}; write it as 'king - man + woman'."
    )


def model_words(model: Transformer, tokenizer: Tokenizer, name: str) -> WordVectors:
    """The tokens of a vocabulary that are whole words, with their rows of the embedding matrix.

    ConfigError: there is none.
    """
    element = (model.source_embed or model.embed).element
    if not isinstance(element, TokenEmbedding):
        raise ConfigError(f"{name} reads {model.config.elements}, not words; give --vectors FILE.")
    rows = element.weight.detach().float().cpu().numpy()
    ids = _whole_words(tokenizer, " ") or _whole_words(tokenizer, "")
    if not ids:
        raise ConfigError(
            f"No token of {name} is a whole word (its tokenizer is of kind {tokenizer.kind}); "
            f"give the vectors of "
            "words with --vectors FILE, or a run whose tokenizer is of kind word or bpe."
        )
    word_of = {index: place for place, index in enumerate(ids.values())}
    return WordVectors(
        name, list(ids), rows[list(ids.values())], Vocabulary(tokenizer, rows, word_of)
    )


def _whole_words(tokenizer: Tokenizer, before: str) -> dict[str, int]:
    """Words that, with this before them, are one token: no pieces of words, which stand for
    themselves only inside."""
    found: dict[str, int] = {}
    pieces = range(0 if tokenizer.kind in ("byte", "character") else tokenizer.vocab_size)
    for index in sorted({*pieces} - {*tokenizer.specials.values()}):
        word = tokenizer.piece(index).strip()
        if (
            " " not in word
            and any(map(str.isalnum, word))
            and tokenizer.encode(before + word).tolist() == [index]
        ):
            found[word] = index
    return found


def read_words(path: Path) -> WordVectors:
    """The word vectors of a file, of a word that is there twice the first. DataError: names the
    line."""
    texts, vectors = read_named(path) if path.suffix == ".jsonl" else read_text(path)
    first: dict[str, int] = {}
    for i, word in enumerate(texts):
        first.setdefault(word, i)
    if not first:
        raise DataError(
            f"{path} has no word with a vector; give lines such as 'king 0.1 -0.2 0.3'."
        )
    return WordVectors(
        str(path),
        list(first),
        vectors[list(first.values())] if len(first) < len(texts) else vectors,
    )
