"""The examples of each step's batch: functions of (seed, step), with no state to save.

ShuffledOrder   fixed batch size, contiguous through epochs; each epoch is a keyed permutation
WindowOrder     windows of running text, shuffled; a phase moves their borders from epoch to epoch
LengthOrder     examples of similar length together, one row each (length_order, pair_order)
PackedOrder     several examples in each row, hardly any padding

Each has `rows(step)` and `batches` in an epoch. The last two cut their batches once; in epoch e,
(seed, e) decides the order of the batches and the places of examples of similar length.
"""

from bisect import bisect_left, insort
from collections.abc import Sequence

import numpy as np

from glassformer.core.axes import Int
from glassformer.core.errors import DataError
from glassformer.core.random_stream import epoch_key, permute

BUCKETS = 8
"""Buckets of single sequences, of equal width."""
ROUND_TARGET, ROUND_SOURCE = 2, 4
"""Lengths of pairs are rounded up to these multiples: coarse enough to shuffle, fine enough to
waste little on padding."""
NARROWEST = 64
"""Width of the narrowest packed row."""
JOINED = 1024
"""Elements of a joined row: enough for matrix products, few enough for its stream to stay in the
cache."""
Row = list[int]
"""The numbers of the examples in one packed row."""


class ShuffledOrder:
    """`batch_size` of `count` examples at each step, every one once an epoch; an epoch may end
    inside a batch."""

    def __init__(self, count: int, batch_size: int, seed: int):
        self.count, self.batch_size, self.seed = count, batch_size, seed

    @property
    def batches(self) -> float:
        """Batches in an epoch, not always a whole number."""
        return self.count / self.batch_size

    def rows(self, step: int) -> Int[np.ndarray, "B"]:
        """The numbers of the examples in the batch of a step, int64."""
        begin, end = step * self.batch_size, (step + 1) * self.batch_size
        visited = []
        while begin < end:
            epoch, place = divmod(begin, self.count)
            places = np.arange(place, min(place + end - begin, self.count))
            visited.append(self._visit(epoch_key(self.seed, epoch), places))
            begin += len(places)
        return np.concatenate(visited)

    def _visit(self, key: int, places: Int[np.ndarray, "N"]) -> Int[np.ndarray, "N"]:
        """The examples at these places of an epoch."""
        return permute(places, self.count, key)


