"""Looks against does: how much the answer changes when one head is silenced.

A head's output z is replaced by its mean over this sequence's positions, so that it says the same
everywhere: what it read is gone, its average is not (zeroing it would leave what the model was
trained with). Exact: every head is a run of its own, many in one batch. Source: Michel et al. 2019
(heads, one at a time); mean ablation as in Wang et al. 2023.
"""

import torch

from glassformer.axes import Float, Tensor
from glassformer.inspect.look import Look
from glassformer.inspect.target import Replaced, Target, in_portions, rerun


def head_effects(
    look: Look,
    target: int,
    *,
    position: int = -1,
    against: int | None = None,
    side: str = "",
    site: str = "self",
) -> Float[Tensor, "L H"]:
    """The target with a head mean-ablated minus the target as it is, in logits, for every head of a
    stack.

    Below 0: the head speaks for the target. `side` "" is the stack that answers, `site` self or
    cross. ConfigError: a target or a side that there is not.
    """
    asked = Target.of(look, target, position, against)
    heads = look.model.config.n_heads
    length = look.positions().length + len(look.source_elements)
    as_it_is = asked.value(rerun(look, asked)[0])

    def silenced(layer: int) -> Tensor:
        point = f"{look.attention(layer, side=side, site=site)[0]}.z"
        changed = [
            (len(some), Replaced(point, lambda z, some=some: mean_ablated(z, some)))
            for some in in_portions(heads, length)
        ]
        return torch.cat(
            [asked.value(rerun(look, asked, [change], rows=rows)[0]) for rows, change in changed]
        )

    return (
        torch.stack([silenced(layer) - as_it_is for layer in range(look.model.config.n_layers)])
        .float()
        .cpu()
    )


def mean_ablated(z: Float[Tensor, "B H T K"], heads: Tensor) -> Float[Tensor, "B H T K"]:
    """z with head `heads[b]` of row b replaced by its mean over the positions."""
    changed = z.clone()
    rows = torch.arange(len(heads))
    changed[rows, heads] = z[rows, heads].mean(1, keepdim=True)
    return changed
