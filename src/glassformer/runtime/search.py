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

from glassformer.batch import Part
from glassformer.layers.ragged import Pool
from glassformer.layers.sequences import Sequences
from glassformer.runtime.advance import Scores
from glassformer.runtime.config import GenerateConfig
from glassformer.runtime.request import Event
from glassformer.runtime.sequence import Piece, Running

COLUMNS = 32
"""Elements for which tables get room at a time."""


class Search(ABC):
    """Requests with the same settings and ends, and the rows of their sequences, each with its
    newest element, which has no key yet.

    The rows of a request follow each other. All slots that rows list have one user for them all.
    `owner`: the number of its request for each row, ascending. `tokens`: its newest element;
    `lengths`: its number of elements, this one included.
    """

    reads_hidden = False
    """Whether it reads the stream after the last block, which the compiled step does not give."""

    def __init__(self, pool: Pool, config: GenerateConfig, ends: Sequence[int]):
        self.pool, self.config, self.ends = pool, config, ends
        self.requests: list[Running] = []
        """Requests that have begun."""
        self.parts: list[Part] = []
        """Patches among the newest elements, the last ones of prompts."""
        self.owner, self.tokens, self.lengths = np.zeros((3, 0), np.int64)
        self.table = np.zeros((0, COLUMNS), np.int32)
        self.extended = False
        """Whether the newest elements have slots."""
        self.sources = np.zeros((0, 0), np.int32)
        """Slots of the source of each request, and of padding after it."""
        self.source_ends = np.zeros(0, np.int64)

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
        return [self.requests[i] for i in dict.fromkeys(self.owner.tolist())]

    @property
    def owners(self) -> list[Running]:
        """The request of each row."""
        return [self.requests[i] for i in self.owner.tolist()]

    @property
    def promised(self) -> int:
        """Number of slots that its rows may still take."""
        prompts = sum(len(one.ids) - one.begin - 1 for one in self.going)
        most = prompts + sum(one.n_branches for one in self.going)
        return most - len(np.unique(self.slots))

    def begin(self, texts: Sequence[Running]) -> None:
        """Begin requests whose prompts have keys and values, but for the last element; their slots
        except those of their sources are the search's from now on."""
        number, lengths = len(texts), [len(one.ids) - one.begin for one in texts]
        width = max(len(one.source_slots) for one in texts)
        self.sources = _widen(self.sources, number, width)
        self.source_ends = np.concatenate([self.source_ends, [one.n_source for one in texts]])
        self.table = _widen(self.table, number, -(-max(lengths) // COLUMNS) * COLUMNS)
        for row, (one, end) in enumerate(zip(texts, lengths, strict=True), len(self.owner)):
            last = one.parts_at(range(end - 1, end))
            self.parts += (replace(part, at=part.at + row) for part in last)
            self.table[row, : end - 1] = one.slots[: end - 1]
            self.sources[len(self.requests), : len(one.source_slots)] = one.source_slots
            self.owner = np.append(self.owner, len(self.requests))
            self.requests.append(one)
            self.pool.give(one.slots[end - 1 : one.longest])
            one.slots, one.longest = one.source_slots, 0
        self.tokens = np.concatenate([self.tokens, [one.ids[-1] for one in texts]])
        self.lengths = np.concatenate([self.lengths, lengths])

    def piece(self) -> Piece:
        """Return the newest element of each row, which has a slot then."""
        number = len(self.lengths)
        if not self.extended:
            taken = self.pool.take(number)
            assert taken is not None, "more slots than were promised"
            self.table[np.arange(number), self.lengths - 1] = taken
            self.extended = True
        group = Sequences(self.table[:, : self.lengths.max()], self.lengths, 1)
        tokens, parts = self.tokens.tolist(), tuple(self.parts)
        return Piece(tokens, [group], self._source_groups(), range(number), parts)

    def _source_groups(self) -> list[Sequences]:
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

    @abstractmethod
    def select(self, scores: Scores) -> list[Event]:
        """Continue some rows by the scores of their next tokens; return the events of requests that
        end, and with `scores.top` a record of each."""

    def fork(self, parents: np.ndarray, tokens: np.ndarray) -> None:
        """Continue these rows, each with one more token."""
        self.parts.clear()
        Search.keep(self, parents)
        self.lengths, self.tokens, self.extended = self.lengths + 1, tokens, False
        if (longest := int(self.lengths.max(initial=0))) > self.table.shape[1]:
            self.table = _widen(self.table, 0, longest + COLUMNS)

    def keep(self, rows: np.ndarray) -> None:
        """Keep only these rows, and give back slots that no row lists any more."""
        lost = np.zeros(self.pool.n_slots, bool)
        lost[self.slots] = True
        self.owner, self.table = self.owner[rows], self.table[rows]
        self.lengths, self.tokens = self.lengths[rows], self.tokens[rows]
        lost[self.slots] = False
        self.pool.give(np.flatnonzero(lost))

    @property
    def slots(self) -> np.ndarray:
        """Slots that rows list, some several times."""
        ends = self.lengths if self.extended else self.lengths - 1
        return self.table[np.arange(self.table.shape[1]) < ends[:, None]]

    def drop(self, one: Running) -> None:
        """End a request without an event."""
        self.keep(np.flatnonzero(self.owner != self.requests.index(one)))


def _widen(table: np.ndarray, rows: int, width: int) -> np.ndarray:
    """Return a table with more rows, of zeros, and at least this width."""
    height, before = table.shape
    found = np.zeros((height + rows, max(before, width)), table.dtype)
    found[:height, :before] = table
    return found
