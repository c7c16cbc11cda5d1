"""Positions, in one of three places of the model.

    added to the embedding   none, learned table, sinusoidal (paired, in halves, or as Note C
                             prints it; of row and column)
    added to the scores      relative table B = f(i - j) (Note C), T5's buckets, ALiBi
    rotation of q and k      rotary (of the position; of row and column)

Every function takes positions as numbers, never the index of a slot.
"""

import math
from collections.abc import Callable
from functools import partial
from typing import Literal

import torch
from torch import nn

from glassformer.core.axes import Float, Int, Tensor
from glassformer.core.batch import Positions
from glassformer.core.devices import exact, exact_device, widest
from glassformer.core.errors import ConfigError
from glassformer.layers.cpu_kernels import on_cpu

PositionKind = Literal[
    "none",
    "learned",
    "sinusoidal",
    "sinusoidal_printed",
    "sinusoidal_halves",
    "sinusoidal_2d",
    "relative",
    "buckets",
    "alibi",
    "rotary",
    "rotary_2d",
]


ADDED: tuple[PositionKind, ...] = (
    "learned",
    "sinusoidal",
    "sinusoidal_printed",
    "sinusoidal_halves",
    "sinusoidal_2d",
)
"""Kinds that have a vector, added to the element's or concatenated with it."""


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


def relative_bucket(
    distance: Int[Tensor, "*shape"], n_buckets: int, max_distance: int, *, both_ways: bool
) -> Int[Tensor, "*shape"]:
    """T5's bucket of a distance j - i: exact for near keys, logarithmic up to `max_distance`, one
    bucket beyond.

    `both_ways`: half of the buckets are for keys after the query; otherwise those share bucket 0.
    Source: Raffel et al. 2020, section 2.1.
    """
    offset = torch.zeros_like(distance)
    if both_ways:
        n_buckets //= 2
        offset = (distance > 0).long() * n_buckets
        distance = distance.abs()
    else:
        distance = (-distance).clamp(min=0)
    exact = n_buckets // 2
    ratio = (distance.clamp(min=1).float() / exact).log() / math.log(max_distance / exact)
    far = (exact + (ratio * (n_buckets - exact)).long()).clamp(max=n_buckets - 1)
    return offset + torch.where(distance < exact, distance, far)


class RelativeBias(nn.Module):
    """Note C's B = f(i - j): a learned scalar for each head and distance, clipped to
    ±`max_distance`."""

    def __init__(self, n_heads: int, max_distance: int):
        super().__init__()
        self.weight = nn.Parameter(torch.empty(2 * max_distance + 1, n_heads))
        self.max_distance = max_distance

    def forward(self, query: Positions, key: Positions) -> Float[Tensor, "B H T S"]:
        """B at [b, h, i, j] for position(query i) - position(key j)."""
        distance = query.position[:, :, None] - key.position[:, None, :]
        index = distance.clamp(-self.max_distance, self.max_distance) + self.max_distance
        return self.weight[index].permute(0, 3, 1, 2)


class BucketBias(nn.Module):
    """T5's relative bias: a learned scalar for each head and `relative_bucket`."""

    def __init__(self, n_heads: int, n_buckets: int, max_distance: int, *, both_ways: bool):
        super().__init__()
        self.weight = nn.Parameter(torch.empty(n_buckets, n_heads))
        self.n_buckets, self.max_distance, self.both_ways = n_buckets, max_distance, both_ways

    def forward(self, query: Positions, key: Positions) -> Float[Tensor, "B H T S"]:
        """The bias at [b, h, i, j] for the bucket of position(key j) - position(query i)."""
        distance = key.position[:, None, :] - query.position[:, :, None]
        bucket = relative_bucket(
            distance, self.n_buckets, self.max_distance, both_ways=self.both_ways
        )
        return self.weight[bucket].permute(0, 3, 1, 2)


def alibi_slopes(n_heads: int, dtype: torch.dtype = torch.float32) -> Float[Tensor, "H"]:
    """Slopes of the heads: 2^(-8h/H), h = 1..H; if H is not a power of two, the rest are every
    other slope of the next power.

    Source: Press et al. 2022, section 3.
    """
    power = 2 ** math.floor(math.log2(n_heads))
    slopes = [2 ** (-8 * h / power) for h in range(1, power + 1)]
    slopes += [2 ** (-8 * h / (2 * power)) for h in range(1, 2 * power + 1, 2)][: n_heads - power]
    return torch.tensor(slopes, dtype=dtype)


class AlibiBias(nn.Module):
    """A penalty linear in distance, -slope_h |i - j|, without parameters (Press et al. 2022)."""

    def __init__(self, n_heads: int):
        super().__init__()
        self.n_heads = n_heads

    def forward(self, query: Positions, key: Positions) -> Float[Tensor, "B H T S"]:
        """The bias at [b, h, i, j]."""
        distance = (query.position[:, :, None] - key.position[:, None, :]).abs()
        return -alibi_slopes(self.n_heads).to(distance.device)[:, None, None] * distance[:, None]


Rotation = tuple[Float[Tensor, "_ 1 _ K"], Float[Tensor, "_ 1 _ K"]]
"""Cosines and signed sines of the angles of each position."""


