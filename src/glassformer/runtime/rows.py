"""Block tables of sequences that part: a row each, which may list slots that others list too.

table    x x x a b c        the slots of the elements of a sequence
         x x x a b d        no key is copied where it continues in two ways
"""

from collections.abc import Sequence
from itertools import pairwise

import numpy as np

from glassformer.layers.ragged import Pool
from glassformer.layers.sequences import Sequences
from glassformer.runtime.sequence import Running

COLUMNS = 32
"""Elements for which tables get room at a time."""


class Rows:
    """Sequences of several owners, each with its newest element, which has no key yet.

    The rows of an owner follow each other. All slots that rows list have one user for them all.
    `owner`: a number for each row, ascending. `tokens`: its newest element; `ends`: its number of
    elements, this one included.
    """

    def __init__(self, pool: Pool):
        self.pool = pool
        self.owner, self.tokens, self.ends = np.zeros((3, 0), np.int64)
        self.table = np.zeros((0, COLUMNS), np.int32)
        self.extended = False
        """Whether the newest elements have slots."""
        self.sources = np.zeros((0, 0), np.int32)
        """Slots of the source of each owner, and of padding after it."""
        self.source_ends = np.zeros(0, np.int64)

    def add(self, texts: Sequence[Running]) -> None:
        """Add owners with one row each: texts whose elements have keys, but for the last one. Their
        slots except those of their sources are the rows' from now on."""
        number, lengths = len(texts), [len(one.ids) - one.begin for one in texts]
        self.owner = np.concatenate([self.owner, len(self.sources) + np.arange(number)])
        self.tokens = np.concatenate([self.tokens, [one.ids[-1] for one in texts]])
        self.ends = np.concatenate([self.ends, lengths])
        width = max(len(one.source_slots) for one in texts)
        self.sources = _widen(self.sources, number, width)
        self.source_ends = np.concatenate([self.source_ends, [one.n_source for one in texts]])
        self.table = _widen(self.table, number, -(-max(lengths) // COLUMNS) * COLUMNS)
        for at, (one, length) in enumerate(zip(texts, lengths, strict=True), -number):
            self.table[at, : length - 1] = one.slots[: length - 1]
            self.sources[at, : len(one.source_slots)] = one.source_slots
            self.pool.give(one.slots[length - 1 : one.longest])
            one.slots, one.longest = one.source_slots, 0

    def extend(self) -> Sequences:
        """Return all rows; their newest elements have slots then."""
        if not self.extended:
            taken = self.pool.take(len(self.ends))
            assert taken is not None, "more slots than were promised"
            self.table[np.arange(len(self.ends)), self.ends - 1] = taken
            self.extended = True
        return Sequences(self.table[:, : self.ends.max()], self.ends, 1)

    def source_groups(self) -> list[Sequences]:
        """Return the sources of all rows, neighbours with equally many rows together."""
        if not self.sources.size:
            return []
        first = np.flatnonzero(np.diff(self.owner, prepend=-1))
        owners, counts = self.owner[first], np.diff(first, append=len(self.owner))
        bounds = [0, *(np.flatnonzero(np.diff(counts)) + 1).tolist(), len(counts)]
        return [
            Sequences(
                self.sources[owners[begin:end]],
                self.source_ends[owners[begin:end]],
                int(counts[begin]),
            )
            for begin, end in pairwise(bounds)
        ]

    def fork(self, parents: np.ndarray, tokens: np.ndarray) -> None:
        """Continue these rows, each with one more token."""
        before = self.slots
        self._select(parents)
        self.ends, self.tokens, self.extended = self.ends + 1, tokens, False
        self._give(before)
        if (longest := int(self.ends.max(initial=0))) > self.table.shape[1]:
            self.table = _widen(self.table, 0, longest + COLUMNS)

    def keep(self, rows: np.ndarray) -> None:
        """Keep only these rows."""
        before = self.slots
        self._select(rows)
        self._give(before)

    @property
    def slots(self) -> np.ndarray:
        """Slots that rows list, some several times."""
        ends = self.ends if self.extended else self.ends - 1
        return self.table[np.arange(self.table.shape[1]) < ends[:, None]]

    def _select(self, rows: np.ndarray) -> None:
        self.owner, self.table = self.owner[rows], self.table[rows]
        self.ends, self.tokens = self.ends[rows], self.tokens[rows]

    def _give(self, before: np.ndarray) -> None:
        """Give back those of these slots that no row lists any more."""
        lost = np.zeros(self.pool.n_slots, bool)
        lost[before] = True
        lost[self.slots] = False
        self.pool.give(np.flatnonzero(lost))


def _widen(table: np.ndarray, rows: int, width: int) -> np.ndarray:
    """Return a table with more rows, of zeros, and at least this width."""
    height, before = table.shape
    found = np.zeros((height + rows, max(before, width)), table.dtype)
    found[:height, :before] = table
    return found
