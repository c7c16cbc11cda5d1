"""The numbers of a matrix in the order that `product.h` reads: a unit of rows after the other."""

import torch

from glassformer.core.axes import Float, Tensor
from glassformer.layers.linear.quantized import GROUP, grouped, quantized

WHOLE, UNIT = 64, 32
"""Columns and rows of a matrix are filled with zeros up to multiples."""


def in_units(weight: Float[Tensor, "F D"], bits: str) -> tuple[Tensor, Tensor | None]:
    """Return the numbers of a matrix in a format, and of 8 bits the scales of its rows."""
    if bits == "int8":
        levels, scale = quantized(weight)
        return _units(levels.view(torch.uint8) ^ 128, 4), scale
    if bits == "int4":
        levels, scale, zero = grouped(weight)
        low, high = levels.to(torch.uint8).unflatten(1, (-1, 2, GROUP // 2)).unbind(2)
        pairs = torch.stack([zero - 8 * scale, scale], 2).bfloat16().flatten(1)
        both = (low | (high << 4)).flatten(1), pairs.view(torch.uint8)
        groups = scale.shape[1]
        return torch.cat([_units(one, 4).unflatten(1, (groups, -1)) for one in both], 2), None
    if bits == "bf16":
        return _units(weight.bfloat16(), 2), None
    return _units(weight.half() if bits == "fp16" else weight, 1), None


def _units(numbers: Tensor, together: int) -> Tensor:
    """Units of rows: for some columns at a time, what all rows of the unit have there."""
    return numbers.unflatten(1, (-1, together)).unflatten(0, (-1, UNIT)).transpose(1, 2)
