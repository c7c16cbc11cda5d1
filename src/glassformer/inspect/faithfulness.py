"""Whether an attribution points at what matters: elements taken away, and put back, in its order.

    deletion    from the whole input, the highest scores first: the probability should fall early (small area)
    insertion   from the baseline, the highest scores first: it should rise early (large area)

Beside both stand random orders, without which no curve says anything. Source: Petsiuk et al. 2018
(RISE); the random orders as in Samek et al. 2017.
"""

from dataclasses import dataclass

import torch

from glassformer.axes import Float, Int, Tensor
from glassformer.errors import ConfigError
from glassformer.inspect.attribution import Attribution
from glassformer.inspect.interpolation import Baseline, Dimmer
from glassformer.inspect.look import Look
from glassformer.inspect.target import Check, unchecked


@dataclass(frozen=True)
class Faithfulness:
    """The target's probability with a share of the elements taken away (`deletion`) or put in
    (`insertion`).

    `shares` run from 0 to 1; the random curves have one row for each order. Areas under the curves
    are in [0, 1].
    """

    shares: Float[Tensor, "_"]
    deletion: Float[Tensor, "_"]
    insertion: Float[Tensor, "_"]
    random_deletion: Float[Tensor, "_ _"]
    random_insertion: Float[Tensor, "_ _"]

    def area(self, curve: Float[Tensor, "*rows _"]) -> Float[Tensor, "*rows"]:
        """The area under a curve over `shares`, by trapezoids: its mean height."""
        return torch.trapezoid(curve, self.shares)

    @property
    def gain(self) -> tuple[float, float]:
        """How much smaller the area under deletion and how much larger that under insertion is than
        at random."""
        fallen = self.area(self.random_deletion).mean() - self.area(self.deletion)
        risen = self.area(self.insertion) - self.area(self.random_insertion).mean()
        return float(fallen), float(risen)


def faithfulness(
    look: Look,
    attribution: Attribution,
    steps: int = 20,
    seed: int = 0,
    *,
    orders: int = 8,
    baseline: Baseline = "zero",
    check: Check = unchecked,
) -> Faithfulness:
    """Delete and insert a look's elements in the order of their scores, and in `orders` random
    ones, in `steps` steps.

    Every element counts that can reach the answer: of a decoder none behind the position, and no
    class token. Scores of a translator's source count with the others. `check` is called between
    passes. ConfigError: scores of another look, or no step.
    """
    dimmer = Dimmer(look, attribution.target, baseline, check)
    scores = torch.cat(
        [part for part in (attribution.scores, attribution.source_scores) if part is not None]
    )
    if len(scores) != dimmer.count:
        raise ConfigError(
            f"The attribution has {len(scores)} scores and the input {dimmer.count} elements; "
            f"give its own."
        )
    if steps < 1 or orders < 1:
        raise ConfigError(f"steps={steps} and orders={orders} must both be at least 1.")
    elements = counted(look, attribution)
    count = len(elements)
    generator = torch.Generator().manual_seed(seed)
    ranked = [scores[elements].argsort(descending=True, stable=True)]
    ranked += [torch.randperm(count, generator=generator) for _ in range(orders)]
    taken = torch.linspace(0, count, min(steps, count) + 1).round().long()
    deleted = torch.cat([_dimmed(dimmer.count, elements[order], taken) for order in ranked])
    inserted = deleted.clone()
    inserted[:, elements] = 1 - deleted[:, elements]
    curves = dimmer.probabilities(torch.cat([deleted, inserted])).float().view(2, len(ranked), -1)
    (deletion, *_), (insertion, *_) = curves
    return Faithfulness(taken.float() / count, deletion, insertion, curves[0, 1:], curves[1, 1:])


def counted(look: Look, attribution: Attribution) -> Int[Tensor, "_"]:
    """The elements that are taken away, the source's after those of the stack that answers."""
    own = torch.tensor([element.kind != "class" for element in look.elements])
    position = attribution.target.position
    if position is not None and look.answering == "decoder":
        own[position + 1 :] = False
    source = torch.ones(len(look.source_elements), dtype=torch.bool)
    return torch.cat([own, source]).nonzero()[:, 0]


def _dimmed(count: int, order: Int[Tensor, "_"], taken: Int[Tensor, "_"]) -> Float[Tensor, "_ _"]:
    """A row for each number taken: 0 at the first so many elements of the order, 1 elsewhere."""
    rank = torch.full((count,), len(order))
    rank[order] = torch.arange(len(order))
    return (rank >= taken[:, None]).float()
