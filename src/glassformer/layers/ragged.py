"""New elements of many sequences one after another in one row, each with a block table.

    elements   a a a a b c c              one row, no padding
    tables     [7 8 9 10] [3] [7 8 4 5]   slots of the keys and values of each sequence

A block has one slot. Sequences share what they have in common by listing the same slots: nothing is
copied where hypotheses part or prompts begin alike. Products of single elements read the whole row.
Attention reads each sequence over its own keys only, so that its numbers do not depend on others
(except through the rounding of products with more rows).
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import torch

from glassformer.axes import Float, Int, Tensor
from glassformer.batch import Positions
from glassformer.layers.cache import Cache, KeysValues, Layers

Tables = tuple[Int[np.ndarray, "M"], Int[np.ndarray, "N"], Int[np.ndarray, "N"]]
"""Slots of all block tables in a row, int32; for each new element the index at which its table
begins, and the number of slots that it reads, int64."""


@dataclass(frozen=True, eq=False)
class Sequences:
    """Sequences with equally many new elements.

    `table`: slot of each element of a sequence, [R, S]; after its end perhaps slots that are
    reserved for it. `ends`: number of elements of each, the new ones included, at most S. `length`:
    number of new elements of each.
    """

    table: Int[np.ndarray, "R S"]
    ends: Int[np.ndarray, "R"]
    length: int

    @classmethod
    def single(
        cls, slots: Int[np.ndarray, "S"], length: int, end: int | None = None
    ) -> "Sequences":
        """Return one sequence that has these slots up to `end` (None: all), of which the last
        `length` are new; the others are reserved for it."""
        return cls(slots[None], np.array([len(slots) if end is None else end]), length)

    @property
    def rows(self) -> int:
        """R, the number of sequences."""
        return len(self.ends)

    @cached_property
    def longest(self) -> int:
        """Number of elements of the longest sequence."""
        return int(self.ends.max())

    @cached_property
    def shape(self) -> tuple[tuple[int, ...], int]:
        """Numbers of elements and of new elements, which determine all positions."""
        return tuple(self.ends.tolist()), self.length

    @cached_property
    def places(self) -> Int[np.ndarray, "R T"]:
        """Position of each new element in its sequence."""
        return self.ends[:, None] - self.length + np.arange(self.length)

    @property
    def slots(self) -> Int[np.ndarray, "R T"]:
        """Slot of each new element."""
        return np.take_along_axis(self.table, self.places, 1)

    def query(self, numbers: Int[Tensor, "1 N"]) -> Positions:
        """Positions of the new elements; `numbers`: 0, 1, 2, ..."""
        if self.is_even:
            start = self.longest - self.length
            return Positions(numbers[:, start : self.longest], start=start)
        return Positions(torch.from_numpy(self.places).to(numbers.device))

    def key(self, numbers: Int[Tensor, "1 N"]) -> Positions:
        """Positions of all elements."""
        every = numbers[:, : self.longest]
        if self.is_even:
            return Positions(every, start=0)
        ends = torch.from_numpy(self.ends).to(numbers.device)[:, None]
        return Positions(every, valid=every < ends, start=0)

    @cached_property
    def is_even(self) -> bool:
        """True if all sequences have equally many elements."""
        return bool((self.ends == self.longest).all())

    @cached_property
    def stride(self) -> int | None:
        """Distance of the first slots of neighbours, if a view of equally long rows reads only
        slots that are in their own tables; None: the keys must be gathered."""
        if not (np.diff(self.table[:, : self.longest], axis=1) == 1).all():
            return None
        distances = np.diff(self.table[:, 0])
        stride = int(distances[0]) if len(distances) else self.longest
        return stride if stride >= self.longest and (distances == stride).all() else None

    @cached_property
    def index(self) -> Int[Tensor, "R S"]:
        """Slots to gather; after the end of a sequence the last one again."""
        at = np.minimum(np.arange(self.longest), self.ends[:, None] - 1)
        return torch.from_numpy(np.take_along_axis(self.table, at, 1).astype(np.int64))

    def join(self, other: "Sequences") -> "Sequences | None":
        """Return both as one; None: no strided view has the keys of all of them."""
        if self.length != other.length or self.stride is None or other.stride is None:
            return None
        ends = np.concatenate([self.ends, other.ends])
        width = max(self.table.shape[1], other.table.shape[1])
        tables = [
            np.pad(one.table, [(0, 0), (0, width - one.table.shape[1])], mode="edge")
            for one in (self, other)
        ]
        both = Sequences(np.concatenate(tables), ends, self.length)
        return None if both.stride is None else both


def merge(groups: Sequence[Sequences]) -> tuple[Sequences, ...]:
    """Merge neighbours whose keys one strided view has, so that one kernel call attends for all of
    them; the last bits of each then depend on the others (which thread computes it)."""
    found: list[Sequences] = []
    for one in groups:
        both = found[-1].join(one) if found else None
        found[-1 if both else len(found) :] = [both or one]
    return tuple(found)


class Pool:
    """Keys and values of all layers in slots, each with the number of tables that list it.

    `users`: that number, [S]; a slot without users is free and may hold anything. Slot 0 is never
    free: it is for elements that only make products wide enough. A pool that `grows` gets a
    quarter more where it has too few slots.
    """

    def __init__(
        self,
        n_layers: int,
        n_kv_heads: int,
        d_head: int,
        n_slots: int,
        dtype: torch.dtype = torch.float32,
        device: torch.device | str = "cpu",
        grows: bool = False,
    ):
        self.grows = grows
        self.users = np.zeros(0, np.int32)
        with torch.inference_mode(False):  # or it could be changed only in that mode
            self.numbers = torch.zeros(
                n_layers, 2, n_kv_heads, 0, d_head, dtype=dtype, device=device
            )
            self.positions = torch.empty(1, 0, dtype=torch.long, device=device)
        self.grow(n_slots)
        self.users[0] = 1

    @staticmethod
    def slot_bytes(n_layers: int, n_kv_heads: int, d_head: int, dtype: torch.dtype) -> int:
        """Bytes of a slot: 2 L G K numbers."""
        return 2 * n_layers * n_kv_heads * d_head * dtype.itemsize

    @property
    def n_slots(self) -> int:
        """Number of slots."""
        return len(self.users)

    @property
    def n_free(self) -> int:
        """Number of slots without users."""
        return int((self.users == 0).sum())

    def grow(self, number: int) -> None:
        """Add slots."""
        with torch.inference_mode(False):
            self.numbers = torch.nn.functional.pad(self.numbers, (0, 0, 0, number))
            self.layers = [(keys, values) for keys, values in self.numbers]
            size = self.n_slots + number
            self.positions = torch.arange(size, device=self.numbers.device)[None]
        self.users = np.pad(self.users, (0, number))

    def take(self, number: int) -> Int[np.ndarray, "N"] | None:
        """Return slots that were free, now with one user each: the shortest run that is long
        enough, else the first ones; None: there are too few."""
        free = np.flatnonzero(self.users == 0).astype(np.int32)
        if len(free) < number:
            if not self.grows:
                return None
            self.grow(max(number, self.n_slots // 4))
            return self.take(number)
        begins = np.concatenate([[0], np.flatnonzero(np.diff(free) != 1) + 1])
        sizes = np.diff(begins, append=len(free))
        begin = begins[np.where(sizes >= number, sizes, len(free) + 1).argmin()]
        taken = free[begin:][:number] if (sizes >= number).any() else free[:number]
        self.users[taken] = 1
        return taken

    def share(self, slots: Int[np.ndarray, "N"]) -> None:
        """Count one more user of each of these slots."""
        np.add.at(self.users, slots, 1)

    def give(self, slots: Int[np.ndarray, "N"]) -> None:
        """Count one user less of each of these slots."""
        np.subtract.at(self.users, slots, 1)

    def erase(self, slots: Int[np.ndarray, "N"]) -> None:
        """Fill slots with zeros: a view of sequences of different lengths reads reserved slots, and
        a masked NaN would still make the weighted sum of values NaN."""
        self.numbers[:, :, :, torch.from_numpy(slots).long()] = 0

    def write(self, slots: Int[np.ndarray, "S"], layers: Layers, row: int = 0) -> None:
        """Write the first keys and values of a row, [B, G, _, K] at each layer, to slots."""
        index = torch.from_numpy(slots).long().to(self.numbers.device)
        for layer, both in layers.items():
            for own, numbers in zip(self.layers[layer], both, strict=True):
                own.index_copy_(1, index, numbers[row, :, : len(slots)].to(own.dtype))

    def read(self, layer: int, group: Sequences) -> KeysValues:
        """Return keys and values of sequences up to the longest, [R, G, S, K]: a view if they are
        at equal distances, else a copy."""
        if group.stride is None:
            index = group.index.to(self.numbers.device)
            keys, values = (one[:, index].transpose(0, 1) for one in self.layers[layer])
            return keys, values
        keys, values = self.layers[layer]
        of_head, width, _ = keys.stride()
        shape = group.rows, len(keys), group.longest, width
        strides = group.stride * width, of_head, width, 1
        at = int(group.table[0, 0]) * width
        return (
            keys.as_strided(shape, strides, keys.storage_offset() + at),
            values.as_strided(shape, strides, values.storage_offset() + at),
        )


@dataclass(frozen=True)
class RaggedCache(Cache):
    """The pool, seen by the sequences of one forward pass.

    `texts`: the sequences in the order of the row's elements. `sources`: for an encoder-decoder,
    their sources; `length` is the number of new elements that read one. `groups`, `crossed`: the
    same, perhaps merged. `padding`: elements after all sequences, without attention.
    """

    pool: Pool | None = None
    texts: tuple[Sequences, ...] = ()
    sources: tuple[Sequences, ...] = ()
    groups: tuple[Sequences, ...] = ()
    crossed: tuple[Sequences, ...] = ()
    padding: int = 0

    @classmethod
    def of(
        cls,
        pool: Pool,
        texts: Sequence[Sequences],
        sources: Sequence[Sequences] = (),
        padding: int = 0,
        merges: bool = False,
    ) -> "RaggedCache":
        """Return the cache of these sequences."""
        combine = merge if merges else tuple
        own, crossed = combine(texts), combine(sources)
        return cls(
            pool=pool,
            texts=tuple(texts),
            sources=tuple(sources),
            groups=own,
            crossed=crossed,
            padding=padding,
        )

    @cached_property
    def slots(self) -> Int[Tensor, "N"]:
        """Slot of each new element."""
        assert self.pool is not None
        slots = [*(one.slots.ravel() for one in self.texts), np.zeros(self.padding, np.int32)]
        return torch.from_numpy(np.concatenate(slots)).long().to(self.pool.numbers.device)

    @cached_property
    def new_positions(self) -> Positions:
        """Positions of the new elements, one sequence after another."""
        assert self.pool is not None
        if len(self.texts) == 1 and self.texts[0].rows == 1 and not self.padding:
            return self.texts[0].query(self.pool.positions)
        places = [*(one.places.ravel() for one in self.texts), np.arange(self.padding)]
        return Positions(torch.from_numpy(np.concatenate(places))[None].to(self.slots.device))

    @property
    def tables(self) -> tuple[Tables, Tables]:
        """Block tables of the texts, and of their sources (without any, the texts' again)."""
        own = _tables(self.texts, [one.places.ravel() + 1 for one in self.texts])
        whole = [one.ends.repeat(one.length) for one in self.sources]
        return own, _tables(self.sources, whole) if whole else own

    def advanced(self, new: Positions) -> "RaggedCache":
        """Return this cache, in which new elements have their slots already."""
        return self

    def store(
        self, layer: int, keys: Float[Tensor, "1 G N K"], values: Float[Tensor, "1 G N K"]
    ) -> Any:
        """Write the new keys and values; return the keys of each group, and their values."""
        assert self.pool is not None
        for own, new in zip(self.pool.layers[layer], (keys, values), strict=True):
            own.index_copy_(1, self.slots, new[0].to(own.dtype))
        return self._read(layer, self.groups)

    def once(self, layer: int, compute: Callable[[], KeysValues]) -> Any:
        """Return keys of the source of each group, and values, which are in the pool already."""
        return self._read(layer, self.crossed)

    def _read(self, layer: int, groups: Sequence[Sequences]) -> Any:
        assert self.pool is not None
        return tuple(zip(*(self.pool.read(layer, one) for one in groups), strict=True))


def _tables(groups: Sequence[Sequences], ends: Sequence[np.ndarray]) -> Tables:
    first, begin = list[np.ndarray](), 0
    for one in groups:
        starts = begin + one.table.shape[1] * np.arange(one.rows)
        first.append(starts.repeat(one.length))
        begin += one.table.size
    tables = np.concatenate([one.table.ravel() for one in groups], dtype=np.int32)
    return tables, np.concatenate(first), np.concatenate(ends)
