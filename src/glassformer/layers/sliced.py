"""Attention of pieces of long rows, some queries at a time, each time to the keys that they see.

    pieces    of a row, one behind the other (`Positions.pieces`): those of a slice, or all of it
    runs      at most `AT_ONCE` neighbours of a piece, with the keys from the first to the last that
              any of them may attend to

Scores of keys that a run does not see are not computed: under a window, they grow with the length
of a row, not with its square.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cache, partial

import torch

from glassformer.axes import Float, Tensor
from glassformer.batch import Positions
from glassformer.layers.attention import AttentionContext
from glassformer.layers.mask import Allowed, Causal, Mask, Valid

AT_ONCE = 512
"""Queries that attend by one call of a kernel."""
ALIGNED = 16
"""Lines of a table are a multiple of so many numbers apart, as CUDA's kernels read them."""
Bias = Callable[[Positions, Positions], Tensor | None]
"""Of scores, for queries and keys at some positions."""


@dataclass(frozen=True)
class Run:
    """So many queries, the keys that they read, and what is added to their scores."""

    queries: int
    keys: slice
    allow: Allowed
    bias: Float[Tensor, "_ H Q S"] | None


@dataclass(frozen=True)
class SlicedContext(AttentionContext):
    """The runs of the queries."""

    runs: tuple[Run, ...] = ()

    def attend(
        self,
        q: Float[Tensor, "B H T K"],
        k: Float[Tensor, "B G S K"],
        v: Float[Tensor, "B G S K"],
        scale: float,
        dropout: float,
    ) -> Float[Tensor, "B H T K"]:
        """The same for each run."""
        parts, found = q.split([run.queries for run in self.runs], 2), list[Tensor]()
        for run, own in zip(self.runs, parts, strict=True):
            read = k[:, :, run.keys], v[:, :, run.keys]
            found.append(AttentionContext(run.allow, run.bias).attend(own, *read, scale, dropout))
        return torch.cat(found, 2)


def in_pieces(mask: Mask, positions: Positions) -> Positions:
    """Long rows as one piece, if kernels do not know their mask, and it may hide the same keys from
    many neighbouring queries."""
    if torch.compiler.is_compiling() or positions.pieces or positions.length <= AT_ONCE:
        return positions
    if isinstance(mask.needed(positions, positions), Causal | Valid | None):
        return positions
    return replace(positions, pieces=(range(positions.length),))


def runs_of(
    mask: Mask, bias: Bias, query: Positions, key: Positions, dtype: torch.dtype
) -> tuple[Run, ...]:
    """The runs of the pieces `query` of the rows `key`; of vectors in `dtype`."""
    most = min(AT_ONCE, max(map(len, query.pieces)))
    triangle = cache(partial(_last_lines, most, key, dtype))
    found, begin = list[Run](), 0
    for piece in query.pieces:
        for first in range(0, len(piece), most):
            slots = piece[first : first + most]
            start = None if key.start is None else key.start + slots.start
            own = _part(query, slice(begin, begin := begin + len(slots)), start)
            if start is not None and isinstance(mask.needed(own, key), Causal):
                allow, keys = _before(slots, triangle())
            else:
                allow, keys = _seen(mask, own, key)
            found.append(Run(len(slots), keys, allow, bias(own, _part(key, keys))))
    return tuple(found)


def _part(of: Positions, slots: slice, start: int | None = None) -> Positions:
    return of.mapped(lambda t: t[:, slots], start)


def _last_lines(most: int, key: Positions, dtype: torch.dtype) -> Float[Tensor, "1 1 Q S"]:
    """The last lines of the causal triangle of at least all keys, as added to scores. Lines behind
    any number of keys are the right end of these, so one table serves all runs and layers."""
    width = -(-key.length // ALIGNED) * ALIGNED
    lines = torch.zeros(most, width, dtype=dtype, device=key.position.device)
    closed = torch.ones_like(lines, dtype=torch.bool).triu(width - most + 1)
    return lines.masked_fill(closed, -torch.inf)[None, None]


def _before(slots: range, triangle: Float[Tensor, "1 1 Q S"]) -> tuple[Allowed, slice]:
    """Causal attention of these slots: to the keys before their end."""
    keys = slice(0, slots.stop)
    if slots.start == 0:
        return Allowed(causal=True), keys  # a triangle that kernels know
    own = triangle[:, :, -len(slots) :, -slots.stop :]
    return Allowed(causal=True, added=own.clone() if own.storage_offset() % ALIGNED else own), keys


def _seen(mask: Mask, query: Positions, key: Positions) -> tuple[Allowed, slice]:
    """Attention by a mask to the keys from the first to the last that any query may attend to; to
    all if there is none."""
    begin, end = mask.reach(query, key)
    begin, end = max(0, begin), min(end, key.length)
    start = None if key.start is None else key.start + begin
    near = _part(key, slice(begin, end), start)
    needed = mask.needed(query, near)
    if needed is None:
        return Allowed(), slice(begin, end)
    table = needed.table(query, near)[:, None]
    if query.start is None or key.valid is not None or key.document is not None:
        # Who sees whom is known by the table alone.
        some = table.flatten(0, 2).any(0).nonzero().flatten().tolist()
        first, last = (some[0], some[-1] + 1) if some else (0, near.length)
        table = table[..., first:last].clone()  # a view would keep all of it
        begin, end = begin + first, begin + last
    return Allowed(dense=table).prepared(), slice(begin, end)
