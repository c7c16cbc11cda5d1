"""Which elements of the stream the head answers at, so that the last block asks its questions for
those alone.

    stream [B, T, D]  ──picked──>  [B, K, D]  ── the rest of the last block ──>  [B, K, D]  ──flat──>  [N, D]

K is the most elements that are asked for in a row; a row with fewer is filled up with its first
element, whose answer nobody reads. Keys and values are still those of all elements, so the answers
are the same.
"""

from dataclasses import dataclass
from typing import Self

import torch

from glassformer.axes import Float, Int, Tensor
from glassformer.batch import Positions


@dataclass(frozen=True)
class Asked:
    """N elements of a stream of B rows: element n stands in `slot[n]` of B · K slots, filled with
    the elements `at`."""

    rows: int
    at: Int[Tensor, "S"]
    """Indices into B · T, S = B · K."""
    slot: Int[Tensor, "N"]
    """Indices into S."""

    @classmethod
    def of(cls, at: Int[Tensor, "N"], rows: int, length: int) -> Self:
        """The elements `at`, indices into `rows` · `length` in any order."""
        row = at.div(length, rounding_mode="floor")
        counts = row.bincount(minlength=rows)
        most = int(counts.max())
        order = row.argsort(stable=True)
        before = counts.cumsum(0) - counts  # elements asked for in the rows above
        slot = torch.empty_like(at)
        slot[order] = torch.arange(len(at), device=at.device) - before[row[order]]
        slot += row * most
        taken = (torch.arange(rows, device=at.device) * length).repeat_interleave(most)
        taken[slot] = at
        return cls(rows, taken, slot)

    def picked(self, x: Float[Tensor, "B T D"]) -> Float[Tensor, "B K D"]:
        """The elements asked for, row by row."""
        return x.flatten(0, 1).index_select(0, self.at).view(self.rows, -1, x.shape[2])

    def flat(self, x: Float[Tensor, "B K D"]) -> Float[Tensor, "N D"]:
        """The answers, in the order in which they were asked for."""
        return x.flatten(0, 1).index_select(0, self.slot)

    def positions(self, positions: Positions) -> Positions:
        """Where the picked elements stand."""
        take = lambda t: t.expand(self.rows, -1).flatten()[self.at].view(self.rows, -1)  # noqa: E731
        optional = lambda t: None if t is None else take(t)  # noqa: E731
        return Positions(
            take(positions.position), optional(positions.document), optional(positions.valid)
        )
