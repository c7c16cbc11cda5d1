"""Keys and values of sequences that branch, as the hypotheses of a beam search do.

    slots    p p p | a b c | a b c | ...    a prompt, then a slot for each branch at each step
    lines    a branch reads the slots from which it descends: of each step, one

No key is ever copied where hypotheses change places; those of a source are kept once. Every product
reads the branches that live, one row each. Attention reads all branches of a sequence as queries of
one row, over all of its slots, by a mask of their lines.
"""

from dataclasses import dataclass, field, replace
from typing import Any

import torch

from glassformer.axes import Bool, Float, Int, Tensor
from glassformer.batch import Positions
from glassformer.layers.attention import AttentionContext
from glassformer.layers.cache import Cache
from glassformer.layers.cpu_kernels import few_queries, on_cpu

STEPS = 16
"""Steps for which there is room, until slots in nobody's line are left out."""
Slots = tuple[Float[Tensor, "N G _ K"], Float[Tensor, "N G _ K"]]
"""Keys and values of slots of N sequences."""


@dataclass(frozen=True)
class BranchedContext(AttentionContext):
    """Context of the branches of N sequences, at most `width` each; `place` is that of each in
    N x width."""

    place: Int[Tensor, "B"] = field(default_factory=lambda: torch.empty(0, dtype=torch.long))
    width: int = 1

    def attend(
        self, q: Float[Tensor, "B H 1 K"], k: Any, v: Any, scale: float, dropout: float
    ) -> Float[Tensor, "B H 1 K"]:
        """The same for all branches of a sequence at once."""
        shape = len(k), self.width
        wide = spread(q[:, :, 0], self.place, len(k) * self.width)
        wide = wide.unflatten(0, shape).transpose(1, 2)
        z = self.together(wide, k, v, scale).transpose(1, 2).flatten(0, 1)
        z = z if len(z) == len(q) else z.index_select(0, self.place)
        return z[:, :, None]

    def together(
        self,
        q: Float[Tensor, "N H W K"],
        k: Float[Tensor, "N G S K"],
        v: Float[Tensor, "N G S K"],
        scale: float,
    ) -> Float[Tensor, "N H W K"]:
        """Attention of the branches of each sequence."""
        if not on_cpu(q) or q.dtype.itemsize < 4:
            return super().attend(q, k, v, scale, 0.0)
        added, bias = self.allow.added, self.bias
        if bias is not None:
            added = bias.to(q.dtype) if added is None else bias.to(q.dtype) + added
        z = few_queries(q, k, v, added, scale)
        return z if self.allow.some is None else z * self.allow.some


def spread(rows: Float[Tensor, "B H K"], place: Int[Tensor, "B"], n: int) -> Float[Tensor, "N H K"]:
    """The rows at their places among `n`, zeros elsewhere; all places in order are as they are."""
    if len(rows) == n:
        return rows
    return rows.new_zeros(n, *rows.shape[1:]).index_copy_(0, place, rows)


