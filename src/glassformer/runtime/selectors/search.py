"""A search: how several sequences of a request continue, by what the model says of all of them.

A search is a selector of the engine. It says which elements are computed next, and from their
scores which sequences continue with which tokens; `BeamSearch` is one. Each sequence is a row of a
block table, which may list slots that others list too:

    x x x a b c        the slots of the elements of a sequence
    x x x a b d        no key is copied where it continues in two ways
"""

from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from itertools import groupby

import numpy as np

from glassformer.core.batch import Part
from glassformer.layers.attention.ragged import Pool
from glassformer.layers.attention.sequences import Sequences
from glassformer.runtime.advance import Scores
from glassformer.runtime.config import GenerateConfig
from glassformer.runtime.request import Event
from glassformer.runtime.sequence import Piece, Running

COLUMNS = 32
"""Elements for which tables get room at a time."""


class Search(ABC):
    """Requests with the same settings and ends, and the rows of their sequences, each with its
    newest element, which has a slot and no key yet.

    The rows of a request follow each other. All slots that rows list have one user for them all.
    `owners`: the request of each row. `tokens`: its newest element; `lengths`: its number of
    elements, this one included.
    """

    reads_hidden = False
    """Whether it reads the stream after the last block, which the compiled step does not give."""

    def __init__(self, pool: Pool, config: GenerateConfig, ends: Sequence[int]):
        self.pool, self.config, self.ends = pool, config, ends
        self.owners: list[Running] = []
        self.parts: list[Part] = []
        """Patches among the newest elements, the last ones of prompts."""
        self.tokens, self.lengths = np.zeros((2, 0), np.int64)
        self.table = np.zeros((0, COLUMNS), np.int32)

    @property
    def room(self) -> int:
        """Largest number of rows in the next steps."""
        return self.config.beams * len(self.going)

    @property
    def k(self) -> int | None:
        """Number of the likeliest tokens after each row, if only these are wanted; None: the
        logits."""
        return None

    @property
    def going(self) -> list[Running]:
        """Requests that have rows."""
        return [*dict.fromkeys(self.owners)]

    @property
    def promised(self) -> int:
        """Number of slots that its rows may still take."""
        prompts = sum(len(one.ids) - one.begin - 1 for one in self.going)
        most = prompts + sum(one.n_branches for one in self.going)
        return most - len(np.unique(self.slots))

    def begin(self, texts: Sequence[Running]) -> None:
        """Begin requests whose prompts have keys and values, but for the last element; their slots
        except those of their sources are the search's from now on."""
        row, ends = len(self.owners), [len(one.ids) - one.begin for one in texts]
        missing = max(0, max(ends) - self.table.shape[1])
        self.table = np.pad(self.table, ((0, len(texts)), (0, missing)))
        for at, (one, end) in enumerate(zip(texts, ends, strict=True), row):
            self.table[at, :end] = one.slots[:end]
            last = one.parts_at(range(end - 1, end))
            self.parts += (replace(part, at=part.at + at) for part in last)
            one.slots, one.longest = one.source_slots, 0
        self.tokens = np.append(self.tokens, [one.ids[-1] for one in texts])
        self.lengths = np.append(self.lengths, ends)
        self.owners += texts

    def piece(self) -> Piece:
        """Return the newest element of each row."""
        number, parts = len(self.lengths), tuple(self.parts)
        group = Sequences(self.table[:, : self.lengths.max()], self.lengths, 1)
        return Piece(self.tokens.tolist(), [group], self._sources(), range(number), parts)

    def _sources(self) -> list[Sequences]:
        """Return the sources of all rows, neighbours with equally many rows together."""
        counts, found = Counter(self.owners), list[Sequences]()
        for count, requests in groupby(counts, counts.__getitem__):
            if own := [one for one in requests if one.n_source]:
                ends = np.array([one.n_source for one in own])
                found.append(Sequences.of([one.source_slots for one in own], count, ends))
        return found

    @abstractmethod
    def select(self, scores: Scores) -> list[Event]:
        """Continue some rows by the scores of their next tokens; return the events of requests that
        end, and with `scores.top` a record of each."""

    def fork(self, parents: np.ndarray, tokens: np.ndarray) -> None:
        """Continue these rows, each with one more token."""
        self.parts.clear()
        Search.keep(self, parents)
        taken = self.pool.take(len(parents))
        if self.lengths.max(initial=0) == self.table.shape[1]:
            self.table = np.pad(self.table, ((0, 0), (0, COLUMNS)))
        self.table[np.arange(len(parents)), self.lengths] = taken
        self.lengths, self.tokens = self.lengths + 1, tokens

    def keep(self, rows: np.ndarray) -> None:
        """Keep only these rows, and give back slots that no row lists any more."""
        lost = np.zeros(self.pool.n_slots, bool)
        lost[self.slots] = True
        self.owners, self.table = [self.owners[row] for row in rows.tolist()], self.table[rows]
        self.lengths, self.tokens = self.lengths[rows], self.tokens[rows]
        lost[self.slots] = False
        self.pool.give(np.flatnonzero(lost))

    @property
    def slots(self) -> np.ndarray:
        """Slots that rows list, some several times."""
        return self.table[np.arange(self.table.shape[1]) < self.lengths[:, None]]

    def drop(self, one: Running) -> None:
        """End a request without an event."""
        self.keep(np.flatnonzero([own is not one for own in self.owners]))
