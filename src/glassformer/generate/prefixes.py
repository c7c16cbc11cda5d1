"""Keys and values of prefixes that several prompts share, by content.

    key of page i = SHA-256(key of page i - 1, tokens of page i)      page -1: the salt

Only whole pages that a prompt filled are kept. The least recently used one is given back where a
request needs room.
"""

from collections import OrderedDict
from collections.abc import Sequence
from hashlib import sha256
from itertools import pairwise

import numpy as np

from glassformer.layers.segments import PAGE, Pool


def keys(ids: Sequence[int], salt: bytes) -> list[bytes]:
    """The key of each whole page of a prompt."""
    found = [sha256(salt).digest()]
    bounds = range(0, len(ids) - len(ids) % PAGE + 1, PAGE)
    for begin, end in pairwise(bounds):
        page = np.array(ids[begin:end], np.int64).tobytes()
        found.append(sha256(found[-1] + page).digest())
    return found[1:]


class Prefixes:
    """Pages of the pool by key, the least recently used first."""

    def __init__(self, pool: Pool):
        self.pool = pool
        self.pages: OrderedDict[bytes, int] = OrderedDict()
        self.hits = 0

    def fill(self, wanted: Sequence[bytes], slot: int) -> int:
        """Copy the known pages from the first on to a sequence; returns their number."""
        for at, key in enumerate(wanted):
            if key not in self.pages:
                return at
            self.pages.move_to_end(key)
            self.pool.copy(self.pages[key], slot // PAGE + at)
            self.hits += 1
        return len(wanted)

    def keep(self, key: bytes, slot: int) -> None:
        """Keep a copy of the page at this slot, in a free page or the least recently used one."""
        if key in self.pages:
            self.pages.move_to_end(key)
            return
        if not self.pool.n_free and not self.shrink():
            return
        if (page := self.pool.take(1)) is not None:
            self.pages[key] = page
            self.pool.copy(slot // PAGE, page)

    def shrink(self) -> bool:
        """Give back the least recently used page; False: there is none."""
        if not self.pages:
            return False
        _, page = self.pages.popitem(last=False)
        self.pool.give(page, 1)
        return True
