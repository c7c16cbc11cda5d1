"""What verification is given by its caller, because it lives on the same floor of the house: loss and decoding.

Knows: the form of these functions. Does not know: where they are.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

from torch import Tensor
from torch.nn import functional as F

from glassformer.batch import IGNORE
from glassformer.models.transformer import Transformer


class Summed(Protocol):
    """A loss summed over `count` targets, as `glassformer.losses.LossSum` is."""

    @property
    def total(self) -> Tensor:
        """The sum, in nats."""
        ...

    @property
    def count(self) -> int:
        """How many targets it is over."""
        ...


@dataclass(frozen=True)
class PlainSum:
    """A sum and a count."""

    total: Tensor
    count: int


def plain_cross_entropy(logits: Tensor, targets: Tensor) -> PlainSum:
    """-Σ log f over the targets that are not IGNORE, by the framework's own function."""
    total = F.cross_entropy(logits.flatten(0, -2), targets.flatten(), ignore_index=IGNORE, reduction="sum")
    return PlainSum(total, int((targets != IGNORE).sum()))


@dataclass(frozen=True)
class Siblings:
    """The functions to check beside layers and models; None leaves those rows out.

    `loss(logits, targets)`; `temperature(logits, tau)` gives the logits to sample from; `greedy(model, prompt, count)`
    gives `count` new ids, and `greedy_name` is the dotted name of what it calls.
    """

    loss: Callable[[Tensor, Tensor], Summed] = plain_cross_entropy
    temperature: Callable[[Tensor, float], Tensor] | None = None
    greedy: Callable[[Transformer, Sequence[int], int], Sequence[int]] | None = None
    greedy_name: str = ""
