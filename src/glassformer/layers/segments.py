"""Several sequences one behind the other in one row, each with keys and values of its own.

    elements   a a a a b c c          one row, no padding
    keys       [a ......] [b ..] [c ....]    a run of pages for each sequence

Every product that acts on single elements reads the whole row; attention reads each sequence alone,
over exactly its own keys. So no number of a sequence depends on the others (beyond what the matrix
product does with more rows), and none is computed for padding.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import chain
from typing import Any

import torch

from glassformer.axes import Float, Int, Tensor
from glassformer.batch import Positions
from glassformer.layers.cache import Cache, KeysValues

PAGE = 64
"""Elements of a page."""


@dataclass(frozen=True)
class Segment:
    """New elements of one sequence.

    `slot`: where its keys begin in the pool. `start`: how many it has there already. `length`: new
    ones.
    """

    slot: int
    start: int
    length: int

    @property
    def end(self) -> int:
        """Elements of the sequence with the new ones."""
        return self.start + self.length

    def query(self, device: torch.device) -> Positions:
        """Positions of the new elements."""
        return Positions.arange(self.length, self.start, device)

    def key(self, device: torch.device) -> Positions:
        """Positions of all elements."""
        return Positions.arange(self.end, 0, device)


class Pool:
    """Keys and values of all layers in pages; a sequence has a run of consecutive pages.

    All zeros at first and after a page is given back, since a masked NaN would still make the
    weighted sum of values NaN.
    """

    def __init__(
        self,
        n_layers: int,
        n_kv_heads: int,
        d_head: int,
        n_pages: int,
        dtype: torch.dtype = torch.float32,
        device: torch.device | str = "cpu",
    ):
        shape = n_layers, 2, n_kv_heads, n_pages * PAGE, d_head
        self.numbers = torch.zeros(shape, dtype=dtype, device=device)
        self.n_pages = n_pages
        self.runs = [(0, n_pages)]
        """Free pages, as (first, number) in order, none adjacent to the next."""

    @staticmethod
    def page_bytes(n_layers: int, n_kv_heads: int, d_head: int, dtype: torch.dtype) -> int:
        """Bytes of a page: 2 L G K for each element."""
        return 2 * n_layers * n_kv_heads * d_head * PAGE * dtype.itemsize

    @property
    def n_free(self) -> int:
        """Pages that nobody has."""
        return sum(number for _, number in self.runs)

    def take(self, number: int) -> int | None:
        """The first of `number` consecutive pages, from the smallest run that has them; None: there
        is no such run."""
        fitting = [(size, first) for first, size in self.runs if size >= number]
        if not fitting:
            return None
        size, first = min(fitting)
        at = self.runs.index((first, size))
        self.runs[at : at + 1] = [(first + number, size - number)] * (size > number)
        return first

    def give(self, first: int, number: int) -> None:
        """Give pages back."""
        self.numbers[:, :, :, first * PAGE : (first + number) * PAGE].zero_()
        joined: list[tuple[int, int]] = []
        for begin, size in sorted([*self.runs, (first, number)]):
            if joined and sum(joined[-1]) == begin:
                joined[-1] = joined[-1][0], joined[-1][1] + size
            else:
                joined.append((begin, size))
        self.runs = joined

    def copy(self, source: int, target: int) -> None:
        """Copy a page."""
        pages = self.numbers.unflatten(3, (-1, PAGE))
        pages[:, :, :, target] = pages[:, :, :, source]


@dataclass(frozen=True)
class SegmentedCache(Cache):
    """The pool, seen by the segments of one forward pass."""

    pool: Pool | None = None
    segments: tuple[Segment, ...] = ()
    slots: Int[Tensor, "N"] = field(default_factory=lambda: torch.empty(0, dtype=torch.long))
    """Slot of each new element."""

    @classmethod
    def of(cls, pool: Pool, segments: Sequence[Segment]) -> "SegmentedCache":
        """The cache of these segments."""
        ranges = (range(one.slot + one.start, one.slot + one.end) for one in segments)
        slots = torch.tensor([*chain(*ranges)], device=pool.numbers.device)
        return cls(pool=pool, segments=tuple(segments), slots=slots)

    def advanced(self, new: Positions) -> "SegmentedCache":
        """This cache, in which new elements have their slots already."""
        return self

    def store(
        self, layer: int, keys: Float[Tensor, "1 G N K"], values: Float[Tensor, "1 G N K"]
    ) -> Any:
        """Write the new keys and values; returns a tuple of the keys of each segment, [1, G, S, K]
        without copies, and one of the values."""
        assert self.pool is not None
        own = self.pool.numbers[layer]
        own[0].index_copy_(1, self.slots, keys[0])
        own[1].index_copy_(1, self.slots, values[0])
        ends = [slice(one.slot, one.slot + one.end) for one in self.segments]
        return tuple(own[:1, :, end] for end in ends), tuple(own[1:, :, end] for end in ends)

    def once(self, layer: int, compute: Callable[[], KeysValues]) -> KeysValues:
        """Keys and values of the encoder's output: none here."""
        raise NotImplementedError

    def new_positions(self) -> Positions:
        """Positions of the new elements, one sequence behind the other."""
        ranges = (range(one.start, one.end) for one in self.segments)
        return Positions(torch.tensor([[*chain(*ranges)]], device=self.slots.device))
