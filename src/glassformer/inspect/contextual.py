"""Contextual embeddings: one word in several sentences, its vector after every layer.

    layer 0      ->  one vector for a word in every context (Note C), similarity 1
    layer 1..N   ->  another vector in another context (Note B)

A word of several tokens has the mean of their vectors.
"""

import unicodedata
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import torch

from glassformer.core.batch import Batch
from glassformer.core.errors import ConfigError, DataError, amount
from glassformer.inspect.vectors import cosine, unit
from glassformer.models.transformer import Transformer
from glassformer.models.trunk import streams
from glassformer.processors.tokens.text_reader import TextReader
from glassformer.processors.tokens.word_spans import token_words

UNSPACED = ("CJK", "HIRAGANA", "KATAKANA", "THAI", "LAO", "KHMER", "MYANMAR", "TIBETAN")
"""Scripts, by the first word of their letters' names, that put no space between words."""
NO_SPREAD = 1e-6
"""Unit vectors that differ less than this are one, but for rounding."""


@dataclass(frozen=True)
class Occurrence:
    """The word at characters begin .. end - 1 of the sentence in a line, and its tokens."""

    line: int
    text: str
    begin: int
    end: int
    pieces: tuple[str, ...]


@dataclass(frozen=True)
class Contexts:
    """A word's occurrences, and their vectors [L + 1, N, D] after each layer; layer 0 is static."""

    word: str
    occurrences: tuple[Occurrence, ...]
    vectors: np.ndarray
    causal: bool
    """Whether the model sees only text before the word."""

    @cached_property
    def similarities(self) -> np.ndarray:
        """Between all occurrences after each layer, float64 [L + 1, N, N], in [-1, 1]."""
        return np.stack([cosine(layer, layer) for layer in self.vectors.astype(np.float64)])

    @property
    def pairs(self) -> np.ndarray:
        """Similarity of each two occurrences, float64 [L + 1, N (N - 1) / 2]: (0, 1), (0, 2)."""
        return self.similarities[:, *np.triu_indices(len(self.occurrences), 1)]

    def maps(self) -> tuple[np.ndarray, np.ndarray]:
        """Places of the occurrences in a plane after each layer, and the plane's share of variance.

        float64 [L + 1, N, 2], the two principal components of the unit vectors around their mean.
        All layers have one scale: the similarity of a distance d is at most 1 - d² / 2. Each layer
        is rotated towards the next. Shares are in [0, 1], 1 without variance.
        """
        found = map(_plane, unit(self.vectors.astype(float)))
        points, shares = map(np.stack, zip(*found, strict=True))
        for layer in range(len(points) - 2, -1, -1):
            # rotated and mirrored to lie nearest to the next (orthogonal Procrustes)
            left, _, right = np.linalg.svd(points[layer].T @ points[layer + 1])
            points[layer] = points[layer] @ left @ right
        return points, shares


def contexts(
    model: Transformer, reader: TextReader, word: str, sentences: Sequence[str]
) -> Contexts:
    """Every occurrence of a word in sentences, numbered from 1; blank ones are skipped.

    The word is matched whole and with its case, and may consist of several. A sentence longer than
    the model is read around the word. DataError: a sentence without the word, or fewer than two
    occurrences.
    """
    if not (word := word.strip()):
        raise ConfigError("The word to look for is empty; give one.")
    occurrences, vectors = list[Occurrence](), list[np.ndarray]()
    for line, text in enumerate(sentences, 1):
        if not text.strip():
            continue
        spans = list(find(text, word))
        if not spans:
            raise DataError(
                f"Line {line} does not have the word {word!r}, spelled like this; leave it out."
            )
        ids, owners = reader.ids(text), token_words(reader.tokenizer, text, spans, reader.prefix)
        for number, span in enumerate(spans):
            at = [place for place, owner in enumerate(owners) if owner == number]
            if not at:
                raise DataError(
                    f"Line {line}: the tokenizer has no token for {word!r} alone; choose a "
                    f"longer word."
                )
            pieces = tuple(reader.tokenizer.piece(int(ids[i])) for i in at)
            occurrences.append(Occurrence(line, text, *span, pieces))
            vectors.append(_vectors(model, reader, ids, at, f"Line {line}: {word!r}"))
    if len(occurrences) < 2:
        raise DataError(
            f"{word!r} is in these lines {amount(len(occurrences), 'time')}, and it takes two to "
            f"compare; give more sentences."
        )
    return Contexts(word, tuple(occurrences), np.stack(vectors, 1), model.encoder is None)


def find(text: str, word: str) -> Iterator[tuple[int, int]]:
    """Characters begin .. end - 1 of each whole word in a text; matches do not overlap."""
    begin = text.find(word)
    while begin >= 0:
        end = begin + len(word)
        if _one_word(text[:begin][-1:], word[0]) or _one_word(word[-1], text[end:][:1]):
            end = begin + 1
        else:
            yield begin, end
        begin = text.find(word, end)


def _one_word(left: str, right: str) -> bool:
    """Whether adjacent characters belong to one word; a mark belongs to the letter before it."""
    mark = lambda one: one and unicodedata.category(one)[0] == "M"
    return mark(right) or all(
        (one.isalnum() or one == "_" or mark(one))
        and not unicodedata.name(one, "").startswith(UNSPACED)
        for one in (left, right)
    )


def _vectors(
    model: Transformer, reader: TextReader, ids: np.ndarray, at: list[int], name: str
) -> np.ndarray:
    """The mean of the stream at these tokens after each layer, float32 [L + 1, D]."""
    if (count := at[-1] - at[0] + 1) > reader.room:
        raise DataError(
            f"{name} has {count} tokens and the model room for {reader.room}; choose another."
        )
    middle = (at[0] + at[-1] + 1) // 2
    begin = max(0, min(middle - reader.room // 2, len(ids) - reader.room))
    part = torch.from_numpy(reader.framed(ids[begin : begin + reader.room])).long()
    batch = Batch(part[None]).to(next(model.parameters()).device)
    places = [place - begin + len(reader.frame.begin) for place in at]
    depth = model.config.depth("decoder" if model.encoder is None else "encoder")
    found, _ = streams(model, batch, range(depth + 1))
    means = [stream[0, places].cpu().double().mean(0) for stream in found]
    return torch.stack(means).float().numpy()


def _plane(points: np.ndarray) -> tuple[np.ndarray, float]:
    """The two principal components of points [N, D] around their mean [N, 2], and their share of
    the variance."""
    centred = points - points.mean(0)
    if np.abs(centred).max() < NO_SPREAD:
        return np.zeros((len(points), 2)), 1.0
    left, spread, _ = np.linalg.svd(centred, full_matrices=False)
    return (left * spread)[:, :2], float((spread[:2] ** 2).sum() / (spread**2).sum())
