"""Keys and values of prefixes that several prompts share, by content.

    key of block i = SHA-256(key of block i - 1, tokens of block i)      block -1: the salt

Only whole blocks of BLOCK elements that a prompt filled are kept. The least recently used one is
given back where a request needs room.
"""

from collections import OrderedDict
from collections.abc import Sequence
from hashlib import sha256

import numpy as np

from glassformer.layers.attention.ragged import Pool

BLOCK = 64
"""Elements that are shared together."""


def keys(ids: Sequence[int], salt: bytes) -> list[bytes]:
    """Return the key of each whole block of a prompt."""
    found = [sha256(salt).digest()]
    for begin in range(0, len(ids) - BLOCK + 1, BLOCK):
        block = np.array(ids[begin : begin + BLOCK], np.int64).tobytes()
        found.append(sha256(found[-1] + block).digest())
    return found[1:]


class Prefixes:
    """Slots of the pool by key, the least recently used first."""

    def __init__(self, pool: Pool):
        self.pool = pool
        self.blocks: OrderedDict[bytes, np.ndarray] = OrderedDict()
        self.hits = 0
        """Blocks of prompts that were known when their text began."""

    def take(self, wanted: Sequence[bytes]) -> np.ndarray:
        """Return the slots of the known blocks from the first on, for one more table."""
        found = [np.zeros(0, np.int32)]
        for key in wanted:
            if key not in self.blocks:
                break
            self.blocks.move_to_end(key)
            found.append(self.blocks[key])
            self.pool.share(found[-1])
        return np.concatenate(found)

    def keep(self, key: bytes, slots: np.ndarray) -> None:
        """Keep a block."""
        if key not in self.blocks:
            self.pool.share(slots)
            self.blocks[key] = slots
        self.blocks.move_to_end(key)

    def shrink(self) -> bool:
        """Give back the least recently used block; False: there is none."""
        if not self.blocks:
            return False
        _, slots = self.blocks.popitem(last=False)
        self.pool.give(slots)
        return True