def rotation(
    positions: Positions,
    d_head: int,
    base: float,
    dtype: torch.dtype = torch.float32,
    factor: float = 1.0,
    wavelengths: tuple[float, float] | None = None,
) -> Rotation:
    """Rotary angles position · base^(-2k/K) as (cos, sin), dimension k paired with k + K/2.

    A `factor` divides the angles (position interpolation, Chen et al. 2023); with `wavelengths`, it
    divides in full only those of a wavelength above the second, not those below the first, and
    between them a share that is linear in the frequency (Llama 3). The sine is negated in the first
    half, so that `rotate` is one multiply-add. Source: Su et al. 2021.
    """
    angles = _angles(positions.position, d_head, base)
    if factor != 1.0:
        angles = angles * slowing(d_head, base, factor, wavelengths, angles.device)
    return _turns(angles, dtype, positions.position.device)


def slowing(
    d_head: int,
    base: float,
    factor: float,
    wavelengths: tuple[float, float] | None,
    device: torch.device,
) -> Float[Tensor, "*half"]:
    """What `rotation` multiplies the frequencies by, each of the d_head / 2 or all of them: 1 /
    factor to 1."""
    frequency = _frequencies(d_head, base, device) / math.tau
    share = torch.ones((), dtype=frequency.dtype, device=device)
    if wavelengths is not None:
        short, long = (1 / length for length in wavelengths)
        share = ((short - frequency) / (short - long)).clamp(0, 1)
    return share / factor + 1 - share


def grid_rotation(
    positions: Positions,
    d_head: int,
    base: float,
    columns: int,
    first: int,
    dtype: torch.dtype = torch.float32,
) -> Rotation:
    """`rotation` of patches in a grid, read row by row: half of the pairs by row, half by column.

    Rows and columns count from 1; a learned token, before position `first`, is not rotated. Source:
    Heo et al. 2024, Rotary Position Embedding for Vision Transformer (axial, base 100).
    """
    patch = positions.position - first
    row, column = patch.div(columns, rounding_mode="floor"), patch % columns
    halves = [
        _angles((of + 1).masked_fill(patch < 0, 0), d_head // 2, base) for of in (row, column)
    ]
    return _turns(torch.cat(halves, -1), dtype, patch.device)


def _angles(number: Int[Tensor, "B T"], width: int, base: float) -> Float[Tensor, "B 1 T _"]:
    frequencies = _frequencies(width, base, exact_device(number.device))
    return exact(number[:, None, :, None]) * frequencies


def _frequencies(width: int, base: float, device: torch.device) -> Float[Tensor, "_"]:
    k = torch.arange(0, width, 2, dtype=torch.float64, device=device)
    return base ** (-k / width)


def _turns(angle: Float[Tensor, "B 1 T _"], dtype: torch.dtype, device: torch.device) -> Rotation:
    dtype = widest(device, dtype)
    cos, sin = (x.to(dtype).to(device) for x in (angle.cos(), angle.sin()))
    return torch.cat([cos, cos], -1), torch.cat([-sin, sin], -1)


def rotate(x: Float[Tensor, "B H T K"], rotation: Rotation) -> Float[Tensor, "B H T K"]:
    """Rotate each pair (x_k, x_{k+K/2}) by its angle, so that q · k depends only on the difference
    of positions."""
    cos, sin = rotation
    return torch.addcmul(x * cos.to(x.dtype), x.roll(x.shape[-1] // 2, -1), sin.to(x.dtype))


PositionVectors = LearnedPosition | SinusoidalPosition | GridPosition
ScoreBias = RelativeBias | BucketBias | AlibiBias


def build_position(
    kind: PositionKind,
    max_length: int,
    d_model: int,
    first: int,
    columns: int = 1,
    n_prefix: int = 0,
) -> PositionVectors | None:
    """Position vectors for the embedding; None for kinds that act elsewhere.

    `n_prefix`: positions before the `max_length` elements (a class token, registers); `columns`: of
    a grid of patches.
    """
    match kind:
        case "learned":
            return LearnedPosition(max_length + n_prefix, d_model)
        case "sinusoidal_2d":
            return GridPosition(d_model, columns, first=n_prefix)
        case "sinusoidal" | "sinusoidal_printed" | "sinusoidal_halves":
            printed, halves = kind == "sinusoidal_printed", kind == "sinusoidal_halves"
            return SinusoidalPosition(d_model, printed=printed, halves=halves, first=first)
        case _:
            return None


def build_rotation(
    kind: PositionKind,
    d_head: int,
    base: float,
    factor: float,
    wavelengths: tuple[float, float] | None,
    columns: int,
    n_prefix: int,
) -> Callable[..., Rotation] | None:
    """Rotary angles as a function of (positions, dtype); None for kinds that act elsewhere."""
    match kind:
        case "rotary":
            return partial(
                rotation, d_head=d_head, base=base, factor=factor, wavelengths=wavelengths
            )
        case "rotary_2d":
            return partial(grid_rotation, d_head=d_head, base=base, columns=columns, first=n_prefix)
        case _:
            return None


def build_bias(
    kind: PositionKind, n_heads: int, n_buckets: int, max_distance: int, *, both_ways: bool
) -> ScoreBias | None:
    """Score bias; None for kinds that act elsewhere."""
    match kind:
        case "relative":
            return RelativeBias(n_heads, max_distance)
        case "buckets":
            return BucketBias(n_heads, n_buckets, max_distance, both_ways=both_ways)
        case "alibi":
            return AlibiBias(n_heads)
        case _:
            return None
