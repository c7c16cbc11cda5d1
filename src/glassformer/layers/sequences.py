"""Sequences one after another in one row, without padding.

    elements   a a a b b b c c c c c      a and b have equally many, so one call of the kernel

Every product that acts on single elements reads the whole row. Attention reads neighbours of one
shape together, each over its own keys only: those of the row itself (`Joined`), or those that a
block table lists in a pool (`layers.ragged`).
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import groupby
from typing import Any

import numpy as np
import torch

from glassformer.axes import Float, Int, Tensor
from glassformer.batch import Positions
from glassformer.layers.cache import Contexts, KeysValues, Layout, Long, crossed
from glassformer.layers.context import AttentionContext, Scoring, SelectedPositions
from glassformer.layers.mask import Allowed
from glassformer.layers.position import Rotation


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
        return (self.longest,) if self.is_even else tuple(self.ends.tolist()), self.length

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

    def index(self, device: torch.device) -> Int[Tensor, "R S"]:
        """Slots to gather, kept on the device for all layers; after the end of a sequence the last
        one again."""
        if device not in self._indices:
            at = np.minimum(np.arange(self.longest), self.ends[:, None] - 1)
            slots = np.take_along_axis(self.table, at, 1).astype(np.int64)
            self._indices[device] = torch.from_numpy(slots).to(device)
        return self._indices[device]

    @cached_property
    def _indices(self) -> dict[torch.device, Tensor]:
        return {}


def merge(groups: Sequence[Sequences]) -> tuple[Sequences, ...]:
    """Merge neighbours whose keys one strided view has, so that one kernel call attends for all of
    them; the last bits of each then depend on the others (which thread computes it)."""
    found, run, longest, stride = list[list[Sequences]](), 0, 0, 0
    for one in groups:
        own = one.stride if one.rows > 1 else 0
        if found and own is not None:
            last, most = found[-1][-1], max(longest, one.longest)
            apart = int(one.table[0, 0]) - int(last.table[-1, 0])
            fits = last.length == one.length and {stride, own} <= {0, apart}
            if fits and most <= min(run, one.run, apart):
                found[-1].append(one)
                run, longest, stride = min(run, one.run), most, apart
                continue
        found.append([one])
        run, longest, stride = one.run, one.longest, own if own is not None else -1
    return tuple(own[0] if len(own) == 1 else _merged(own) for own in found)


def _merged(groups: Sequence[Sequences]) -> Sequences:
    width = max(one.table.shape[1] for one in groups)
    tables = [
        np.pad(one.table, [(0, 0), (0, width - one.table.shape[1])], mode="edge") for one in groups
    ]
    ends = np.concatenate([one.ends for one in groups])
    return Sequences(np.concatenate(tables), ends, groups[0].length)


@dataclass(frozen=True)
class GroupedContext(AttentionContext):
    """Groups of sequences in one row, with the context of each group.

    `shapes`: the number of sequences in each, and of new elements in each of these. All elements
    have queries; after attention, the `selected` ones go on.
    """

    groups: tuple[AttentionContext, ...] = ()
    shapes: tuple[tuple[int, int], ...] = ()

    @classmethod
    def of(
        cls,
        groups: Sequence[Sequences],
        compute: Callable[[Sequences], AttentionContext],
        rotation: Rotation | None = None,
    ) -> "GroupedContext":
        """Return the context of groups; that of each shape is computed once."""
        known: dict[Any, AttentionContext] = {}
        for one in groups:
            if one.shape not in known:
                known[one.shape] = compute(one)
        return cls(
            Allowed(),
            rotation=rotation,
            key_rotation=rotation,
            groups=tuple(known[one.shape] for one in groups),
            shapes=tuple((one.rows, one.length) for one in groups),
        )

    def asking(self, x: Float[Tensor, "1 T D"]) -> Float[Tensor, "1 T D"]:
        """All."""
        return x

    def attend(
        self, q: Float[Tensor, "1 H T K"], k: Any, v: Any, scale: float, dropout: float
    ) -> Float[Tensor, "1 H _ K"]:
        """Attend group by group; `k`, `v`: one tensor for each, [R, G, S, K]. Elements after all
        groups keep their queries, which nothing reads."""
        k, v = ([one.to(q.dtype) for one in own] for own in (k, v))
        if self.shapes == ((1, q.shape[2]),) and self.selected is None:
            return self.groups[0].attend(q, k[0], v[0], scale, dropout)
        n = sum(rows * length for rows, length in self.shapes)
        found: list[Tensor] = []
        for own, a, b, c in zip(self.groups, _apart(q[:, :, :n], self.shapes), k, v, strict=True):
            found.append(own.attend(a, b, c, scale, dropout).transpose(1, 2).flatten(0, 1))
        z = torch.cat([*found, q[0, :, n:].transpose(0, 1)])
        z = z if self.selected is None else z.index_select(0, self.selected.at)
        return z[None].transpose(1, 2)


@dataclass(frozen=True, eq=False)
class Joined(Layout):
    """Sequences of these lengths one after another in one row, without previous elements."""

    lengths: Int[np.ndarray, "N"]

    @cached_property
    def groups(self) -> tuple[Sequences, ...]:
        """Neighbours of one length; their slots are those of the row."""
        found, begin = list[Sequences](), 0
        for length, own in groupby(self.lengths.tolist()):
            rows = len(list(own))
            slots = np.arange(begin, begin + rows * length).reshape(rows, length)
            found.append(Sequences(slots, np.full(rows, length), length))
            begin += rows * length
        return tuple(found)

    def contexts(
        self,
        scoring: Scoring,
        query: Positions,
        source: Positions | None = None,
        dtype: torch.dtype = torch.float32,
        selected: SelectedPositions | None = None,
    ) -> tuple[Contexts, Contexts]:
        """See `Layout.contexts`."""
        numbers = torch.arange(int(self.lengths.max()), device=query.position.device)[None]
        own = own_contexts(self.groups, numbers, scoring, query, dtype)
        read = query if selected is None else selected.positions(query)
        last = replace(own, selected=selected), crossed(read, source)
        return (own, crossed(query, source)), last

    def store(self, layer: int, compute: Callable[[], KeysValues]) -> Any:
        """Return the keys of each group, and their values."""
        shapes = [(one.rows, one.length) for one in self.groups]
        return tuple(_apart(x, shapes) for x in compute())

    def whole(self) -> Layout:
        """Return the row as one, in which a mask keeps the sequences apart."""
        return Layout()


def row_layout(lengths: Int[np.ndarray, "N"] | None) -> Layout:
    """Return the layout of rows of one length, or of one row of sequences of these lengths."""
    return Long() if lengths is None else Joined(lengths)


def own_contexts(
    groups: Sequence[Sequences],
    numbers: Int[Tensor, "1 N"],
    scoring: Scoring,
    query: Positions,
    dtype: torch.dtype,
) -> GroupedContext:
    """Return the context of self-attention of groups; `query`: the positions of the whole row."""
    plain = replace(scoring, rotation=None)
    compute = lambda one: plain.context(one.query(numbers), one.key(numbers))
    return GroupedContext.of(groups, compute, scoring.rotations(query, dtype)[0])


def _apart(
    row: Float[Tensor, "1 H N K"], shapes: Sequence[tuple[int, int]]
) -> list[Float[Tensor, "_ H _ K"]]:
    """The sequences of a row, group by group."""
    parts = row[0].split([rows * length for rows, length in shapes], 1)
    return [
        part.unflatten(1, shape).transpose(0, 1) for part, shape in zip(parts, shapes, strict=True)
    ]
