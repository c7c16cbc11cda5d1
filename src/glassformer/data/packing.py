"""Packing: several examples in one row, hardly any padding, kept apart by mask and positions.

    widths    an example of length n goes into rows of the smallest width of 64, 128, 256, ... that holds it, which are
              no wider than a whole batch, unless the example is
    slots     rows are filled once, the longest first, each into the fullest row with room: their lengths never change
    epoch e   among examples of equal length (seed, e) decides who takes which slot, and also the order of the batches

So the number of batches never changes, and which examples are in a batch is a function of (seed,
step).
"""

from bisect import bisect_left, insort

import numpy as np

from glassformer.data.collate import Row
from glassformer.data.order import epoch_key, permute

NARROWEST = 64


class PackedOrder:
    """Which examples are in the rows of a step's batch: at most `batch_tokens` elements, padding
    included."""

    def __init__(self, lengths: np.ndarray, batch_tokens: int, seed: int):
        self.seed, self._lengths = seed, lengths
        self._batches = batches_of(lengths, batch_tokens)
        self._rank = np.empty(len(lengths), np.int64)
        self._rank[np.argsort(lengths, kind="stable")] = np.arange(len(lengths))
        self._epoch: tuple[int, np.ndarray] | None = None

    @property
    def batches(self) -> int:
        """How many batches an epoch has."""
        return len(self._batches)

    @property
    def padding(self) -> float:
        """The share of elements that are padding, in [0, 1)."""
        fills = [[int(self._lengths[row].sum()) for row in rows] for rows in self._batches]
        return 1 - float(self._lengths.sum()) / sum(max(fill) * len(fill) for fill in fills)

    def rows(self, step: int) -> list[Row]:
        """The examples in the batch of a step, row by row."""
        epoch, place = divmod(step, self.batches)
        batch = int(permute(np.array([place]), self.batches, epoch_key(self.seed, epoch))[0])
        return [self._takes(epoch)[row].tolist() for row in self._batches[batch]]

    def _takes(self, epoch: int) -> np.ndarray:
        """For each example, which of those of its length stands in its slot in this epoch."""
        if self._epoch is None or self._epoch[0] != epoch:
            n = len(self._lengths)
            shuffled = permute(np.arange(n), n, epoch_key(self.seed + 1, epoch))
            self._epoch = epoch, np.lexsort((shuffled, self._lengths))[self._rank]
        return self._epoch[1]


def batches_of(lengths: np.ndarray, batch_tokens: int) -> list[list[Row]]:
    """All examples in rows, rows of one width in batches of at most `batch_tokens` elements (or one
    longer example)."""
    widths = np.array([width_of(int(length), batch_tokens) for length in lengths])
    batches = []
    for width in np.unique(widths):
        chosen = np.flatnonzero(widths == width)
        rows = [chosen[row].tolist() for row in filled(lengths[chosen], int(width))]
        mixed = permute(
            np.arange(len(rows)), len(rows), 0
        )  # or the first batches would have all the longest
        size = max(1, batch_tokens // int(width))
        batches += [
            [rows[i] for i in mixed[first : first + size]] for first in range(0, len(rows), size)
        ]
    return batches


def width_of(length: int, widest: int) -> int:
    """The width of the rows that an example of this length goes into: at most `widest`, unless it
    is longer."""
    return max(length, min(widest, max(NARROWEST, 1 << (length - 1).bit_length())))


def filled(lengths: np.ndarray, width: int) -> list[Row]:
    """Rows of at most `width` elements that hold every example once: the longest first, each where
    it fits best."""
    rows: list[Row] = []
    room: list[
        tuple[int, int]
    ] = []  # what is left in each open row, and its number; the least first
    for i in np.argsort(-lengths, kind="stable").tolist():
        place = bisect_left(room, (int(lengths[i]), -1))
        left, row = room.pop(place) if place < len(room) else (width, len(rows))
        if row == len(rows):
            rows.append([])
        rows[row].append(i)
        if left := left - int(lengths[i]):
            insort(room, (left, row))
    return rows
