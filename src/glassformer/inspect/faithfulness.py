"""Faithfulness of an attribution: elements removed, and inserted, in the order of their scores.

    deletion    from the whole input  ->  the probability should fall early (small area)
    insertion   from the baseline     ->  it should rise early (large area)

Random orders are the reference. Sources: Petsiuk et al. 2018 (RISE), Samek et al. 2017.
"""

from dataclasses import dataclass

import torch

from glassformer.core.axes import Float, Tensor
from glassformer.core.errors import ConfigError
from glassformer.inspect.look import Look
from glassformer.inspect.target import Attribution, Baseline, Interpolation


@dataclass(frozen=True)
class Faithfulness:
    """The target's probability with a share of the elements removed (`deletion`) or inserted.

    `shares` run from 0 to 1; the random curves have one row for each order. Areas are in [0, 1].
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
        """Area below random of the deletion curve, and above random of the insertion curve."""
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
) -> Faithfulness:
    """Delete and insert elements by score, and in `orders` random orders, in `steps` steps.

    Counts every element that can reach the answer, a source's too: in a decoder none after the
    position, and no learned token. ConfigError: scores of another look, or no step.
    """
    path = Interpolation(look, attribution.target, baseline)
    scores = attribution.scores
    if attribution.source_scores is not None:
        scores = torch.cat([scores, attribution.source_scores])
    if len(scores) != path.count:
        raise ConfigError(
            f"The attribution has {len(scores)} scores and the input {path.count} elements; "
            f"give its own."
        )
    if steps < 1 or orders < 1:
        raise ConfigError(f"steps={steps} and orders={orders} must both be at least 1.")
    own = [not element.learned for element in look.elements]
    if (position := attribution.target.position) is not None and look.answering == "decoder":
        own[position + 1 :] = [False] * (len(own) - position - 1)
    source = [True] * len(look.source_elements)
    elements = torch.tensor(own + source).nonzero()[:, 0]  # to remove, the source's last
    count = len(elements)
    generator = torch.Generator().manual_seed(seed)
    ranked = [scores[elements].argsort(descending=True, stable=True)]
    ranked += [torch.randperm(count, generator=generator) for _ in range(orders)]
    taken = torch.linspace(0, count, min(steps, count) + 1).round().long()
    # argsort of an order is the rank of each element in it
    kept = torch.cat([(order.argsort() >= taken[:, None]).float() for order in ranked])
    shares = torch.ones(2, len(kept), path.count)
    shares[:, :, elements] = torch.stack([kept, 1 - kept])
    found = path.values(shares.flatten(0, 1), attribution.target.probability)
    curves = found.float().view(2, len(ranked), -1)
    share = taken.float() / count
    return Faithfulness(share, *curves[:, 0], *curves[:, 1:])
