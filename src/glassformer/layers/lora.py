"""Low-rank adapters: a frozen linear map plus a trained product of two narrow matrices.

    y = x Wᵀ + b + (α/r) · drop(x) Aᵀ Bᵀ        A is r x in, B out x r, r small

B is 0 at first, so an adapter changes nothing until it is trained. Source: Hu et al. 2021, LoRA.
"""

from collections.abc import Callable, Iterator
from typing import Self

import torch
from torch import nn
from torch.nn import functional as F

from glassformer.axes import Float, Tensor
from glassformer.layers.dropout import Dropout
from glassformer.layers.heads import LanguageModelHead
from glassformer.layers.linear import Linear

FACTORS = ("lora_a", "lora_b")
"""Names of an adapter's parameters."""


class LoRALinear(Linear):
    """A `Linear` with an adapter; it shares the weight and bias of `base`, by the same names.

    `merge` adds the product to the weight and keeps the weight as it was; `unmerge` puts that back
    bit for bit. In between A and B are no parameters, since a change of them would not be seen. A
    and B are unset until they are initialized or loaded.
    """

    base: Tensor | None
    lora_a: nn.Parameter | None
    lora_b: nn.Parameter | None

    def __init__(self, base: Linear, rank: int, alpha: float, dropout: float = 0.0):
        super().__init__(base.in_features, base.out_features, bias=False, device="meta")
        self.weight, self.bias = base.weight, base.bias
        self.lora_a = nn.Parameter(base.weight.new_empty(rank, base.in_features))
        self.lora_b = nn.Parameter(base.weight.new_empty(base.out_features, rank))
        self._merged: tuple[nn.Parameter, nn.Parameter] | None = None
        self.rank, self.alpha, self.dropout = rank, alpha, Dropout(dropout)
        self.register_buffer("base", None, persistent=False)
        self.train(base.training)

    @property
    def factor(self) -> float:
        """α/r."""
        return self.alpha / self.rank

    @property
    def factors(self) -> tuple[nn.Parameter, nn.Parameter]:
        """A and B."""
        if self._merged is not None:
            return self._merged
        assert self.lora_a is not None
        assert self.lora_b is not None
        return self.lora_a, self.lora_b

    @property
    def matrix(self) -> Tensor:
        """W + (α/r) B A, of a merged adapter the weight itself."""
        if self._merged is not None:
            return self.weight
        a, b = self.factors
        return torch.addmm(self.frozen_matrix, b, a, alpha=self.factor)

    def forward(self, input: Float[Tensor, "*rows D"]) -> Float[Tensor, "*rows F"]:
        """y, the product added and scaled by one operation."""
        y = super().forward(input)
        if self._merged is not None:
            return y
        a, b = self.factors
        low = F.linear(self.dropout(input), a)
        flat, low = y.flatten(0, -2), low.flatten(0, -2)
        return torch.addmm(flat, low, b.mT, alpha=self.factor).view_as(y)

    def _apply(self, fn: Callable[[Tensor], Tensor], recurse: bool = True) -> Self:
        super()._apply(fn, recurse)
        for one in self._merged or ():
            one.data = fn(one.data)
        return self

    @torch.no_grad()
    def merge(self) -> None:
        """Add the product to the weight, which is kept beside it, in floating point."""
        if self._merged is None:
            self.dequantize()
            merged = self.matrix
            self.base = self.weight.detach().clone()
            self.weight.copy_(merged)
            self._merged = self.factors
            self.lora_a = self.lora_b = None

    @torch.no_grad()
    def unmerge(self) -> None:
        """Put back the weight as it was before `merge`."""
        if self._merged is not None and self.base is not None:
            self.weight.copy_(self.base)
            self.lora_a, self.lora_b = self._merged
            self.base = self._merged = None


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
