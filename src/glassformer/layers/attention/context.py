"""Contexts: the values of attention that all layers of one forward pass share.

    Scoring           mask, score bias and rotary angles of a stack, as functions of positions
    AttentionContext  the same for given queries and keys

The head may read only some positions of the stream. The last block then computes queries only for
these:

    stream [B, T, D] ──gather──> [B, K, D] ── rest of the last block ──> [B, K, D] ──flat──> [N, D]

K is the largest number of selected positions in a row. Shorter rows are padded with their first
position, whose output is ignored. Keys and values are computed for all positions, so the results
are the same.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple, Self

import torch

from glassformer.core.axes import Float, Int, Tensor
from glassformer.core.batch import Positions
from glassformer.layers.attention.attend import attend
from glassformer.layers.attention.mask import Allowed, Causal, Mask, SameDocument, Valid, allowed
from glassformer.layers.position.rotary import Rotation

AT_ONCE = 512
"""Queries of a long row that attend by one call of a kernel."""


@dataclass(frozen=True)
class SelectedPositions:
    """N selected positions of B rows, laid out in B · K slots; position n is in slot `slot[n]`."""

    rows: int
    at: Int[Tensor, "S"]
    """Index into B · T of each of the S = B · K slots."""
    slot: Int[Tensor, "N"]
    """Index into S of each selected position."""

    @classmethod
    def of(cls, at: Int[Tensor, "N"], rows: int, length: int) -> Self:
        """Select the positions `at`, indices into `rows` · `length` in any order."""
        row = at.div(length, rounding_mode="floor")
        counts = row.bincount(minlength=rows)
        most = int(counts.max())
        order = row.argsort(stable=True)
        before = counts.cumsum(0) - counts  # selected positions in the rows above
        slot = torch.empty_like(at)
        slot[order] = torch.arange(len(at), device=at.device) - before[row[order]]
        slot += row * most
        taken = (torch.arange(rows, device=at.device) * length).repeat_interleave(most)
        taken[slot] = at
        return cls(rows, taken, slot)

    def gather(self, x: Float[Tensor, "B T D"]) -> Float[Tensor, "B K D"]:
        """The selected vectors, padded row by row."""
        return x.flatten(0, 1).index_select(0, self.at).view(self.rows, -1, x.shape[2])

    def flat(self, x: Float[Tensor, "B K D"]) -> Float[Tensor, "N D"]:
        """The selected vectors without padding, in the order of selection."""
        return x.flatten(0, 1).index_select(0, self.slot)

    def positions(self, positions: Positions) -> Positions:
        """Position, document and validity of each slot."""
        return positions.map(
            lambda t: t.expand(self.rows, -1).flatten()[self.at].view(self.rows, -1)
        )


@dataclass(frozen=True)
class AttentionContext:
    """Shared by all layers of one forward pass: mask, score bias, rotary angles, selection.

    `rotation` is that of the queries, `key_rotation` that of new keys. With `selected`, only those
    positions have queries.
    """

    allow: Allowed
    bias: Float[Tensor, "_ H T S"] | None = None
    rotation: Rotation | None = None
    key_rotation: Rotation | None = None
    selected: SelectedPositions | None = None

    def stream_of(self, x: Float[Tensor, "B T D"]) -> Float[Tensor, "B Q D"]:
        """The vectors of x that have queries."""
        return x if self.selected is None else self.selected.gather(x)

    def asking(self, x: Float[Tensor, "B T D"]) -> Float[Tensor, "B _ D"]:
        """The vectors of x whose queries are projected."""
        return self.stream_of(x)

    def attend(
        self, q: Float[Tensor, "B H T K"], k: Any, v: Any, scale: float, dropout: float
    ) -> Float[Tensor, "B H T K"]:
        """softmax(q kᵀ · scale + mask + bias) v by the fused kernel; k and v are what the layout
        stored."""
        return attend(q, k, v, self.allow, self.bias, scale, dropout)


class Slice(NamedTuple):
    """Number of queries, the keys that they read, and their context."""

    queries: int
    keys: slice
    context: AttentionContext


@dataclass(frozen=True)
class SlicedContext(AttentionContext):
    """Long rows, some queries at a time, each time with the keys from the first to the last that
    any of them may attend to.

    Scores of other keys are not computed: under a window, they grow with the length of a row, not
    with its square.
    """

    slices: tuple[Slice, ...] = ()

    def attend(
        self, q: Float[Tensor, "B H T K"], k: Any, v: Any, scale: float, dropout: float
    ) -> Float[Tensor, "B H T K"]:
        """Attend slice by slice."""
        parts, found = q.split([own.queries for own in self.slices], 2), list[Tensor]()
        for part, (_, keys, own) in zip(parts, self.slices, strict=True):
            found.append(own.attend(part, k[:, :, keys], v[:, :, keys], scale, dropout))
        return torch.cat(found, 2)


@dataclass(frozen=True)
class Scoring:
    """Mask, score bias and rotary angles of a stack, as functions of positions.

    `factor` multiplies the score bias. `rotation` gives the rotary angles; None: no rotation.
    """

    mask: Mask
    bias: Callable[[Positions, Positions], Tensor] | None = None
    factor: float = 1.0
    rotation: Callable[[Positions], Rotation] | None = None

    def context(
        self,
        query: Positions,
        key: Positions,
        new: Positions | None = None,
        selected: SelectedPositions | None = None,
    ) -> AttentionContext:
        """Context of attention for queries and keys at these positions.

        `new`: the positions of the keys that are not in a cache yet (None: those of the queries).
        """
        angles = self.angles(query)
        return AttentionContext(
            allowed(self.mask, query, key).prepared(),
            self.score_bias(query, key),
            angles,
            angles if new is None else self.angles(new),
            selected,
        )

    def score_bias(self, query: Positions, key: Positions) -> Tensor | None:
        """The bias that is added to scores."""
        return None if self.bias is None else self.bias(query, key) * self.factor

    def angles(self, positions: Positions) -> Rotation | None:
        """The rotary angles, if the model rotates."""
        return None if self.rotation is None else self.rotation(positions)

    def slices_of(self, positions: Positions) -> AttentionContext | None:
        """Return the context of self-attention in slices; None: rows are short, kernels know their
        mask, or it hides no key from many neighbouring queries."""
        if torch.compiler.is_compiling() or positions.length <= AT_ONCE:
            return None
        if isinstance(self.mask.needed(positions, positions), Causal | Valid | None):
            return None
        found = list[Slice]()
        for first in range(0, positions.length, AT_ONCE):
            own = _part(positions, slice(first, first + AT_ONCE))
            allow, keys = _keys_read(self.mask, own, positions)
            bias = self.score_bias(own, _part(positions, keys))
            found.append(Slice(own.length, keys, AttentionContext(allow, bias)))
        angles = self.angles(positions)
        return SlicedContext(Allowed(), None, angles, angles, slices=tuple(found))


CROSSED = Scoring(SameDocument() & Valid())
"""Of cross-attention: every real element of the own source, not causal (Notes C and E)."""


def _part(of: Positions, slots: slice) -> Positions:
    start = None if of.start is None else of.start + slots.start
    return of.map(lambda t: t[:, slots], start)


def _keys_read(mask: Mask, query: Positions, key: Positions) -> tuple[Allowed, slice]:
    """Attention by a mask to the keys from the first to the last that any query may attend to; to
    all if there is none."""
    begin, end = mask.reach(query, key)
    keys = slice(max(0, begin), min(end, key.length))
    allow = allowed(mask, query, _part(key, keys))
    known = query.start is not None and key.valid is None and key.document is None
    if allow.dense is not None and not known:  # only the table says who sees whom
        some = allow.dense.flatten(0, 2).any(0).nonzero().flatten().tolist()
        seen = slice(some[0], some[-1] + 1) if some else slice(0, keys.stop - keys.start)
        keys = slice(keys.start + seen.start, keys.start + seen.stop)
        allow = Allowed(dense=allow.dense[..., seen].clone())  # a view would keep all of it
    return allow.prepared(), keys
