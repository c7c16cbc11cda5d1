"""Attention of long rows whose mask hides keys, at most `AT_ONCE` queries at a time, each time to
the keys from the first to the last that any of them may attend to.

Scores of other keys are not computed: under a window, they grow with the length of a row, not with
its square.
"""

from collections.abc import Callable
from dataclasses import dataclass

import torch

from glassformer.axes import Float, Tensor
from glassformer.batch import Positions
from glassformer.layers.attention import AttentionContext
from glassformer.layers.mask import Allowed, Causal, Mask, Valid

AT_ONCE = 512
"""Queries that attend by one call of a kernel."""
Bias = Callable[[Positions, Positions], Tensor | None]
"""Of scores, for queries and keys at some positions."""


@dataclass(frozen=True)
class Run:
    """Number of queries, the keys that they read, and what is added to their scores."""

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
        """Attend run by run."""
        parts, found = q.split([run.queries for run in self.runs], 2), list[Tensor]()
        for run, own in zip(self.runs, parts, strict=True):
            read = k[:, :, run.keys], v[:, :, run.keys]
            found.append(AttentionContext(run.allow, run.bias).attend(own, *read, scale, dropout))
        return torch.cat(found, 2)


def is_long(mask: Mask, positions: Positions) -> bool:
    """Return whether kernels do not know the mask of long rows, and it may hide the same keys from
    many neighbouring queries."""
    if torch.compiler.is_compiling() or positions.length <= AT_ONCE:
        return False
    return not isinstance(mask.needed(positions, positions), Causal | Valid | None)


def runs_of(mask: Mask, bias: Bias, positions: Positions) -> tuple[Run, ...]:
    """Return the runs of rows at these positions."""
    found = list[Run]()
    for first in range(0, positions.length, AT_ONCE):
        start = None if positions.start is None else positions.start + first
        own = _part(positions, slice(first, first + AT_ONCE), start)
        allow, keys = _seen(mask, own, positions)
        found.append(Run(own.length, keys, allow, bias(own, _part(positions, keys))))
    return tuple(found)


def _part(of: Positions, slots: slice, start: int | None = None) -> Positions:
    return of.mapped(lambda t: t[:, slots], start)


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
    if isinstance(needed, Causal) and query.start is not None and query.start == start:
        return Allowed(causal=True), slice(begin, end)  # a triangle that kernels know
    table = needed.table(query, near)[:, None]
    if query.start is None or key.valid is not None or key.document is not None:
        # Who sees whom is known by the table alone.
        some = table.flatten(0, 2).any(0).nonzero().flatten().tolist()
        first, last = (some[0], some[-1] + 1) if some else (0, near.length)
        table = table[..., first:last].clone()  # a view would keep all of it
        begin, end = begin + first, begin + last
    return Allowed(dense=table).prepared(), slice(begin, end)
