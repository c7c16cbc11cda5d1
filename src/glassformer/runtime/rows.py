"""Block tables of sequences that part: a row each, which may list slots that others list too.

table    x x x a b c        the slots of the elements of a sequence
         x x x a b d        no key is copied where it continues in two ways
"""

from itertools import pairwise

import numpy as np

from glassformer.layers.ragged import Pool
from glassformer.layers.sequences import Sequences

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

    def add(self, slots: np.ndarray, token: int, source: np.ndarray, n_source: int) -> None:
        """Add an owner with one row: the slots of its elements but for the newest, and those of its
        source, which has `n_source` elements."""
        self.owner = np.append(self.owner, len(self.sources))
        self.tokens = np.append(self.tokens, token)
        self.ends = np.append(self.ends, len(slots) + 1)
        self.table = np.pad(self.table, [(0, 1), (0, 0)])
        self._widen(len(slots) + 1)
        self.table[-1, : len(slots)] = slots
        missing = max(0, len(source) - self.sources.shape[1])
        self.sources = np.pad(self.sources, [(0, 1), (0, missing)])
        self.sources[-1, : len(source)] = source
        self.source_ends = np.append(self.source_ends, n_source)

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
        owners, counts = np.unique(self.owner, return_counts=True)
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
        self._widen(int(self.ends.max(initial=0)))

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
        listed = np.zeros(self.pool.n_slots, bool)
        listed[self.slots] = True
        self.pool.give(np.unique(before[~listed[before]]))

    def _widen(self, columns: int) -> None:
        if (missing := columns - self.table.shape[1]) > 0:
            self.table = np.pad(self.table, [(0, 0), (0, -(-missing // COLUMNS) * COLUMNS)])
