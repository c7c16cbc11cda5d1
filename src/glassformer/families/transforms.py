"""Changes of a published tensor to a parameter, by name, each with its inverse.

transposed   | x W instead of x Wᵀ (GPT-2)
1/3          | the second of three parts that are stored one upon the other
from:2       | without the first rows (RoBERTa's and BART's positions begin at 2)
plus:1       | stored less 1 (Gemma's norms)
kernel       | a convolution [D, C, p, q] as a map of flattened patches [D, p·q·C]
row          | stored with an axis of 1 in front
zero         | 0 where their model has none (biases)
whole        | the line names a parameter, not a module
gated=true   | only of models with this value of a field
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import reduce
from typing import Any, NamedTuple

import torch
from torch import Tensor

from glassformer.models.config import ModelConfig

Shape = tuple[int, ...]


class Step(NamedTuple):
    """A change of a tensor to a parameter of a model, of this shape, and back."""

    forward: Callable[[Tensor, Shape, ModelConfig], Tensor]
    backward: Callable[[Tensor, ModelConfig], Tensor]


@dataclass(frozen=True)
class Transform:
    """The changes of a line of a table, in order."""

    steps: tuple[Step, ...] = ()
    part: int = 0
    """Which part of their tensor it is."""
    parts: int = 1
    whole_name: bool = False
    zero: bool = False
    when: Mapping[str, bool] = field(default_factory=dict)

    @property
    def transposed(self) -> bool:
        """Whether their matrix is x W, not x Wᵀ."""
        return PLAIN["transposed"] in self.steps

    def read(self, theirs: Tensor, shape: Shape, model: ModelConfig) -> Tensor:
        """Their tensor as all its parts, one upon the other, each a parameter of this shape."""
        return reduce(lambda value, step: step.forward(value, shape, model), self.steps, theirs)

    def write(self, ours: Tensor, model: ModelConfig) -> Tensor:
        """All the parts of a tensor, one upon the other, as their tensor."""
        return reduce(lambda value, step: step.backward(value, model), reversed(self.steps), ours)


def transform(words: Sequence[str]) -> Transform:
    """The changes that a line of a table names; ValueError: an unknown one."""
    steps: list[Step] = []
    part, parts, when = 0, 1, dict[str, bool]()
    for word in words:
        name, _, number = word.partition(":")
        if "/" in word:
            part, parts = map(int, word.split("/"))
        elif "=" in word:
            name, _, value = word.partition("=")
            when[name] = value == "true"
        elif name in NUMBERED:
            steps.append(NUMBERED[name](int(number)))
        elif word in PLAIN:
            steps.append(PLAIN[word])
        elif word not in ("whole", "zero"):
            raise ValueError(f"{word!r} is no change of a tensor")
    return Transform(tuple(steps), part, parts, "whole" in words, "zero" in words, when)


def _transpose(x: Tensor, *of: Any) -> Tensor:
    return x.T if x.dim() == 2 else x  # a bias stays


def _kernel(x: Tensor, model: ModelConfig) -> Tensor:
    rows = model.patch or ()
    return x if x.dim() == 1 else x.reshape(len(x), *rows, -1).permute(0, 3, 1, 2)


PLAIN = {
    "transposed": Step(_transpose, _transpose),
    "kernel": Step(
        lambda x, shape, model: x.permute(0, 2, 3, 1).reshape(shape) if x.dim() == 4 else x, _kernel
    ),
    "row": Step(lambda x, shape, model: x.reshape(shape), lambda x, model: x[None]),
}
NUMBERED: dict[str, Callable[[int], Step]] = {
    "from": lambda n: Step(
        lambda x, shape, model: x[n:],
        lambda x, model: torch.cat([x.new_zeros(n, *x.shape[1:]), x]),
    ),
    "plus": lambda n: Step(lambda x, shape, model: x + n, lambda x, model: x - n),
}
