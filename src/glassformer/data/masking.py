"""Masks for masked language modelling (Devlin et al. 2019).

    selected      each token, or each word as a whole, with probability `fraction`
    of those      80 % become <mask>, 10 % a random token, 10 % stay

A function of (seed, step): the same text gets other masks in another epoch.
"""

import unicodedata
from dataclasses import dataclass, replace

import numpy as np
import torch

from glassformer.core.batch import Batch
from glassformer.core.errors import DataError
from glassformer.core.random_stream import generator


@dataclass(frozen=True)
class Masking:
    """`ordinary`: the ids that may be selected or substituted, int64. `begins`: whether each id
    begins a word; None: every token is a word."""

    mask: int
    ordinary: np.ndarray
    fraction: float
    begins: np.ndarray | None = None

    def __call__(self, batch: Batch, seed: int, step: int) -> Batch:
        """Mask a batch; `targets` are the original tokens `at` the selected elements."""
        elements = batch.elements.numpy()
        random = generator(seed, step)
        allowed, draws = self._maskable(batch), self._draws(elements, random)
        if not allowed.any():
            raise DataError("the text has no token that could be masked; use a longer one")
        # one in any case, however short the text is
        at = np.flatnonzero(allowed & (draws <= max(self.fraction, draws[allowed].min())))
        targets, draw = elements.ravel()[at], random.random(len(at))
        others = self.ordinary[random.integers(len(self.ordinary), size=len(at))]
        masked = elements.copy()
        masked.ravel()[at] = np.where(draw < 0.8, self.mask, np.where(draw < 0.9, others, targets))
        new, targets, at = map(torch.from_numpy, (masked, targets, at))
        return replace(batch, elements=new, targets=targets, at=at)

    def _draws(self, elements: np.ndarray, random: np.random.Generator) -> np.ndarray:
        """A random number in [0, 1) for each element, the same within a word.

        A row may begin inside a word, whose number is 0.
        """
        if self.begins is None:
            return random.random(elements.shape)
        word = np.cumsum(self.begins[elements], axis=1)
        rows, width = elements.shape
        return np.take_along_axis(random.random((rows, width + 1)), word, axis=1)

    def _maskable(self, batch: Batch) -> np.ndarray:
        """Whether each element may be selected: no special symbol, no padding."""
        elements, valid = batch.elements.numpy(), batch.where().valid
        table = np.zeros(max(int(self.ordinary.max()), int(elements.max())) + 1, bool)
        table[self.ordinary] = True
        return table[elements] if valid is None else table[elements] & valid.numpy()


def word_begins(pieces: list[bytes]) -> np.ndarray:
    """Whether each token begins a word: its first character is no letter, digit, or accent, nor
    U+FFFD for a letter's later bytes."""
    first = (piece.decode(errors="replace")[:1] or " " for piece in pieces)
    return np.array(
        [not (c.isalnum() or c == "\ufffd" or unicodedata.category(c)[0] == "M") for c in first]
    )
