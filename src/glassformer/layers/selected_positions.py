"""Positions of the stream that the head reads: the last block computes queries for these only.

    stream [B, T, D] ──gather──> [B, K, D] ── rest of the last block ──> [B, K, D] ──flat──> [N, D]

K is the largest number of selected positions in a row. Shorter rows are padded with their first
position, whose output is ignored. Keys and values are computed for all positions, so the results
are the same.
"""

from dataclasses import dataclass
from typing import Self

import torch

from glassformer.axes import Float, Int, Tensor
from glassformer.batch import Positions


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
        take = lambda t: t.expand(self.rows, -1).flatten()[self.at].view(self.rows, -1)
        optional = lambda t: None if t is None else take(t)
        return Positions(
            take(positions.position), optional(positions.document), optional(positions.valid)
        )
