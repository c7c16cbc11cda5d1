"""Masks for language modelling: which tokens are asked for, and what stands in their places (Devlin et al. 2019).

    asked for     each token, or each word whole, with probability `fraction`
    of those      80 % become <mask>, 10 % a random token, 10 % stay what they are

All of it is a function of (seed, step) alone, and other masks fall on the same text in another epoch. Knows: ids.
Does not know: tokenizers (it is given a table of where words begin), models.
"""

from dataclasses import dataclass, replace

import numpy as np
import torch

from glassformer.batch import Batch
from glassformer.errors import DataError


@dataclass(frozen=True)
class Masking:
    """How tokens are masked; `ordinary` are the ids that may be asked for or stand in as random ones, int64.

    `begins`: for each id of the vocabulary, whether it begins a word; None: every token is by itself.
    """

    mask: int
    ordinary: np.ndarray
    fraction: float
    begins: np.ndarray | None = None

    def __call__(self, batch: Batch, seed: int, step: int) -> Batch:
        """The batch with masks; the head answers `at` those tokens, whose `targets` are what stood there."""
        elements = batch.elements.numpy()
        random = np.random.Generator(np.random.Philox(key=[seed, step]))
        chosen = self._chosen(elements, random)
        if not chosen.any():  # as good as impossible, unless there is hardly any text
            chosen = self._allowed(elements)
            chosen[1:] = False
        at = np.flatnonzero(chosen)
        if not len(at):
            raise DataError("the text has no token that could be masked; use a longer one")
        targets, draw = elements.ravel()[at], random.random(len(at))
        others = self.ordinary[random.integers(len(self.ordinary), size=len(at))]
        masked = elements.copy()
        masked.ravel()[at] = np.where(draw < 0.8, self.mask, np.where(draw < 0.9, others, targets))
        return replace(
            batch, elements=torch.from_numpy(masked), targets=torch.from_numpy(targets), at=torch.from_numpy(at)
        )

    def _chosen(self, elements: np.ndarray, random: np.random.Generator) -> np.ndarray:
        allowed = self._allowed(elements)
        if self.begins is None:
            return allowed & (random.random(elements.shape) < self.fraction)
        word = np.cumsum(self.begins[elements], axis=1)  # what a row begins with may be the rest of a word: number 0
        of_word = random.random((len(elements), elements.shape[1] + 1)) < self.fraction
        return allowed & np.take_along_axis(of_word, word, axis=1)

    def _allowed(self, elements: np.ndarray) -> np.ndarray:
        table = np.zeros(max(int(self.ordinary.max()), int(elements.max())) + 1, bool)
        table[self.ordinary] = True
        return table[elements]


def word_begins(pieces: list[str]) -> np.ndarray:
    """Whether each token of a vocabulary begins a word: it starts with a space, or with no letter or digit."""
    return np.array([not piece[:1].isalnum() for piece in pieces])