class WindowOrder(ShuffledOrder):
    """Starts of the windows of running text in the batch of a step; each has length + 1 tokens.

    start = phase(seed, e) + length * permute(i, W, seed, e) in epoch e, with
    W = max(1, floor((n - length) / length)) windows, so that all fit at every phase; phases are
    uniform over all that fit, at least `length` of them if n >= 2 * length. Needs
    n_tokens >= length + 1.
    """

    def __init__(self, n_tokens: int, length: int, batch_size: int, seed: int):
        super().__init__(max(1, (n_tokens - length) // length), batch_size, seed)
        self.length, self._phases = length, n_tokens - self.count * length

    def _visit(self, key: int, places: Int[np.ndarray, "N"]) -> Int[np.ndarray, "N"]:
        return super()._visit(key, places) * self.length + key % self._phases


class _CutOrder:
    """Batches that are cut once; in every epoch they are shuffled, and so are examples of equal
    keys. Examples are sorted by `keys`, the last key first.

    `kept`: the numbers of the examples; None: 0, 1, 2, ...
    """

    def __init__(
        self,
        keys: Sequence[Int[np.ndarray, "N"]],
        batches: int,
        seed: int,
        kept: Int[np.ndarray, "N"] | None = None,
    ):
        self._keys, self.batches, self._seed = keys, batches, seed
        self.kept = np.arange(len(keys[0])) if kept is None else kept
        self._epoch, self._placed = -1, self.kept

    def _at(self, step: int) -> tuple[int, Int[np.ndarray, "N"]]:
        """The number of a step's batch, and the example at each place in its epoch."""
        epoch, place = divmod(step, self.batches)
        batch = int(permute(np.array([place]), self.batches, epoch_key(self._seed, epoch))[0])
        if self._epoch != epoch:
            count = len(self.kept)
            shuffled = permute(np.arange(count), count, epoch_key(self._seed + 1, epoch))
            self._epoch, self._placed = epoch, self.kept[np.lexsort((shuffled, *self._keys))]
        return batch, self._placed


class LengthOrder(_CutOrder):
    """Sorted examples cut at `borders`, one in each row."""

    def __init__(
        self,
        keys: Sequence[Int[np.ndarray, "N"]],
        borders: Int[np.ndarray, "M"],
        seed: int,
        kept: Int[np.ndarray, "N"] | None = None,
    ):
        super().__init__(keys, len(borders) - 1, seed, kept)
        self._borders = borders

    def rows(self, step: int) -> Int[np.ndarray, "B"]:
        """The numbers of the examples in the batch of a step, int64."""
        batch, placed = self._at(step)
        return placed[self._borders[batch] : self._borders[batch + 1]]


def length_order(
    lengths: Int[np.ndarray, "N"], batch_size: int, batch_tokens: int | None, seed: int
) -> LengthOrder:
    """Sequences whose lengths fall into the same eighth of the longest, together.

    Batches are nearly equal and of at most `batch_size`; with `batch_tokens`, of at most so many
    elements, padding included (or one longer sequence).
    """
    bucket = -(-lengths // max(1, -(-int(lengths.max()) // BUCKETS)))
    if batch_tokens is None:
        count = -(-len(lengths) // batch_size)
        borders = np.arange(count + 1) * len(lengths) // count
    else:
        longest = np.zeros(int(bucket.max()) + 1, np.int64)
        np.maximum.at(longest, bucket, lengths)
        borders = _borders(longest[bucket][_sort([bucket])], batch_tokens)
    return LengthOrder([bucket], borders, seed)


def pair_order(
    source: Int[np.ndarray, "N"],
    target: Int[np.ndarray, "N"],
    longest: int,
    batch_tokens: int | None,
    batch_size: int,
    seed: int,
    name: str,
) -> LengthOrder:
    """Pairs of similar lengths together, sorted by rounded target length, then by source length,
    up and down in turn.

    Batches have at most `batch_tokens` tokens on the longer side (or one pair), else `batch_size`
    pairs. Pairs with a side of more than `longest` tokens are left out. DataError: none remains.
    """
    kept = np.flatnonzero((source <= longest) & (target <= longest))
    if not len(kept):
        raise DataError(
            f"every {name} pair has a side of more than {longest} tokens; raise model.max_length"
        )
    target, source = [
        -(-lengths[kept] // unit) * unit
        for lengths, unit in ((target, ROUND_TARGET), (source, ROUND_SOURCE))
    ]
    # neighbours across cells stay alike
    keys = np.where(target // ROUND_TARGET % 2 == 0, source, -source), target
    if batch_tokens is None:
        borders = np.append(np.arange(0, len(kept), batch_size), len(kept))
    else:
        borders = _borders(np.maximum(target, source)[_sort(keys)], batch_tokens)
    return LengthOrder(keys, borders, seed, kept)


def _sort(keys: Sequence[Int[np.ndarray, "N"]]) -> Int[np.ndarray, "N"]:
    return np.lexsort((np.arange(len(keys[0])), *keys))


def _borders(lengths: Int[np.ndarray, "N"], batch_tokens: int) -> Int[np.ndarray, "M"]:
    """Cuts so that rows x the longest of them is at most `batch_tokens`, or one row."""
    borders = [0]
    while borders[-1] < len(lengths):
        begin = borders[-1]
        longest = np.maximum.accumulate(lengths[begin : begin + batch_tokens])
        slots = longest * np.arange(1, len(longest) + 1)
        borders.append(begin + max(1, int(np.searchsorted(slots, batch_tokens, side="right"))))
    return np.array(borders)


class PackedOrder(_CutOrder):
    """Rows of several examples, at most `batch_tokens` elements in a batch, padding included.

    An example goes into rows of the smallest width of 64, 128, 256, ... that holds it, which are no
    wider than a whole batch, unless the example is. Rows are filled once (`filled`); in an epoch,
    examples of equal length swap places.
    """

    def __init__(self, lengths: Int[np.ndarray, "N"], batch_tokens: int, seed: int):
        self._batches = batches_of(lengths, batch_tokens)
        super().__init__([lengths], len(self._batches), seed)
        self._rank = np.argsort(np.argsort(lengths, kind="stable"))

    def rows(self, step: int) -> list[Row]:
        """The examples in the batch of a step, row by row."""
        batch, placed = self._at(step)
        return [placed[self._rank[row]].tolist() for row in self._batches[batch]]


def batches_of(lengths: Int[np.ndarray, "N"], batch_tokens: int) -> list[list[Row]]:
    """All examples in rows, rows of one width in batches of at most `batch_tokens` elements (or one
    longer example)."""
    powers = [max(NARROWEST, 1 << (n - 1).bit_length()) for n in lengths.tolist()]
    widths = np.maximum(lengths, np.minimum(powers, batch_tokens))
    batches = []
    for width in np.unique(widths).tolist():
        chosen = np.flatnonzero(widths == width)
        rows = [chosen[row].tolist() for row in fill_rows(lengths[chosen], width)]
        # mixed, or the first batches would have all the longest
        mixed = permute(np.arange(len(rows)), len(rows), 0)
        size = max(1, batch_tokens // width)
        batches += [
            [rows[i] for i in mixed[first : first + size]] for first in range(0, len(rows), size)
        ]
    return batches


def joined_rows(lengths: Int[np.ndarray, "N"], width: int = JOINED) -> list[Row]:
    """All examples by length in rows of at most `width` elements, or one longer example."""
    rows: list[Row] = []
    left = 0
    for i in np.argsort(lengths, kind="stable").tolist():
        if left < lengths[i]:
            rows.append([])
            left = width
        rows[-1].append(i)
        left -= int(lengths[i])
    return rows


def fill_rows(lengths: Int[np.ndarray, "N"], width: int) -> list[Row]:
    """Rows of at most `width` elements that hold every example once: the longest first, each into
    the fullest row with room."""
    rows: list[Row] = []
    room: list[tuple[int, int]] = []  # free elements and number of each open row, ascending
    for i in np.argsort(-lengths, kind="stable").tolist():
        place = bisect_left(room, (int(lengths[i]), -1))
        left, row = room.pop(place) if place < len(room) else (width, len(rows))
        if row == len(rows):
            rows.append([])
        rows[row].append(i)
        if left := left - int(lengths[i]):
            insort(room, (left, row))
    return rows


def spread(count: int, limit: int | None) -> list[int]:
    """0 .. count - 1, or `limit` of them, spread evenly."""
    if limit is None or limit >= count:
        return list(range(count))
    return np.linspace(0, count - 1, limit).round().astype(int).tolist()
