"""Rows of like length in one batch, in an order that is a function of (seed, step); every row once
in an epoch.

cells     rows whose lengths fall into the same eighth of the longest; cells stand in the order of their lengths
batches   cut from that order once, nearly all of one size; their number never changes
epoch e   each cell's rows are shuffled by (seed, e), and so is the order of the batches
"""

import numpy as np

from glassformer.axes import Int
from glassformer.data.order import epoch_key, permute

CELLS = 8


class AlikeOrder:
    """Which rows are in the batch of a step: `batch_size`, or with `batch_tokens` as many as have
    no more elements."""

    def __init__(
        self, lengths: Int[np.ndarray, "N"], batch_size: int, batch_tokens: int | None, seed: int
    ):
        self._lengths, self._seed = lengths, seed
        self._cell = -(-lengths // max(1, -(-int(lengths.max()) // CELLS)))
        order = self._sorted(np.arange(len(lengths)))
        if batch_tokens is None:
            count = -(-len(lengths) // batch_size)
            self._borders = np.arange(count + 1) * len(lengths) // count
        else:
            self._borders = self._cut(self._longest()[order], batch_tokens)
        self._epoch: tuple[int, Int[np.ndarray, "N"]] | None = None

    @property
    def batches(self) -> int:
        """How many batches an epoch has."""
        return len(self._borders) - 1

    def rows(self, step: int) -> Int[np.ndarray, "B"]:
        """The numbers of the rows in the batch of a step, int64."""
        epoch, place = divmod(step, self.batches)
        batch = int(permute(np.array([place]), self.batches, epoch_key(self._seed, epoch))[0])
        if self._epoch is None or self._epoch[0] != epoch:
            n = len(self._lengths)
            self._epoch = (
                epoch,
                self._sorted(permute(np.arange(n), n, epoch_key(self._seed + 1, epoch))),
            )
        return self._epoch[1][self._borders[batch] : self._borders[batch + 1]]

    def _sorted(self, shuffled: Int[np.ndarray, "N"]) -> Int[np.ndarray, "N"]:
        return np.lexsort((shuffled, self._cell))

    def _longest(self) -> Int[np.ndarray, "N"]:
        """For each row the longest of its cell, any of which may take its place."""
        longest = np.zeros(int(self._cell.max()) + 1, np.int64)
        np.maximum.at(longest, self._cell, self._lengths)
        return longest[self._cell]

    def _cut(self, longest: Int[np.ndarray, "N"], batch_tokens: int) -> Int[np.ndarray, "M"]:
        """Borders so that rows x the longest of them is at most `batch_tokens`, or one row."""
        borders = [0]
        while borders[-1] < len(longest):
            begin = borders[-1]
            ahead = longest[begin : begin + batch_tokens]
            fits = int(
                np.searchsorted(ahead * np.arange(1, len(ahead) + 1), batch_tokens, side="right")
            )
            borders.append(begin + max(1, fits))
        return np.array(borders)
