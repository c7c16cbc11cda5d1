"""Requests that wait until the pool has slots, and a step rows, for all that they may need."""

from collections import deque

import numpy as np

from glassformer.core.errors import ConfigError
from glassformer.layers.attention.ragged import Pool
from glassformer.runtime.prefixes import BLOCK, Prefixes
from glassformer.runtime.sequence import Running


class RequestQueue:
    """Requests in the order of their numbers, from 1.

    `max_rows`: sequences at the same time. `chunk`: elements of a prompt in one call of attention.
    """

    def __init__(
        self, pool: Pool, prefixes: Prefixes, max_rows: int, chunk: int, *, invariant: bool
    ):
        self.pool, self.prefixes, self.max_rows, self.chunk = pool, prefixes, max_rows, chunk
        self.spare = 1 if invariant else -(-max_rows // 4)
        """Rows that are free when a request starts: several, so that some are read together."""
        self.waiting: deque[Running] = deque()
        self._count = 0

    def add(self, one: Running) -> int:
        """Queue a request; returns its number. ConfigError: it can never fit."""
        if one.n_slots > self.pool.n_slots - 1 and not self.pool.grows:
            raise ConfigError(
                f"The text may have {one.n_slots} elements and the cache has room for "
                f"{self.pool.n_slots - 1}; shorten it, lower max_new_tokens, or make the cache "
                "larger."
            )
        if one.width > self.max_rows:
            raise ConfigError(
                f"A search with beams={one.width} needs as many rows and there are "
                f"{self.max_rows}; lower it."
            )
        self._count += 1
        one.number = self._count
        one.most = one.share = self.chunk
        self.waiting.append(one)
        return self._count

    def drop(self, number: int) -> None:
        """Remove a request, if it waits."""
        self.waiting = deque(one for one in self.waiting if one.number != number)

    def admit(self, rows: int, promised: int) -> list[Running]:
        """Return the requests that start, in order, with their slots.

        `rows` are in use, and of the free slots `promised` ones belong to searches.
        """
        new, least = list[Running](), rows + self.spare
        while self.waiting:
            one = self.waiting[0]
            fits = max(rows + one.width, least) <= self.max_rows
            if not fits or not self._reserve(one, promised):
                break
            new.append(self.waiting.popleft())
            rows += one.width
            promised += one.n_branches
        if new:
            self.pool.erase(np.concatenate([one.slots[one.cached :] for one in new]))
        return new

    def _reserve(self, one: Running, promised: int) -> bool:
        """Take slots for a text, those of a known beginning first; False: there is no room."""
        known = self.prefixes.take(one.blocks[: one.n_shared // BLOCK])
        while not self.pool.grows and self.pool.n_free - promised < one.n_slots - len(known):
            if not self.prefixes.shrink():
                self.pool.give(known)
                return False
        own = self.pool.take(one.n_own - len(known))
        one.cached, one.slots = len(known), np.concatenate([known, own])
        self.prefixes.hits += len(known) // BLOCK
        return True
