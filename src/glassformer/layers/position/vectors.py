"""Position vectors, added to the vector of an element or concatenated with it."""

import torch
from torch import nn

from glassformer.core.axes import Float, Int, Tensor
from glassformer.core.batch import Positions
from glassformer.core.devices import exact, exact_device, widest
from glassformer.core.errors import ConfigError
from glassformer.layers.cpu_kernels import on_cpu


def sinusoidal(
    position: Int[Tensor, "*rows"],
    d_model: int,
    *,
    printed: bool = False,
    halves: bool = False,
    dtype: torch.dtype = torch.float32,
) -> Float[Tensor, "*rows D"]:
    """Sinusoidal position vectors: p(i, 2k) = sin(i / 10000^(2k/D)), p(i, 2k+1) = cos of the same
    angle.

    `printed`: Note C's formula taken literally, with exponent 2j/D at every dimension j; the dot
    product of two positions is then not a function of their distance. `halves`: all sines, then all
    cosines, as tensor2tensor and Marian have them. Computed in float64, and given in float32 on a
    device without it. Source: Notes A and E; Vaswani et al. 2017.
    """
    here = position.device
    j = torch.arange(d_model, dtype=torch.float64, device=exact_device(here))
    exponent = 2 * j / d_model if printed else 2 * torch.div(j, 2, rounding_mode="floor") / d_model
    angle = exact(position[..., None]) * 10000.0**-exponent
    vectors = torch.where(j.long() % 2 == 0, angle.sin(), angle.cos())
    if halves:
        vectors = torch.cat([vectors[..., ::2], vectors[..., 1::2]], -1)
    return vectors.to(widest(here, dtype)).to(here)


def naive_index(x: Float[Tensor, "B T D"], beta: float) -> Float[Tensor, "B T D"]:
    """Note C's first attempt, x_t + β t with t = 1, 2, ...; used in teaching only."""
    return x + beta * torch.arange(1, x.shape[1] + 1, dtype=x.dtype, device=x.device)[:, None]


def binary_code(position: Int[Tensor, "T"], width: int) -> Float[Tensor, "T K"]:
    """Note C's second attempt, the binary digits of the position, lowest first; used in teaching
    only."""
    return (position[:, None] >> torch.arange(width, device=position.device)).bitwise_and(1).float()


class LearnedPosition(nn.Module):
    """A table of `max_length` learned position vectors (Notes A, B, D)."""

    def __init__(self, max_length: int, d_model: int):
        super().__init__()
        self.weight = nn.Parameter(torch.empty(max_length, d_model))

    def forward(self, positions: Positions) -> Float[Tensor, "B T D"]:
        """Rows of the table; ConfigError: a position outside it."""
        rows, start = len(self.weight), positions.start
        last = -1 if start is None else start + positions.length - 1
        if start is None and on_cpu(positions.position):
            last = int(positions.position.max())
        if last >= rows:
            raise ConfigError(
                f"Position {last} is outside the table of {rows} learned positions; shorten the "
                f"input or use a model with a larger max_length."
            )
        if start is None:
            return self.weight[positions.position]
        return self.weight[start : last + 1][None]


class SinusoidalPosition(nn.Module):
    """`sinusoidal` vectors of any position, without parameters; the first position has number
    `first`, 0 or 1."""

    def __init__(
        self, d_model: int, *, printed: bool = False, halves: bool = False, first: int = 0
    ):
        super().__init__()
        self.d_model, self.first = d_model, first
        self.printed, self.halves = printed, halves

    def forward(self, positions: Positions) -> Float[Tensor, "B T D"]:
        """One vector for each position, in float64 if the device has it; the embedding converts it
        to its precision."""
        return sinusoidal(
            positions.position + self.first,
            self.d_model,
            printed=self.printed,
            halves=self.halves,
            dtype=torch.float64,
        )


class GridPosition(nn.Module):
    """`sinusoidal` vectors of patches in a grid, read row by row: the row in one half, the column
    in the other.

    The first patch has position `first`; a learned token before it has the zero vector. The number
    of rows is free. Source: Note D (an image as a sequence); Dosovitskiy et al. 2021, appendix D.4.
    """

    def __init__(self, d_model: int, columns: int, *, first: int):
        super().__init__()
        self.d_model, self.columns, self.first = d_model, columns, first

    def forward(self, positions: Positions) -> Float[Tensor, "B T D"]:
        """One vector for each position, in float64 if the device has it; the embedding converts it
        to its precision."""
        patch = positions.position - self.first
        row, column = patch.div(self.columns, rounding_mode="floor"), patch % self.columns
        halves = [sinusoidal(of, self.d_model // 2, dtype=torch.float64) for of in (row, column)]
        return torch.cat(halves, -1).masked_fill((patch < 0)[..., None], 0.0)


PositionVectors = LearnedPosition | SinusoidalPosition | GridPosition
