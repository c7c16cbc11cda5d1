"""Cosine similarity of vectors, the nearest of many, files of vectors, and arithmetic on words.

    cos(u, v) = u · v / (‖u‖ ‖v‖)  ->  e_king - e_man + e_woman ≈ e_queen

    word2vec, GloVe, fastText   king 0.1 -0.2 ...        a first line of two counts is passed over
    .jsonl                      {"text": "king", "vector": [0.1, -0.2, ...]}
    .npy                        a table, a row for each text

The similarity of a zero vector to any is 0. Every error of a file names the line.

Source: Note A (similar words have similar vectors), Note E (directions); Mikolov et al., Linguistic
Regularities in Continuous Space Word Representations, 2013.
"""

import difflib
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np
import torch
from pydantic import BaseModel

from glassformer.core.errors import ConfigError, DataError, amount
from glassformer.data.formats.idx import read_npy
from glassformer.data.sources import reading
from glassformer.layers.embed import TokenEmbedding
from glassformer.models.transformer import Transformer
from glassformer.tokenizers.text import Tokenizer

Named = tuple[list[str], np.ndarray]
"""Texts, and a vector for each, float32 [N, D]."""
NUMBERS = 1 << 23
"""Similarities in memory at the same time."""
SIGNS = {"+": 1, "-": -1, "−": -1, "–": -1}
CANCELLED = 1e-6
COMPARED = 20_000
"""Most words that a misspelt one is compared with."""

Found = tuple[int | None, np.ndarray]
"""A word's place among the words, if it has one, and its vector, float32 [D]."""


def unit(vectors: np.ndarray) -> np.ndarray:
    """Vectors [..., D] at length 1; a zero vector stays zero."""
    length = np.linalg.norm(vectors, axis=-1, keepdims=True)
    return vectors / np.where(length > 0, length, 1)


def cosine(one: np.ndarray, other: np.ndarray) -> np.ndarray:
    """The similarity of every vector of `one` [N, D] to every one of `other` [M, D], in [-1, 1],
    [N, M]."""
    return np.clip(unit(one) @ unit(other).T, -1, 1)


def nearest(queries: np.ndarray, vectors: np.ndarray, k: int) -> tuple[np.ndarray, np.ndarray]:
    """For each query [Q, D] the `k` most similar of vectors [N, D], best first: indices and
    similarities [Q, K].

    Where there are fewer than k vectors, K = N.
    """
    known, k = torch.from_numpy(unit(vectors)).T, min(k, len(vectors))
    portions = torch.from_numpy(unit(queries)).to(known).split(NUMBERS // (len(vectors) + 1) + 1)
    found = ((portion @ known).clamp(-1, 1).topk(k) for portion in portions)
    similarities, indices = (torch.cat(parts).numpy() for parts in zip(*found, strict=True))
    return indices, similarities


class _Row(BaseModel, strict=True):
    """A line of JSON."""

    text: str
    vector: list[float] | None


def read_named(path: Path) -> Named:
    """Texts and vectors of JSON lines (.jsonl), without those of null, or of a text file.

    DataError: names the line.
    """
    texts, vectors = list[str](), list[np.ndarray]()
    for number, line in lines_of(path):
        width = len(vectors[0]) if vectors else 0
        if number == 1 and re.fullmatch(r"\d+[ \t]+\d+", line):
            continue  # counts of words and of numbers
        try:
            if path.suffix == ".jsonl":
                row = _Row.model_validate_json(line)
                text, values = row.text, row.vector
            else:
                text, values = _of_text(line, width)
        except ValueError:
            raise DataError(
                f"{path}, line {number}: {line[:40]!r} is not such as king 0.1 -0.2, or in .jsonl "
                f'{{"text": "king", "vector": [0.1, -0.2]}}; give such lines.'
            ) from None
        if values is None:
            continue
        with np.errstate(over="ignore"):
            vector = np.array(values, np.float32)
        if len(vector) != (width or max(1, len(vector))) or not np.isfinite(vector).all():
            raise DataError(
                f"{path}, line {number}: {text[:40]!r} has {amount(len(vector), 'number')}; give "
                f"{width or 'some'} that are finite in float32."
            )
        texts.append(text)
        vectors.append(vector)
    return texts, np.stack(vectors) if vectors else np.zeros((0, 0), np.float32)


def _of_text(line: str, width: int) -> tuple[str, list[float]]:
    """word v1 v2 ...; a word may hold spaces, as some of GloVe do: numbers count from the end."""
    word, *numbers = re.split(r"[ \t]+", line)
    try:
        return word, [*map(float, numbers)]
    except ValueError:
        return " ".join([word, *numbers[:-width]]), [*map(float, numbers[-width:])]


def read_array(path: Path) -> np.ndarray:
    """The vectors of a .npy file, float32 [N, D]; DataError: another content, or NaN."""
    array = read_npy(str(path.absolute()))
    with np.errstate(over="ignore"):
        vectors = array.astype(np.float32) if array.dtype.kind in "fiu" else np.zeros(0)
    if vectors.ndim != 2 or not np.isfinite(vectors).all():
        raise DataError(
            f"{path} does not hold a table of finite numbers, a row for each text; give one that "
            f"--out wrote."
        )
    return vectors


def lines_of(path: Path) -> Iterator[tuple[int, str]]:
    """The lines of a UTF-8 file with their numbers from 1, without blank ones."""
    with reading(str(path)), path.open("rb") as file:
        for number, raw in enumerate(file, 1):
            try:
                line = raw.decode("utf-8-sig" if number == 1 else "utf-8").strip(" \t\r\n")
            except UnicodeDecodeError as problem:
                bad = f"byte 0x{raw[problem.start]:02x} at offset {problem.start}"
                raise DataError(
                    f"{path}, line {number}: it is not UTF-8 ({bad}); convert it first, with iconv."
                ) from None
            if line:
                yield number, line


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
        word's long vector does not prevail (3CosAdd of Levy and Goldberg 2014). A single word
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
        if (place := self._places.get(word)) is not None:
            return place, self.vectors[place]
        if found := self.other(word):
            return found
        known = f"the {amount(len(self.words), 'word')} of {self.name}"
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
    """`king - man + woman` as [(1, king), (-1, man), (1, woman)]; signs have spaces around them.

    DataError: no such expression.
    """
    parts = expression.split()
    if parts and parts[0] not in SIGNS:
        parts.insert(0, "+")
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
    pieces = range(0 if tokenizer.kind in ("byte", "character") else tokenizer.vocab_size)
    words = {i: tokenizer.piece(i).strip() for i in {*pieces} - {*tokenizer.specials.values()}}
    return {
        word: i
        for i, word in sorted(words.items())
        if " " not in word and any(map(str.isalnum, word))
        if tokenizer.encode(before + word).tolist() == [i]
    }


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
