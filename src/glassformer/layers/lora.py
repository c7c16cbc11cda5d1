"""Low-rank adapters: a frozen linear map plus a trained product of two narrow matrices.

    y = x Wᵀ + b + (α/r) · drop(x) Aᵀ Bᵀ        A is r x in, B out x r, r small

B is 0 at first, so an adapter changes nothing until it is trained. Source: Hu et al. 2021, LoRA.
"""

from collections.abc import Iterator

import torch
from torch import nn
from torch.nn import functional as F

from glassformer.core.axes import Float, Tensor
from glassformer.layers.dropout import Dropout
from glassformer.layers.heads import LanguageModelHead
from glassformer.layers.linear.linear import Linear

FACTORS = ("lora_a", "lora_b")
"""Names of an adapter's parameters."""


class LoRALinear(Linear):
    """A `Linear` with an adapter; it shares the weight and bias of `base`, by the same names.

    A and B are unset until they are initialized or loaded.
    """

    def __init__(self, base: Linear, rank: int, alpha: float, dropout: float = 0.0):
        super().__init__(base.in_features, base.out_features, bias=False, device="meta")
        self.weight, self.bias = base.weight, base.bias
        self.lora_a = nn.Parameter(base.weight.new_empty(rank, base.in_features))
        self.lora_b = nn.Parameter(base.weight.new_empty(base.out_features, rank))
        self.rank, self.alpha, self.dropout = rank, alpha, Dropout(dropout)
        self.train(base.training)

    @property
    def factor(self) -> float:
        """α/r."""
        return self.alpha / self.rank

    @property
    def matrix(self) -> Tensor:
        """W + (α/r) B A."""
        return torch.addmm(self.frozen_matrix, self.lora_b, self.lora_a, alpha=self.factor)

    def forward(self, input: Float[Tensor, "*rows D"]) -> Float[Tensor, "*rows F"]:
        """y, the product added and scaled by one operation."""
        y = super().forward(input)
        low = F.linear(self.dropout(input), self.lora_a)
        flat, low = y.flatten(0, -2), low.flatten(0, -2)
        return torch.addmm(flat, low, self.lora_b.mT, alpha=self.factor).view_as(y)


def adapters(model: nn.Module) -> dict[str, LoRALinear]:
    """The modules of a model with an adapter, by name."""
    return {name: one for name, one in model.named_modules() if isinstance(one, LoRALinear)}


def is_factor(name: str) -> bool:
    """True for the name of an adapter's parameter."""
    return name.rpartition(".")[2] in FACTORS


def plain_parameters(model: nn.Module) -> Iterator[tuple[str, Tensor]]:
    """Name and value of every parameter of the same model in floating point without adapters, those
    merged."""
    changed = {
        f"{name}.weight": one
        for name, one in model.named_modules()
        if isinstance(one, LoRALinear) or (isinstance(one, Linear) and not one.holds_weight)
    }
    for name, parameter in model.named_parameters():
        if name not in changed and not is_factor(name):
            yield name, parameter.detach()
    for name, one in changed.items():
        yield name, one.matrix.detach()
    for name, one in model.named_modules():
        if isinstance(one, LanguageModelHead) and one.packed is not None and not one.tied:
            yield f"{name}.weight", one.packed.matrix.detach()
