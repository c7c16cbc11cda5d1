"""From the pair store to batches of pairs that are about equally long, in an order that is a
function of (seed, step).

cells     pairs whose lengths, rounded up, are equal; cells stand in the order of target, then source length
batches   cut from that order once, so that rows x longest side <= batch_tokens; their number never changes
epoch e   each cell's pairs are shuffled by (seed, e), and so is the order of the batches
"""

from collections.abc import Iterator, Sequence
from functools import cached_property

import numpy as np

from glassformer.batch import IGNORE, Batch
from glassformer.data.order import epoch_key, permute
from glassformer.data.pair_store import PairSplit
from glassformer.errors import DataError

ROUND_TARGET, ROUND_SOURCE = 2, 4
"""Lengths are rounded up to these multiples: coarse enough to shuffle, fine enough to waste little
on padding."""


class PairOrder:
    """Which pairs are in the batch of a step, for a split and a limit on tokens (or rows) of a
    batch.

    `longest`: pairs with a side beyond it are left out and counted in `left_out`. DataError: none
    remains.
    """

    def __init__(
        self, split: PairSplit, longest: int, batch_tokens: int | None, batch_size: int, seed: int
    ):
        source, target = split.source.lengths, split.target.lengths
        self.seed = seed
        self.kept = np.flatnonzero((source <= longest) & (target <= longest))
        self.left_out = len(split) - len(self.kept)
        if not len(self.kept):
            raise DataError(
                f"every {split.name} pair has a side of more than {longest} tokens; raise "
                f"model.max_length"
            )
        self._rounded = [
            -(-lengths[self.kept] // unit) * unit
            for lengths, unit in ((target, ROUND_TARGET), (source, ROUND_SOURCE))
        ]
        self._borders = self._cut(batch_tokens, batch_size)
        self._epoch: tuple[int, np.ndarray] | None = None

    @property
    def batches(self) -> int:
        """How many batches an epoch has."""
        return len(self._borders) - 1

    def rows(self, step: int) -> np.ndarray:
        """The numbers of the pairs in the batch of a step, int64."""
        epoch, place = divmod(step, self.batches)
        batch = int(permute(np.array([place]), self.batches, epoch_key(self.seed, epoch))[0])
        return self._order(epoch)[self._borders[batch] : self._borders[batch + 1]]

    def _order(self, epoch: int) -> np.ndarray:
        if self._epoch is None or self._epoch[0] != epoch:
            n = len(self.kept)
            shuffled = permute(np.arange(n), n, epoch_key(self.seed + 1, epoch))
            self._epoch = epoch, self.kept[self._sorted(shuffled)]
        return self._epoch[1]

    def _sorted(self, shuffled: np.ndarray) -> np.ndarray:
        """Positions by rounded target, then source length (up and down in turn), and within a cell
        as `shuffled`."""
        target, source = self._rounded
        winding = np.where(
            target // ROUND_TARGET % 2 == 0, source, -source
        )  # neighbours across cells stay alike
        return np.lexsort((shuffled, winding, target))

    def _cut(self, batch_tokens: int | None, batch_size: int) -> np.ndarray:
        order = self._sorted(np.arange(len(self.kept)))
        longest = np.maximum(self._rounded[0], self._rounded[1])[order]
        if batch_tokens is None:
            return np.append(np.arange(0, len(order), batch_size), len(order))
        borders = [0]
        while borders[-1] < len(order):
            begin = borders[-1]
            sides = np.maximum.accumulate(longest[begin : begin + batch_tokens])
            fits = int(
                np.searchsorted(sides * np.arange(1, len(sides) + 1), batch_tokens, side="right")
            )
            borders.append(begin + max(1, fits))
        return np.array(borders)

    @cached_property
    def padding(self) -> float:
        """The share of slots of an epoch's batches, both sides together, that hold padding (by
        rounded lengths)."""
        order = self._sorted(np.arange(len(self.kept)))
        used = slots = 0
        for lengths in self._rounded:
            parts = np.split(lengths[order], self._borders[1:-1])
            used += sum(int(part.sum()) for part in parts)
            slots += sum(int(part.max()) * len(part) for part in parts)
        return 1 - used / slots


def pair_batch(split: PairSplit, rows: Sequence[int] | np.ndarray, bos: int) -> Batch:
    """The batch of the given pairs; see `batch_of`."""
    numbers = [int(row) for row in rows]
    return batch_of(
        [split.source.row(i) for i in numbers], [split.target.row(i) for i in numbers], bos
    )


def batch_of(sources: Sequence[np.ndarray], targets: Sequence[np.ndarray], bos: int) -> Batch:
    """Source ids, decoder input <bos> y_1 .. y_{n-1}, targets y_1 .. y_n with y_n = <eos>.

    The decoder's padding needs no mark: it stands behind every real element, where a causal mask
    never looks.
    """
    shifted = Batch.padded([np.append(np.int32(bos), ids[:-1]) for ids in targets])
    return Batch(
        shifted.elements,
        targets=Batch.padded(targets, fill=IGNORE).elements,
        source=Batch.padded(sources),
    )


def pair_evaluation_batches(
    split: PairSplit, longest: int, batch_tokens: int, bos: int, limit: int | None = None
) -> Iterator[Batch]:
    """Every pair once, those of like length together; pairs with a side beyond `longest` are left
    out.

    `limit`: only so many batches, spread evenly.
    """
    order = PairOrder(split, longest, batch_tokens, 1, seed=0)
    steps = np.arange(order.batches)
    if limit is not None and limit < len(steps):
        steps = steps[np.linspace(0, len(steps) - 1, limit).round().astype(int)]
    for step in steps:
        yield pair_batch(split, order.rows(int(step)), bos)
