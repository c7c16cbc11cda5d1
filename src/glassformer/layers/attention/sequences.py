"""Sequences one after another in one row, without padding.

    elements   a a a b b b c c c c c      a and b have equally many, so one call of the kernel

Every product that acts on single elements reads the whole row. Attention reads neighbours of one
shape together, each over its own keys only. These are in the row itself (`Joined`), or in a pool,
where a block table lists them (`layers.attention.ragged`).
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import groupby
from typing import Any, Self

import numpy as np
import torch

from glassformer.core.axes import Float, Int, Tensor
from glassformer.core.batch import Positions
from glassformer.layers.attention.cache import Contexts, KeysValues, Layout, Long
from glassformer.layers.attention.context import AttentionContext, Scoring, SelectedPositions
from glassformer.layers.attention.mask import Allowed
from glassformer.layers.position.rotary import Rotation


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

    @classmethod
    def of(
        cls,
        tables: Sequence[Int[np.ndarray, "_"]],
        length: int,
        ends: Int[np.ndarray, "R"] | None = None,
    ) -> "Sequences":
        """Return sequences as `single` does."""
        return cls(stack(tables), np.array([*map(len, tables)]) if ends is None else ends, length)

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
        return (self.longest,) if self.is_even else tuple(self.ends.tolist()), self.length

    @cached_property
    def places(self) -> Int[np.ndarray, "R T"]:
        """Position of each new element in its sequence."""
        return self.ends[:, None] - self.length + np.arange(self.length)

    @property
    def slots(self) -> Int[np.ndarray, "R T"]:
        """Slot of each new element."""
        return np.take_along_axis(self.table, self.places, 1)

    def query(self, device: torch.device) -> Positions:
        """Positions of the new elements."""
        if self.is_even:
            return Positions.arange(self.length, self.longest - self.length, device)
        return Positions(torch.from_numpy(self.places).to(device))

    def key(self, device: torch.device) -> Positions:
        """Positions of all elements."""
        every = Positions.arange(self.longest, 0, device)
        if self.is_even:
            return every
        ends = torch.from_numpy(self.ends).to(device)[:, None]
        return replace(every, valid=every.position < ends)

    @cached_property
    def is_even(self) -> bool:
        """True if all sequences have equally many elements."""
        return bool((self.ends == self.longest).all())

    @cached_property
    def run(self) -> int:
        """Number of slots in every table, from its first, that follow each other."""
        follows = (np.diff(self.table, axis=1) == 1).all(0)
        return 1 + int(np.append(follows, False).argmin())

    @cached_property
    def stride(self) -> int | None:
        """Distance of the first slots of neighbours, if a view of equally long rows reads only
        slots that are in their own tables; None: the keys must be gathered."""
        if self.run < self.longest:
            return None
        distances = np.diff(self.table[:, 0])
        stride = int(distances[0]) if len(distances) else self.longest
        return stride if stride >= self.longest and (distances == stride).all() else None

    @cached_property
    def _indices(self) -> dict[torch.device, Int[Tensor, "R S"]]:
        """Slots to gather, on each device; after the end of a sequence the last one again."""
        return {}

    def read(self, slots: Float[Tensor, "G N K"]) -> Float[Tensor, "R G S K"]:
        """Return what slots have, up to the longest sequence: a view if the sequences are at equal
        distances, else a copy."""
        if self.stride is not None:
            of_head, of_slot, of_number = slots.stride()
            shape = self.rows, len(slots), self.longest, slots.shape[2]
            strides = self.stride * of_slot, of_head, of_slot, of_number
            first = slots.storage_offset() + int(self.table[0, 0]) * of_slot
            return slots.as_strided(shape, strides, first)
        if slots.device not in self._indices:  # or each layer would copy it from the host
            at = np.minimum(np.arange(self.longest), self.ends[:, None] - 1)
            index = torch.from_numpy(np.take_along_axis(self.table, at, 1).astype(np.int64))
            self._indices[slots.device] = index.to(slots.device)
        return slots[:, self._indices[slots.device]].transpose(0, 1)


def stack(tables: Sequence[Int[np.ndarray, "_"]]) -> Int[np.ndarray, "R S"]:
    """Return tables as rows, with zeros after the shorter ones."""
    found = np.zeros((len(tables), max(map(len, tables))), np.int32)
    for row, own in zip(found, tables, strict=True):
        row[: len(own)] = own
    return found


def merge(groups: Sequence[Sequences]) -> list[Sequences]:
    """Merge neighbours of one sequence each, so that one kernel call attends for all of them.

    One strided view must have all of their keys. The last bits of each then depend on the others
    (which thread computes it).
    """
    found, run, longest, apart = list[list[Sequences]](), 0, 0, 0
    for one in groups:
        last = found[-1][-1] if found else one
        gap = int(one.table[0, 0] - last.table[0, 0])
        run, longest = min(run, one.run), max(longest, one.longest)
        alike = one.rows == last.rows == 1 and one.length == last.length and apart in (0, gap)
        if alike and longest <= min(run, gap):
            found[-1].append(one)
            apart = gap
        else:
            found.append([one])
            run, longest, apart = one.run, one.longest, 0
    tables = lambda own: [one.table[0] for one in own]
    ends = lambda own: np.concatenate([one.ends for one in own])
    whole = lambda own: Sequences.of(tables(own), own[0].length, ends(own))
    return [whole(own) if own[1:] else own[0] for own in found]


@dataclass(frozen=True)
class GroupedContext(AttentionContext):
    """Groups of sequences in one row: of each, the number of sequences and of their new elements,
    and its context.

    All elements have queries; after attention, the `selected` ones go on.
    """

    groups: tuple[tuple[tuple[int, int], AttentionContext], ...] = ()

    @classmethod
    def of(
        cls,
        groups: Sequence[Sequences],
        scoring: Scoring,
        device: torch.device,
        rotation: Rotation | None = None,
    ) -> Self:
        """Return the context of groups; that of each shape is computed once."""
        plain, known = replace(scoring, rotation=None), dict[object, AttentionContext]()
        for shape, one in {one.shape: one for one in groups}.items():
            known[shape] = plain.context(one.query(device), one.key(device))
        found = tuple(((one.rows, one.length), known[one.shape]) for one in groups)
        return cls(Allowed(), None, rotation, rotation, groups=found)

    def asking(self, x: Float[Tensor, "1 T D"]) -> Float[Tensor, "1 T D"]:
        """All."""
        return x

    def attend(
        self, q: Float[Tensor, "1 H T K"], k: Any, v: Any, scale: float, dropout: float
    ) -> Float[Tensor, "1 H _ K"]:
        """Attend group by group; `k`, `v`: one tensor for each, [R, G, S, K]. Elements after all
        groups keep their queries, which nothing reads."""
        (shape, own), *more = self.groups
        if not more and shape == (1, q.shape[2]) and self.selected is None:
            return own.attend(q, k[0].to(q.dtype), v[0].to(q.dtype), scale, dropout)
        sizes = [rows * length for (rows, length), _ in self.groups]
        *parts, rest = q[0].split([*sizes, q.shape[2] - sum(sizes)], 1)
        found: list[Tensor] = []
        for (shape, own), part, *read in zip(self.groups, parts, k, v, strict=True):
            a, b, c = part.unflatten(1, shape).transpose(0, 1), *(x.to(q.dtype) for x in read)
            found.append(own.attend(a, b, c, scale, dropout).transpose(1, 2).flatten(0, 1))
        z = torch.cat([*found, rest.transpose(0, 1)])
        z = z if self.selected is None else z.index_select(0, self.selected.at)
        return z[None].transpose(1, 2)


class Joined(Layout):
    """Sequences one after another in one row, without previous elements.

    `groups`: those that attend together, neighbours of one length, in slots of the row itself.
    """

    groups: Sequence[Sequences]

    def __init__(self, lengths: Int[np.ndarray, "N"]):
        self.groups, self.size = list[Sequences](), 0
        for length, own in groupby(lengths.tolist()):
            rows = len(list(own))
            slots = self.size + np.arange(rows * length).reshape(rows, length)
            self.groups.append(Sequences(slots, np.full(rows, length), length))
            self.size += rows * length

    def contexts(
        self,
        scoring: Scoring,
        query: Positions,
        source: Positions | None,
        selected: SelectedPositions | None,
    ) -> tuple[Contexts, Contexts]:
        """Return the contexts of all blocks but the last, and those of the last one."""
        angles = scoring.angles(query)
        own = GroupedContext.of(self.groups, scoring, query.position.device, angles)
        read = query if selected is None else selected.positions(query)
        last = replace(own, selected=selected), self.cross_context(read, source)
        return (own, self.cross_context(query, source)), last

    def store(self, layer: int, compute: Callable[[], KeysValues]) -> Any:
        """Return the keys of each group, and their values."""
        keys, values = compute()
        assert keys.shape[2] == self.size, "the row has other lengths"
        return read_groups((keys[0], values[0]), self.groups)


def row_layout(lengths: Int[np.ndarray, "N"] | None) -> Layout:
    """Return the layout of rows of one length, or of one row of sequences of these lengths."""
    return Long() if lengths is None else Joined(lengths)


def read_groups(
    slots: Sequence[Float[Tensor, "G N K"]], groups: Sequence[Sequences]
) -> tuple[list[Tensor], ...]:
    """Return the keys of each group, and their values, [R, G, S, K]."""
    return tuple([one.read(own) for one in groups] for own in slots)
