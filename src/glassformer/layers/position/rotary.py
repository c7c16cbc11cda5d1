"""Rotation of queries and keys by their positions."""

import math

import torch

from glassformer.core.axes import Float, Int, Tensor
from glassformer.core.batch import Positions
from glassformer.core.devices import exact, exact_device, widest

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
    """Return the factors of the frequencies of `rotation`, of each of the d_head / 2 or of all: 1 /
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
