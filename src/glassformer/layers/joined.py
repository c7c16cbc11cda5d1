"""Sequences one behind the other in one row, without padding and without a cache.

    elements   a a a b b b c c c c c      a and b are of one length, so one batch of the kernel

Every product that acts on single elements reads the whole row. Attention reads neighbours of one
length together, each sequence alone: no table of a mask, no key that is masked.
"""

from dataclasses import dataclass
from itertools import groupby

import numpy as np
import torch

from glassformer.axes import Float, Int, Tensor
from glassformer.layers.attention import AttentionContext

Run = tuple[int, int]
"""Number and length of neighbours of one length."""


def runs(lengths: Int[np.ndarray, "N"]) -> list[Run]:
    """Neighbours of one length."""
    return [(len(list(own)), length) for length, own in groupby(lengths.tolist())]


@dataclass(frozen=True)
class JoinedContext(AttentionContext):
    """The runs of a row, with the context of a sequence of each.

    All elements have queries; after attention the `selected` ones go on.
    """

    runs: tuple[tuple[Run, AttentionContext], ...] = ()

    def asking(self, x: Float[Tensor, "1 T D"]) -> Float[Tensor, "1 T D"]:
        """All."""
        return x

    def attend(
        self,
        q: Float[Tensor, "1 H T K"],
        k: Float[Tensor, "1 G T K"],
        v: Float[Tensor, "1 G T K"],
        scale: float,
        dropout: float,
    ) -> Float[Tensor, "1 H _ K"]:
        """The same for each sequence."""
        sizes = [number * length for (number, length), _ in self.runs]
        parts = zip(*(x[0].split(sizes, 1) for x in (q, k, v)), strict=True)
        found: list[Tensor] = []
        for (shape, own), row in zip(self.runs, parts, strict=True):
            a, b, c = (x.unflatten(1, shape).transpose(0, 1) for x in row)
            found.append(own.attend(a, b, c, scale, dropout).transpose(1, 2).flatten(0, 1))
        z = torch.cat(found)
        z = z if self.selected is None else z.index_select(0, self.selected.at)
        return z[None].transpose(1, 2)
