"""Masks for language modelling: which tokens are asked for, and what stands in their places (Devlin
et al. 2019).

    asked for     each token, or each word whole, with probability `fraction`
    of those      80 % become <mask>, 10 % a random token, 10 % stay what they are

All of it is a function of (seed, step) alone, and other masks fall on the same text in another
epoch.
"""

import unicodedata
from dataclasses import dataclass, replace

import numpy as np
import torch

from glassformer.batch import Batch
from glassformer.errors import DataError
from glassformer.random_stream import generator


@dataclass(frozen=True)
class Masking:
    """How tokens are masked; `ordinary` are the ids that may be asked for or stand in as random
    ones, int64.

    `begins`: for each id of the vocabulary, whether it begins a word; None: every token is by
    itself.
    """

    mask: int
    ordinary: np.ndarray
    fraction: float
    begins: np.ndarray | None = None

    def __call__(self, batch: Batch, seed: int, step: int) -> Batch:
        """The batch with masks; the head answers `at` those tokens, whose `targets` are what stood
        there."""
        elements = batch.elements.numpy()
        random = generator(seed, step)
        allowed, draws = self._allowed(batch), self._draws(elements, random)
        if not allowed.any():
            raise DataError("the text has no token that could be masked; use a longer one")
        # one in any case, however short the text is
        at = np.flatnonzero(allowed & (draws <= max(self.fraction, draws[allowed].min())))
        targets, draw = elements.ravel()[at], random.random(len(at))
        others = self.ordinary[random.integers(len(self.ordinary), size=len(at))]
        masked = elements.copy()
        masked.ravel()[at] = np.where(draw < 0.8, self.mask, np.where(draw < 0.9, others, targets))
        return replace(
            batch,
            elements=torch.from_numpy(masked),
            targets=torch.from_numpy(targets),
            at=torch.from_numpy(at),
        )

    def _draws(self, elements: np.ndarray, random: np.random.Generator) -> np.ndarray:
        """A random number in [0, 1) for each element, or the same one for all elements of a
        word."""
        if self.begins is None:
            return random.random(elements.shape)
        word = np.cumsum(
            self.begins[elements], axis=1
        )  # what a row begins with may be the rest of a word: number 0
        return np.take_along_axis(
            random.random((len(elements), elements.shape[1] + 1)), word, axis=1
        )

    def _allowed(self, batch: Batch) -> np.ndarray:
        """Whether each element may be asked for: no special symbol, and no padding."""
        elements = batch.elements.numpy()
        table = np.zeros(max(int(self.ordinary.max()), int(elements.max())) + 1, bool)
        table[self.ordinary] = True
        valid = batch.where().valid
        return table[elements] if valid is None else table[elements] & valid.numpy()


def word_begins(pieces: list[bytes]) -> np.ndarray:
    """Whether each token of a vocabulary begins a word: with no letter, no digit and no part of
    one."""
    return np.array([not _goes_on(piece.decode(errors="replace")[:1]) for piece in pieces])


def _goes_on(first: str) -> bool:
    """Whether a character belongs to the word in front of it: also accents, and U+FFFD for a
    letter's later bytes."""
    return (
        first.isalnum()
        or first == "\ufffd"
        or (first != "" and unicodedata.category(first)[0] == "M")
    )
