"""A search: how several sequences of a request continue, by what the model says of all of them.

A search is a selector of the engine. It says which elements are computed next, and from their
scores which sequences continue with which tokens; `BeamSearch` is one.
"""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from glassformer.batch import Part
from glassformer.layers.ragged import Pool
from glassformer.runtime.advance import Scores
from glassformer.runtime.config import GenerateConfig
from glassformer.runtime.request import Event
from glassformer.runtime.rows import Rows
from glassformer.runtime.sequence import Piece, Running
from glassformer.runtime.trace import AttentionRows


class Search:
    """Requests with the same settings and ends, and the rows of their sequences."""

    reads_hidden = False
    """Whether it reads the stream after the last block, which the compiled step does not give."""

    def __init__(self, pool: Pool, config: GenerateConfig, ends: Sequence[int]):
        self.config, self.ends, self.rows = config, ends, Rows(pool)
        self.requests: list[Running] = []
        """Requests that have begun; the index of one here is its owner in `rows`."""
        self.parts: list[Part] = []
        """Patches among the newest elements, the last ones of prompts."""

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
        return [self.requests[i] for i in dict.fromkeys(self.rows.owner.tolist())]

    @property
    def owners(self) -> list[Running]:
        """The request of each row."""
        return [self.requests[i] for i in self.rows.owner.tolist()]

    @property
    def promised(self) -> int:
        """Number of slots that its rows may still take."""
        prompts = sum(len(one.ids) - one.begin - 1 for one in self.going)
        most = prompts + sum(one.n_branches for one in self.going)
        return most - len(np.unique(self.rows.slots))

    def begin(self, texts: Sequence[Running]) -> None:
        """Begin requests whose prompts have keys and values, but for the last element; their slots
        except those of their sources are the search's from now on."""
        for row, one in enumerate(texts, len(self.rows.ends)):
            end = len(one.ids) - one.begin
            last = one.parts_at(range(end - 1, end))
            self.parts += (replace(part, at=part.at + row) for part in last)
        self.rows.add(texts)
        self.requests += texts

    def piece(self) -> Piece:
        """Return the newest element of each row, which has a slot then."""
        group, sources = self.rows.extend(), self.rows.source_groups()
        tokens = self.rows.tokens.tolist()
        return Piece(tokens, [group], sources, range(len(tokens)), tuple(self.parts))

    def select(
        self, scores: Scores, top: int = 0, told: Sequence[AttentionRows | None] = ()
    ) -> list[Event]:
        """Continue some rows by the scores of their next tokens; return the events of requests that
        end, and with a `top` a record of each."""
        raise NotImplementedError

    def fork(self, parents: np.ndarray, tokens: np.ndarray) -> None:
        """Continue these rows, each with one more token."""
        self.parts.clear()
        self.rows.fork(parents, tokens)

    def keep(self, rows: np.ndarray) -> None:
        """Keep only these rows."""
        self.rows.keep(rows)

    def drop(self, one: Running) -> None:
        """End a request without an event."""
        self.keep(np.flatnonzero(self.rows.owner != self.requests.index(one)))
