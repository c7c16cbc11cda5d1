"""The linear map x Wᵀ + b of every projection, constructed with its weights unset."""

from collections.abc import Sequence
from itertools import accumulate, pairwise

import torch
from torch import nn

from glassformer.core.axes import Float, Tensor
from glassformer.layers import cpu_kernels
from glassformer.layers.linear.packed import Bits, PackedMatrix, PackedRows
from glassformer.layers.linear.quantized import dequantized, quantized, quantized_linear


class Linear(nn.Linear):
    """torch's layer with parameters unset until `init.initialize` or loaded weights fill them.

    `quantize` replaces the weight by 8-bit integers, which are not trained but let gradients pass;
    `pack` by numbers of few bits for inference.
    """

    levels: Tensor | None
    scale: Tensor | None

    def __init__(
        self,
        in_features: int,
        out_features: int,
        bias: bool = True,
        device: torch.device | str | None = None,
    ):
        super().__init__(in_features, out_features, bias, device)
        self.register_buffer("levels", None, persistent=False)
        self.register_buffer("scale", None, persistent=False)
        self.packed: PackedMatrix | PackedRows | None = None

    def reset_parameters(self) -> None:
        """No-op; `init.initialize` fills the weights."""

    @property
    def holds_weight(self) -> bool:
        """Whether the matrix is a parameter, in floating point."""
        return self.levels is None and self.packed is None

    @property
    def frozen_matrix(self) -> Tensor:
        """W, or what its bits stand for."""
        if self.packed is not None:
            return self.packed.matrix
        if self.levels is None or self.scale is None:
            return self.weight
        return dequantized(self.levels, self.scale)

    @property
    def matrix(self) -> Tensor:
        """The matrix that inputs are multiplied by: W, or with an adapter the sum of both."""
        return self.frozen_matrix

    def forward(self, input: Float[Tensor, "*rows D"]) -> Float[Tensor, "*rows F"]:
        """y."""
        if self.packed is not None:
            return self.packed.linear(input, self.bias)
        if self.levels is None or self.scale is None:
            return cpu_kernels.linear(input, self.weight, self.bias)
        return quantized_linear(input, self.levels, self.scale, self.bias)

    def quantize(self) -> None:
        """Keep the weight as integers (see `linear.quantized`) and no longer as a parameter."""
        if self.holds_weight:
            self.levels, self.scale = quantized(self.weight)
            self.register_parameter("weight", None)

    def pack(self, bits: Bits) -> None:
        """Keep the weight in a format for inference (see `linear.packed`), not as a parameter."""
        self.take(PackedMatrix(self.frozen_matrix, bits))

    def take(self, packed: PackedMatrix | PackedRows) -> None:
        """Multiply by this matrix in place of the weight."""
        self.packed = packed
        self.register_parameter("weight", None)
        self.levels = self.scale = None

    def dequantize(self) -> None:
        """Make what the integers stand for the weight, a frozen parameter."""
        if self.levels is not None:
            self.weight = nn.Parameter(self.frozen_matrix, requires_grad=False)
            self.levels = self.scale = None


def pack_together(layers: Sequence[Linear], bits: Bits) -> PackedMatrix:
    """Pack linear maps of one input as one matrix, their rows below each other."""
    whole = PackedMatrix(torch.cat([one.frozen_matrix for one in layers]), bits)
    ends = [*accumulate((one.out_features for one in layers), initial=0)]
    for layer, (begin, end) in zip(layers, pairwise(ends), strict=True):
        layer.take(PackedRows(whole, begin, end))
    return whole


def together(
    x: Float[Tensor, "*rows D"], layers: Sequence[Linear], whole: PackedMatrix
) -> tuple[Float[Tensor, "*rows _"], ...]:
    """What each of these layers, packed as `whole`, makes of x, by one product."""
    own: list[Tensor | None] = [one.bias for one in layers]
    biases = [one for one in own if one is not None]
    assert len(biases) in (0, len(layers))
    bias = torch.cat(biases) if biases else None
    return whole.linear(x, bias).split([one.out_features for one in layers], -1)
