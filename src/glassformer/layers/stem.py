"""Convolutions before W_emb: from pixels to patches in several small steps.

    patches [B, T, p·q·C] = pixels [B, C, rows·p, columns·q]
        ── 3 x 3 convolutions, GELU after each ──> 3 x 3 outputs
    x_i = the 3 x 3 outputs around patch i, flattened, times W_emb

The last convolutions, the last of all W_emb, have stride 2 until a patch is one position. From
random weights and few images this learns faster than one linear map (Xiao et al. 2021, Early
Convolutions Help Transformers See Better).
"""

from itertools import pairwise

import torch
from torch import nn
from torch.nn import functional as F

from glassformer.core.axes import Float, Tensor
from glassformer.core.errors import ConfigError
from glassformer.layers.linear.linear import Linear

REACH = 3
"""Rows and columns of each kernel."""


def halvings(patch: tuple[int, int]) -> list[tuple[int, int]]:
    """Strides (down, right) that reduce a patch of 2^a x 2^b to one position, the last first.

    ConfigError: a side that is not a power of two.
    """
    for side in patch:
        if side.bit_count() != 1:
            raise ConfigError(
                f"Convolutions (model.stem) halve a patch, whose side is no power of two but "
                f"{side}; use 2, 4, 8, ..."
            )
    steps = []
    while patch != (1, 1):
        steps.append((min(2, patch[0]), min(2, patch[1])))
        patch = (max(1, patch[0] // 2), max(1, patch[1] // 2))
    return steps


class Convolution(Linear):
    """A 3 x 3 convolution with weight [out, C·3·3], a linear map of flattened neighbourhoods."""

    def __init__(self, width: int, out: int, step: tuple[int, int], *, bias: bool):
        super().__init__(width * REACH * REACH, out, bias=bias)
        self.step = step

    def forward(
        self, input: Float[Tensor, "B C height width"]
    ) -> Float[Tensor, "B D rows columns"]:
        """Convolve with zero padding: the same size, or smaller by the stride `step`."""
        weight = self.weight.unflatten(1, (-1, REACH, REACH))
        return F.conv2d(input, weight, self.bias, self.step, padding=REACH // 2)


class Stem(nn.Module):
    """All convolutions but the last, for images of `grid` patches of `patch` (rows, columns).

    `width` and `last_step` are those of the input and of the stride of the last, W_emb.
    """

    def __init__(
        self,
        grid: tuple[int, int],
        patch: tuple[int, int],
        channels: int,
        widths: tuple[int, ...],
        *,
        bias: bool,
    ):
        super().__init__()
        self.grid, self.patch = grid, patch
        self.width, sizes = widths[-1], [channels, *widths]
        *steps, self.last_step = steps_of(patch, widths)
        self.convolutions = nn.ModuleList(
            Convolution(a, b, step, bias=bias)
            for (a, b), step in zip(pairwise(sizes), steps, strict=True)
        )

    def forward(self, patches: Float[Tensor, "B T P"]) -> Float[Tensor, "B C rows columns"]:
        """Input of W_emb; ConfigError: patches that are not the whole grid."""
        (rows, columns), (p, q) = self.grid, self.patch
        if patches.shape[1] != rows * columns:
            raise ConfigError(
                f"Convolutions (model.stem) need all {rows * columns} patches of an image, "
                f"not {patches.shape[1]}."
            )
        laid = patches.unflatten(2, (p, q, -1)).unflatten(1, (rows, columns))
        x = laid.permute(0, 5, 1, 3, 2, 4).flatten(4, 5).flatten(2, 3)
        x = x.contiguous(memory_format=torch.channels_last)
        for convolution in self.convolutions:
            x = F.gelu(convolution(x))
        return x


def steps_of(patch: tuple[int, int], widths: tuple[int, ...]) -> list[tuple[int, int]]:
    """Stride of each convolution, W_emb's last; ConfigError: too few to reduce a patch to one
    position."""
    steps = halvings(patch)
    more = len(widths) + 1 - len(steps)
    if more < 0 or not steps:
        raise ConfigError(
            f"model.stem has {len(widths)} widths, and patches of {patch[0]} x {patch[1]} need at "
            f"least {max(1, len(steps) - 1)}; give as many."
        )
    return [(1, 1)] * more + steps[::-1]