@dataclass(frozen=True)
class BranchedCache(Cache):
    """A cache of N sequences with at most `width` branches each, R in all; see the module.

    `positions`: those of all slots. `sources`: those of the sources. `place`: that of each branch
    in N x width. `newest`: position of its newest element. `lines`: the slots of each place.
    """

    room: dict[int, Slots] = field(default_factory=dict)
    sources: Positions | None = None
    width: int = 1
    lines: Bool[Tensor, "N W S"] = field(default_factory=lambda: torch.empty(0, 0, 0).bool())
    place: Int[Tensor, "R"] = field(default_factory=lambda: torch.empty(0, dtype=torch.long))
    newest: Int[Tensor, "R"] = field(default_factory=lambda: torch.empty(0, dtype=torch.long))
    number: Int[Tensor, "N"] = field(default_factory=lambda: torch.empty(0, dtype=torch.long))
    """Of each sequence among those of the beginning."""

    @classmethod
    def of(
        cls, cache: Cache, positions: Positions, sources: Positions | None, rows: int, width: int
    ) -> "BranchedCache":
        """The cache of `rows` prompts at these positions, each with one branch."""
        number = torch.arange(rows, device=positions.position.device)
        room = {layer: _longer(kept, STEPS * width) for layer, kept in cache.own.items()}
        cross = {i: (k.contiguous(), v.contiguous()) for i, (k, v) in cache.cross.items()}
        return cls(
            positions=positions,
            cross=cross,
            room=room,
            sources=sources,
            width=width,
            lines=number.new_ones(rows, width, positions.length, dtype=torch.bool),
            place=number * width,
            newest=positions.position[:, -1].expand(rows),
            number=number,
        )

    @property
    def owner(self) -> Int[Tensor, "R"]:
        """The sequence of each branch."""
        return self.place.div(self.width, rounding_mode="floor")

    @property
    def query(self) -> Positions:
        """Position of the newest element at each place."""
        position = self.newest.new_zeros(self.lines.shape[:2])
        position.view(-1)[self.place] = self.newest
        return Positions(position)

    def branched(self, parents: Int[Tensor, "R"]) -> "BranchedCache":
        """The cache of branches that go on from these, those of a sequence together.

        Sequences without branches leave where half of them have none.
        """
        before, owner = self.place[parents], self.owner[parents]
        kept, number, counts = owner.unique_consecutive(return_inverse=True, return_counts=True)
        cache, lines = self, self.lines.flatten(0, 1)[before]
        if 2 * len(kept) <= len(self.lines):
            cache, owner = self._selected(kept), number
        column = torch.arange(len(owner), device=owner.device)
        place = owner * self.width + column - (counts.cumsum(0) - counts)[number]
        spread_lines = torch.zeros_like(cache.lines)
        spread_lines.view(-1, lines.shape[1])[place] = lines
        return replace(cache, lines=spread_lines, place=place, newest=self.newest[parents])

    def _selected(self, sequences: Int[Tensor, "M"]) -> "BranchedCache":
        """The cache of these sequences, without its branches."""
        picked = lambda pair: (
            pair[0].index_select(0, sequences),
            pair[1].index_select(0, sequences),
        )
        assert self.positions is not None
        return replace(
            self,
            positions=self.positions.selected(sequences),
            sources=self.sources and self.sources.selected(sequences),
            cross={layer: picked(kept) for layer, kept in self.cross.items()},
            room={layer: picked(kept) for layer, kept in self.room.items()},
            lines=self.lines[sequences],
            number=self.number[sequences],
        )

    def advanced(self, new: Positions) -> "BranchedCache":
        """The cache with a new element of each branch, at its position in `new`."""
        n, width, length = self.lines.shape
        if any(keys.shape[2] < length + width for keys, _ in self.room.values()):
            return self._tidied().advanced(new)
        assert self.positions is not None
        own = torch.eye(width, dtype=torch.bool, device=self.lines.device).expand(n, -1, -1)
        made = replace(self, lines=torch.cat([self.lines, own], 2), newest=new.position[:, 0])
        return replace(made, positions=self.positions.extended(made.query))

    def _tidied(self) -> "BranchedCache":
        """The cache with room for more steps, and without slots in nobody's line."""
        assert self.positions is not None
        read = self.lines.any(1)
        slots = read.int().argsort(stable=True, dim=1, descending=True)[:, : int(read.sum(1).max())]
        take = lambda x: x.take_along_dim(slots[:, None, :, None], 2)
        room = {layer: (take(k), take(v)) for layer, (k, v) in self.room.items()}
        of = lambda x: x.expand(len(slots), -1).take_along_dim(slots, 1)
        return replace(
            self,
            positions=self.positions.mapped(of),
            room={layer: _longer(kept, STEPS * self.width) for layer, kept in room.items()},
            lines=self.lines.take_along_dim(slots[:, None], 2),
        )

    def store(
        self, layer: int, keys: Float[Tensor, "R G 1 K"], values: Float[Tensor, "R G 1 K"]
    ) -> Any:
        """Write keys and values of the newest elements; returns views of those in all slots of each
        sequence."""
        n, width, length = self.lines.shape
        kept = self.room[layer]
        for room, new in zip(kept, (keys, values), strict=True):
            wide = spread(new[:, :, 0], self.place, n * width)
            wide = wide.unflatten(0, (n, width)).transpose(1, 2)
            room[:, :, length - width : length] = wide
        return kept[0][:, :, :length], kept[1][:, :, :length]

    def apart(self) -> Cache:
        """A cache with a row for each branch: copies, for those who look at rows."""
        assert self.positions is not None
        owner = self.owner
        slots = self.lines.flatten(0, 1)[self.place].nonzero()[:, 1].view(len(owner), -1)
        take = lambda x: x.transpose(1, 2)[owner[:, None], slots].transpose(1, 2)
        of = lambda x: x.expand(len(self.lines), -1)[owner[:, None], slots]
        own = {layer: (take(k), take(v)) for layer, (k, v) in self.room.items()}
        cross = {layer: (k[owner], v[owner]) for layer, (k, v) in self.cross.items()}
        return Cache(self.positions.mapped(of), own, cross)


def _longer(kept: Slots, more: int) -> Slots:
    """With `more` slots, of zeros: a masked NaN would still make the weighted sum NaN."""
    keys, values = (torch.nn.functional.pad(x, (0, 0, 0, more)) for x in kept)
    return keys, values
