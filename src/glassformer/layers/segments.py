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
from glassformer.layers.cache import Cache, KeysValues, Layers

PAGE = 64
"""Elements of a page."""


@dataclass(frozen=True)
class Segment:
    """New elements of one sequence, or of several at equal distances.

    `slot`: where its keys begin in the pool. `start`: how many it has there already. `length`: new
    ones. `rows`: number of sequences, each `stride` slots behind the one before. `starts`: how many
    keys each has already, if not all of them `start`, the largest.
    """

    slot: int
    start: int
    length: int
    rows: int = 1
    stride: int = 0
    starts: tuple[int, ...] = ()

    @property
    def end(self) -> int:
        """Elements of the (longest) sequence with the new ones."""
        return self.start + self.length

    @property
    def shape(self) -> tuple[int, int, tuple[int, ...]]:
        """What positions depend on."""
        return self.start, self.length, self.starts

    def query(self, numbers: Int[Tensor, "1 N"]) -> Positions:
        """Positions of the new elements; `numbers`: 0, 1, 2, ..."""
        if not self.starts:
            return Positions(numbers[:, self.start : self.end], start=self.start)
        own = torch.tensor(self.starts, device=numbers.device)[:, None]
        return Positions(own + numbers[:, : self.length])

    def key(self, numbers: Int[Tensor, "1 N"]) -> Positions:
        """Positions of all elements."""
        every = numbers[:, : self.end]
        if not self.starts:
            return Positions(every, start=0)
        ends = torch.tensor(self.starts, device=numbers.device)[:, None] + self.length
        return Positions(every, valid=every < ends, start=0)

    def followed(self, other: "Segment") -> "Segment | None":
        """This segment and the one behind it as one; None: another length or distance."""
        stride = self.stride if self.rows > 1 else other.slot - self.slot
        spaced = stride > 0 and other.slot == self.slot + self.rows * stride
        if self.length != other.length or not spaced:
            return None
        same = self.start == other.start and not self.starts
        starts = () if same else (*(self.starts or (self.start,) * self.rows), other.start)
        return Segment(
            self.slot, max(self.start, other.start), self.length, self.rows + 1, stride, starts
        )


def joined(segments: Sequence[Segment]) -> tuple[Segment, ...]:
    """Neighbours at equal distances as one segment, so that one kernel call attends for all of
    them; the last bits of each then depend on the others (which thread computes it)."""
    found: list[Segment] = []
    for one in segments:
        both = found[-1].followed(one) if found else None
        found[-1 if both else len(found) :] = [both or one]
    return tuple(found)


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
        with torch.inference_mode(False):  # or it could be changed in that mode alone
            self.numbers = torch.zeros(shape, dtype=dtype, device=device)
            self.layers = [(keys, values) for keys, values in self.numbers]
            self.slots = torch.arange(n_pages * PAGE, device=device)[None]
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

    def copy(self, source: int, target: int, number: int = 1) -> None:
        """Copy pages to others."""
        pages = self.numbers.unflatten(3, (-1, PAGE))
        pages[:, :, :, target : target + number] = pages[:, :, :, source : source + number]

    def write(self, slot: int, layers: Layers) -> None:
        """Write keys and values of one sequence, [1, G, S, K] at each layer, from a slot on."""
        for layer, both in layers.items():
            for own, numbers in zip(self.layers[layer], both, strict=True):
                own[:, slot : slot + numbers.shape[2]] = numbers[0]

    def view(self, layer: int, segment: Segment) -> KeysValues:
        """Keys and values of a segment up to its end, [rows, G, S, K] without copies."""
        keys, values = self.layers[layer]
        of_head, width, _ = keys.stride()
        shape = segment.rows, len(keys), segment.end, width
        strides, at = (segment.stride * width, of_head, width, 1), segment.slot * width
        return (
            keys.as_strided(shape, strides, keys.storage_offset() + at),
            values.as_strided(shape, strides, values.storage_offset() + at),
        )


@dataclass(frozen=True)
class SegmentedCache(Cache):
    """The pool, seen by the segments of one forward pass.

    `texts`: the elements of each text. `sources`: for an encoder-decoder, the keys and values of
    each text's source, as a segment that ends with them and is as long as the text's own.
    `segments`, `crossed`: the same, perhaps with neighbours joined. `slots`, `places`: slot and
    position of each new element.
    """

    pool: Pool | None = None
    texts: tuple[Segment, ...] = ()
    sources: tuple[Segment, ...] = ()
    segments: tuple[Segment, ...] = ()
    crossed: tuple[Segment, ...] = ()
    slots: Int[Tensor, "N"] = field(default_factory=lambda: torch.empty(0, dtype=torch.long))
    places: Int[Tensor, "N"] = field(default_factory=lambda: torch.empty(0, dtype=torch.long))

    @classmethod
    def of(
        cls,
        pool: Pool,
        texts: Sequence[Segment],
        sources: Sequence[Segment] = (),
        padding: int = 0,
        joins: bool = False,
    ) -> "SegmentedCache":
        """The cache of these segments; behind them come `padding` elements of nobody in slots 0,
        1, ..., for which attention is not computed."""
        slots = [range(one.slot + one.start, one.slot + one.end) for one in texts]
        places = [range(one.start, one.end) for one in texts]
        none = range(padding)
        at = [[*chain(*slots, none)], [*chain(*places, none)]]
        at_slots, at_places = torch.tensor(at, device=pool.numbers.device)
        return cls(
            pool=pool,
            texts=tuple(texts),
            sources=tuple(sources),
            segments=joined(texts) if joins else tuple(texts),
            crossed=joined(sources) if joins else tuple(sources),
            slots=at_slots,
            places=at_places,
        )

    @property
    def numbers(self) -> Int[Tensor, "1 N"]:
        """0, 1, 2, ..., as many as the pool has slots."""
        assert self.pool is not None
        return self.pool.slots

    def keys(self, layer: int, text: Segment) -> Float[Tensor, "_ G S K"]:
        """All keys of a text or source."""
        assert self.pool is not None
        return self.pool.view(layer, text)[0]

    def advanced(self, new: Positions) -> "SegmentedCache":
        """This cache, in which new elements have their slots already."""
        return self

    def store(
        self, layer: int, keys: Float[Tensor, "1 G N K"], values: Float[Tensor, "1 G N K"]
    ) -> Any:
        """Write the new keys and values; returns a tuple of the keys of each segment and one of the
        values, without copies."""
        assert self.pool is not None
        for own, new in zip(self.pool.layers[layer], (keys, values), strict=True):
            own.index_copy_(1, self.slots, new[0].to(own.dtype))
        return self._views(layer, self.segments)

    def once(self, layer: int, compute: Callable[[], KeysValues]) -> Any:
        """Keys of the sources of each segment, and values, which are in the pool already."""
        return self._views(layer, self.crossed)

    def _views(self, layer: int, segments: Sequence[Segment]) -> Any:
        assert self.pool is not None
        return tuple(zip(*(self.pool.view(layer, one) for one in segments), strict=True))

    def new_positions(self) -> Positions:
        """Positions of the new elements, one sequence behind the other."""
        alone = len(self.texts) == 1 and self.texts[0].length == len(self.places)
        return Positions(self.places[None], start=self.texts[0].start if alone else None)
