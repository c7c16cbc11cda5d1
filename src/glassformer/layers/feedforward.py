"""The feed-forward network of a block: one hidden layer, applied to each token
separately (Notes B, D, E).

plain  φ(x W₁ + b₁) W₂ + b₂            gated  (φ(x W_g) ⊙ x W₁) W₂
"""

from collections.abc import Callable
from typing import Literal

import torch
from torch import nn
from torch.nn import functional as F

from glassformer.core.axes import Float, Tensor
from glassformer.layers import cpu_kernels
from glassformer.layers.linear.linear import Linear
from glassformer.layers.tap import tap

Activation = Literal["relu", "relu_squared", "gelu", "gelu_tanh", "silu", "tanh", "identity"]


def relu_squared(x: Float[Tensor, "*rows F"]) -> Float[Tensor, "*rows F"]:
    """max(0, x)². Source: So et al. 2021 (Primer)."""
    return cpu_kernels.relu_squared(x) if cpu_kernels.on_cpu(x) else F.relu(x).square()


def gelu_tanh(x: Float[Tensor, "*rows F"]) -> Float[Tensor, "*rows F"]:
    """GELU by its tanh approximation, as GPT-2 computes it (Hendrycks & Gimpel 2016)."""
    return F.gelu(x, approximate="tanh")


def activation_function(kind: Activation) -> Callable[[Tensor], Tensor]:
    """The function φ of that name; `gelu` is the exact x Φ(x)."""
    match kind:
        case "relu":
            return F.relu
        case "relu_squared":
            return relu_squared
        case "gelu":
            return F.gelu
        case "gelu_tanh":
            return gelu_tanh
        case "silu":
            return F.silu
        case "tanh":
            return torch.tanh
        case "identity":
            return lambda x: x


class FeedForward(nn.Module):
    """Maps D to F, applies φ (times a gate if `gated`), and maps back to D."""

    def __init__(self, d_model: int, d_ff: int, *, activation: Activation, gated: bool, bias: bool):
        super().__init__()
        self.up_proj = Linear(d_model, d_ff, bias=bias)
        self.gate_proj = Linear(d_model, d_ff, bias=bias) if gated else None
        self.down_proj = Linear(d_ff, d_model, bias=bias)
        self.activation = activation_function(activation)

    def forward(self, x: Float[Tensor, "B T D"]) -> Float[Tensor, "B T D"]:
        """FFN(x)."""
        hidden = tap(self, "pre", self.up_proj(x), "batch position hidden")
        if self.gate_proj is None:
            hidden = self.activation(hidden)
        else:
            hidden = hidden * self.activation(
                tap(self, "gate", self.gate_proj(x), "batch position hidden")
            )
        return self.down_proj(tap(self, "post", hidden, "batch position hidden"))
