"""A search: how several sequences of a request continue, by what the model says of all of them.

A search is a selector of the engine. It says which elements are computed next, and from their
scores which sequences continue with which tokens; `BeamSearch` is one. Each sequence is a row of a
block table, which may list slots that others list too:

    x x x a b c        the slots of the elements of a sequence
    x x x a b d        no key is copied where it continues in two ways
"""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise

import numpy as np

from glassformer.core.batch import Part
from glassformer.layers.attention.ragged import Pool
from glassformer.layers.attention.sequences import Sequences, stack
from glassformer.runtime.advance import Scores
from glassformer.runtime.config import GenerateConfig
from glassformer.runtime.request import Event
from glassformer.runtime.sequence import Piece, Running

COLUMNS = 32
"""Elements for which tables get room at a time."""
SLOTS = 8
"""Slots that a pool has for each row at first: sequences of a request share most of theirs."""


class Search(ABC):
    """Requests with the same settings and ends, and the rows of their sequences, each with its
    newest element, which has a slot and no key yet.

    The rows of a request follow each other. All slots that rows list have one user for them all.
    `going`: requests that have rows; `counts`: how many. `tokens`: the newest element of each row;
    `lengths`: its number of elements, this one included.
    """

    reads_hidden = False
    """Whether it reads the stream after the last block, which the compiled step does not give."""

    def __init__(self, pool: Pool, config: GenerateConfig, ends: Sequence[int]):
        self.pool, self.config, self.ends = pool, config, ends
        self.going: list[Running] = []
        self.counts = np.zeros(0, np.int64)
        self.parts: list[Part] = []
        """Patches among the newest elements, the last ones of prompts."""
        self.tokens, self.lengths = np.zeros((2, 0), np.int64)
        self.table, self.sources = np.zeros((2, 0, 0), np.int32)
        """Slots of the elements of each row, and of the source of each request."""

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
    def owners(self) -> list[Running]:
        """The request of each row."""
        pairs = zip(self.going, self.counts.tolist(), strict=True)
        return [one for one, count in pairs for _ in range(count)]

    @property
    def promised(self) -> int:
        """Number of slots that its rows may still take."""
        prompts = sum(len(one.ids) - one.begin - 1 for one in self.going)
        most = prompts + sum(one.n_branches for one in self.going)
        return most - len(np.unique(self.slots))

    def begin(self, texts: Sequence[Running]) -> None:
        """Begin requests whose prompts have keys and values, but for the last element; their slots
        except those of their sources are the search's from now on."""
        ends = [len(one.ids) - one.begin for one in texts]
        own = [one.slots[:end] for one, end in zip(texts, ends, strict=True)]
        self.table = stack([*self.table, *own])
        self.sources = stack([*self.sources, *(one.source_slots for one in texts)])
        for at, (one, end) in enumerate(zip(texts, ends, strict=True), len(self.tokens)):
            last = one.parts_at(range(end - 1, end))
            self.parts += (replace(part, at=part.at + at) for part in last)
            one.slots, one.longest = one.source_slots, 0
        self.tokens = np.append(self.tokens, [one.ids[-1] for one in texts])
        self.lengths = np.append(self.lengths, ends)
        self.going += texts
        self.counts = np.append(self.counts, [1] * len(texts))

    def piece(self) -> Piece:
        """Return the newest element of each row."""
        group = Sequences(self.table[:, : self.lengths.max()], self.lengths, 1)
        ends, sources = np.array([one.n_source for one in self.going]), list[Sequences]()
        if ends.any():  # neighbours with equally many rows together
            bounds = np.flatnonzero(np.diff(self.counts, prepend=0, append=0)).tolist()
            for a, b in pairwise(bounds):
                sources.append(Sequences(self.sources[a:b], ends[a:b], int(self.counts[a])))
        every = np.arange(len(self.tokens))
        return Piece(self.tokens, [group], sources, every, tuple(self.parts))

    @abstractmethod
    def select(self, scores: Scores) -> list[Event]:
        """Continue some rows by the scores of their next tokens; return the events of requests that
        end, and with `scores.top` a record of each."""

    def fork(self, parents: np.ndarray, tokens: np.ndarray) -> None:
        """Continue these rows, each with one more token."""
        self.parts.clear()
        Search.keep(self, parents)
        taken = self.pool.take(len(parents), together=False)
        if self.lengths.max(initial=0) == self.table.shape[1]:
            self.table = np.pad(self.table, ((0, 0), (0, COLUMNS)))
        self.table[np.arange(len(parents)), self.lengths] = taken
        self.lengths, self.tokens = self.lengths + 1, tokens

    def keep(self, rows: np.ndarray) -> None:
        """Keep only these rows, and give back slots that no row lists any more."""
        lost = np.zeros(self.pool.n_slots, bool)
        lost[self.slots] = True
        owner = np.arange(len(self.going)).repeat(self.counts)[rows]
        counts = np.bincount(owner, minlength=len(self.going))
        live = np.flatnonzero(counts)
        self.going, self.counts = [self.going[at] for at in live.tolist()], counts[live]
        self.table, self.sources = self.table[rows], self.sources[live]
        self.lengths, self.tokens = self.lengths[rows], self.tokens[rows]
        lost[self.slots] = False
        self.pool.give(np.flatnonzero(lost))

    @property
    def slots(self) -> np.ndarray:
        """Slots that rows list, some several times."""
        places = np.arange(self.lengths.max(initial=0))
        return self.table[:, : len(places)][places < self.lengths[:, None]]

    def drop(self, one: Running) -> None:
        """End a request without an event."""
        self.keep(np.flatnonzero([own is not one for own in self.owners]))
