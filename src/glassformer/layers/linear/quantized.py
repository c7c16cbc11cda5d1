"""A frozen matrix in 8-bit integers, a quarter of its memory, or in 4-bit ones, a sixth.

    8 bits   W ≈ s Q             Q in -127..127, s = max |row of W| / 127, one for each row
    4 bits   W ≈ s (Q - 8) + z   Q in 0..15, s and z for each group of 32 numbers in a row

Training passes through 8 bits: y = x Wᵀ is computed from Q at the moment, and so is the gradient of
x; a float matrix exists only meanwhile. Source: Dettmers et al. 2022 (LLM.int8), 2023 (QLoRA).
"""

from typing import Any

import torch
from torch.nn import functional as F

from glassformer.core.axes import Float, Int, Tensor

LARGEST = 127
GROUP = 32
"""Numbers of a row that share s and z in 4 bits."""


def quantized(weight: Float[Tensor, "F D"]) -> tuple[Int[Tensor, "F D"], Float[Tensor, "F 1"]]:
    """Q and s of a matrix; a row of zeros has s = 1. The error is at most s/2 in each number."""
    peak = weight.detach().abs().amax(1, keepdim=True)
    scale = torch.where(peak > 0, peak / LARGEST, torch.ones_like(peak))
    return (weight.detach() / scale).round_().to(torch.int8), scale


def dequantized(levels: Int[Tensor, "F D"], scale: Float[Tensor, "F 1"]) -> Float[Tensor, "F D"]:
    """s Q."""
    return levels * scale


def grouped(
    weight: Float[Tensor, "F D"],
) -> tuple[Int[Tensor, "F D"], Float[Tensor, "F G"], Float[Tensor, "F G"]]:
    """Q, s and z in 4 bits, D a multiple of `GROUP`; s = (max - min) / 15 of the group and
    z = min + 8 s, both as bfloat16, which Q is rounded for."""
    groups = weight.detach().float().unflatten(1, (-1, GROUP))
    least, most = groups.aminmax(dim=2)
    step = (most - least) / 15
    scale = step.where(step > 0, 1.0).bfloat16().float()
    zero = (least + 8 * step).bfloat16().float()
    levels = ((groups - zero[..., None]) / scale[..., None] + 8).round_().clamp_(0, 15)
    return levels.to(torch.int8).flatten(1), scale, zero


def ungrouped(
    levels: Int[Tensor, "F D"], scale: Float[Tensor, "F G"], zero: Float[Tensor, "F G"]
) -> Float[Tensor, "F D"]:
    """s (Q - 8) + z."""
    groups = levels.unflatten(1, (-1, GROUP)) - 8.0
    return (groups * scale[..., None] + zero[..., None]).flatten(1)


def quantized_linear(
    x: Float[Tensor, "*rows D"],
    levels: Int[Tensor, "F D"],
    scale: Float[Tensor, "F 1"],
    bias: Float[Tensor, "F"] | None,
) -> Float[Tensor, "*rows F"]:
    """y = x (s Q)ᵀ + b, with a gradient for x alone; it keeps Q for the backward pass, not W."""
    return _QuantizedLinear.apply(x, levels, scale, bias)


class _QuantizedLinear(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, levels: Tensor, scale: Tensor, bias: Tensor | None) -> Tensor:
        ctx.save_for_backward(levels, scale)
        ctx.dtype = x.dtype
        return F.linear(x, dequantized(levels, scale), bias)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, None, None, None]:
        levels, scale = ctx.saved_tensors
        weight = dequantized(levels, scale).to(gradients[0].dtype)
        return (gradients[0] @ weight).to(ctx.dtype), None, None, None
