"""Normalization of each token vector: LayerNorm and RMSNorm (Notes B and C; Zhang & Sennrich
2019)."""

from typing import Literal

import torch
from torch import nn
from torch.nn import functional as F

from glassformer.core.axes import Float, Tensor
from glassformer.layers import cpu_kernels

NormKind = Literal["layer", "rms"]


def layer_norm(
    x: Float[Tensor, "*rows D"],
    weight: Float[Tensor, "D"],
    bias: Float[Tensor, "D"] | None,
    epsilon: float,
) -> Float[Tensor, "*rows D"]:
    """Centre and scale each vector: γ (x - μ) / √(σ² + ε) + β, σ² the population variance.

    With ε = 0 it is the notes' formula γ (x - μ) / σ + β, undefined (NaN) for a constant vector.
    Source: Note B, layer norm; Note C; Ba et al. 2016.
    """
    return F.layer_norm(x, weight.shape, weight, bias, epsilon)


def rms_norm(
    x: Float[Tensor, "*rows D"], weight: Float[Tensor, "D"], epsilon: float
) -> Float[Tensor, "*rows D"]:
    """Scale each vector by its root mean square: γ x / √(mean(x²) + ε). Source: Zhang & Sennrich
    2019."""
    if cpu_kernels.on_cpu(x) and x.dtype == weight.dtype:
        return cpu_kernels.rms_norm(x, weight, epsilon)
    return F.rms_norm(x, x.shape[-1:], weight.to(x.dtype), epsilon)


class LayerNorm(nn.Module):
    """`layer_norm` with a learned `weight` γ (ones) and optional `bias` β (zeros)."""

    def __init__(self, d_model: int, *, bias: bool = True, epsilon: float = 1e-5):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(d_model))
        self.bias = nn.Parameter(torch.zeros(d_model)) if bias else None
        self.epsilon = epsilon

    def forward(self, x: Float[Tensor, "*rows D"]) -> Float[Tensor, "*rows D"]:
        """Normalize the last axis; any leading axes."""
        return layer_norm(x, self.weight, self.bias, self.epsilon)


class RMSNorm(nn.Module):
    """`rms_norm` with a learned `weight` γ (ones)."""

    def __init__(self, d_model: int, *, epsilon: float = 1e-6):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(d_model))
        self.epsilon = epsilon

    def forward(self, x: Float[Tensor, "*rows D"]) -> Float[Tensor, "*rows D"]:
        """Normalize the last axis; any leading axes."""
        return rms_norm(x, self.weight, self.epsilon)


Norm = LayerNorm | RMSNorm


def build_norm(kind: NormKind, d_model: int, *, bias: bool, epsilon: float) -> Norm:
    """The norm of the given kind; RMSNorm has no bias."""
    match kind:
        case "layer":
            return LayerNorm(d_model, bias=bias, epsilon=epsilon)
        case "rms":
            return RMSNorm(d_model, epsilon=epsilon)
