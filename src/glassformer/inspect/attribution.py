"""Attribution of an answer: a score for every element of the input, by one of five methods.

    gradient_x_input, integrated_gradients, occlusion    change of the target (a logit, or A instead
                                                         of B) with each element
    rollout, gradient_attention                          share of each element that the layers pass
                                                         on to the answer

The last two multiply R <- own R + cross [0 | R_source] through the layers. R [T, T + S] begins as
[1 | 0], R_source [S, S] of the encoder as 1. A method defines the weight of each key in each query
of an attention. The row of R at the answer's position (for a head that pools, the pooled rows) is
the score of every element.

Methods disagree; `faithfulness` measures them by elements removed, and inserted, in the order of
their scores, and in random orders (Petsiuk et al. 2018, RISE; Samek et al. 2017):

    deletion    from the whole input  ->  the probability should fall early (small area)
    insertion   from the baseline     ->  it should rise early (large area)
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
import torch

from glassformer.core.axes import Float, Tensor
from glassformer.core.errors import ConfigError, suggest
from glassformer.inspect.look import Look
from glassformer.inspect.target import (
    Attribution,
    Baseline,
    Interpolation,
    Target,
    reading,
    rerun,
)

NODES = 8
"""Gauss-Legendre points of each interval between the baseline and the input."""


def attribute(
    look: Look,
    method: str,
    target: int,
    *,
    position: int = -1,
    against: int | None = None,
    **options: Any,
) -> Attribution:
    """Attribute outcome `target` at `position` (minus outcome `against`) by a method of `METHODS`.

    Options: `baseline` (zero, mean, or a token's id) of the first three; `tolerance` and `most` of
    integrated gradients. Rollout does not depend on the outcome.
    ConfigError: no such method, option, outcome or position.
    """
    if method not in METHODS:
        hint = suggest(method, METHODS)
        raise ConfigError(f"There is no method {method!r} of attribution; {hint}")
    known = options_of(method)
    for name in options:
        if name not in known:
            hint = suggest(name, known) if known else "it has none"
            raise ConfigError(f"The method {method} has no option {name!r}; {hint}")
    wanted = Target.of(look, target, position, against)
    found = METHODS[method](look, wanted, **options)
    return replace(found, value=float(wanted.value(wanted.logits(look))[0]))


def options_of(method: str) -> dict[str, Any]:
    """Options of a method with their defaults; none of an unknown one."""
    return getattr(METHODS.get(method), "__kwdefaults__", None) or {}


def gradient_x_input(look: Look, target: Target, *, baseline: Baseline = "zero") -> Attribution:
    """s_j = (e_j - b) · ∂f/∂e_j, the gradient by each element. Source: Shrikumar et al. 2017."""
    path = Interpolation(look, target, baseline)
    _, slopes = path.slopes(torch.ones(1, path.count))
    return path.attribution("gradient_x_input", slopes[0])


class _Interval(NamedTuple):
    """Integrated gradients from share `begin` to `end`.

    `before`, `after`: the target there; `gap`: the error of their sum.
    """

    gap: float
    begin: float
    end: float
    before: float
    after: float
    scores: Float[Tensor, "_"]


def integrated_gradients(
    look: Look,
    target: Target,
    *,
    baseline: Baseline = "zero",
    tolerance: float = 0.01,
    most: int = 2048,
) -> Attribution:
    """s_j = (e_j - b) · ∫ ∂f/∂e_j on the line from the baseline, so that Σ s_j = f(e) - f(b).

    By intervals of 8 Gauss-Legendre points. The sum of each is known from f at its ends: the worst
    is halved until all gaps together are below `tolerance` of the whole, or `most` gradients are
    taken. Source: Sundararajan et al. 2017.
    """
    path = Interpolation(look, target, baseline)
    nodes, weights = map(torch.from_numpy, np.polynomial.legendre.leggauss(NODES))

    def interval(begin: float, end: float, before: float) -> _Interval:
        stops = torch.cat([begin + (end - begin) * (nodes + 1) / 2, torch.tensor([end])])
        values, slopes = path.slopes(stops[:, None].expand(-1, path.count))
        scores, after = (
            (end - begin) / 2 * (weights @ slopes[:-1].cpu().double()),
            float(values[-1]),
        )
        gap = abs(float(scores.sum()) - (after - before))
        return _Interval(gap, begin, end, before, after, scores)

    start = float(path.values(torch.zeros(1, path.count)))
    if not math.isfinite(start):
        raise ConfigError(
            f"At the baseline {baseline!r} the model answers {start}, as a norm with epsilon=0 "
            f"does for a constant vector; take baseline='mean'."
        )
    parts, steps = [interval(0.0, 1.0, start)], NODES
    change = parts[0].after - start
    while sum(one.gap for one in parts) > tolerance * abs(change) and steps + 2 * NODES <= most:
        worst = parts.pop(max(range(len(parts)), key=lambda i: parts[i].gap))
        middle = (worst.begin + worst.end) / 2
        first = interval(worst.begin, middle, worst.before)
        parts += [first, interval(middle, worst.end, first.after)]
        steps += 2 * NODES
    scores = torch.stack([one.scores for one in parts]).sum(0)
    gap = abs(float(scores.sum()) - change) / (abs(change) or 1)
    found = path.attribution("integrated_gradients", scores)
    return replace(found, change=change, gap=gap, steps=steps)


def occlusion(look: Look, target: Target, *, baseline: Baseline = "zero") -> Attribution:
    """s_j = f(e) - f(e with element j at the baseline). Source: Zeiler & Fergus 2014."""
    path = Interpolation(look, target, baseline)
    values = path.values(torch.cat([torch.ones(1, path.count), 1 - torch.eye(path.count)]))
    return path.attribution("occlusion", values[0] - values[1:])


def rollout(look: Look, target: Target) -> Attribution:
    """R = Π (1 + A) / 2, A the mean over heads; half of each layer is the residual connection.

    R = Π A without residual connections. Independent of the outcome. Cross-attention is one more
    branch, so rows of R sum to 1. Source: Abnar & Zuidema 2020.
    """
    kept = 0.5 if look.model.config.residual else 0.0
    mean = lambda place: look[f"{place}.pattern"].tensor.cpu().double().mean(0)
    own, source = _follow(look, target, mean, kept, 1 - kept)
    return Attribution("rollout", target, own.float(), source)


def gradient_attention(look: Look, target: Target) -> Attribution:
    """R = Π (1 + Ā) - 1, Ā the mean over heads of (∇A ⊙ A)⁺: attention in favour of the target.

    Only the residual connection is subtracted; without it, R = Π Ā. Since z = A v, ∇A = ∇z vᵀ: no
    pattern is kept for the backward pass. Source: Chefer et al. 2021 (generic attention
    explainability, without their normalization between two sequences).
    """
    names = [point for point in look.tape.points if point.endswith(".z")]
    logits, tape = rerun(look, target, keep=names, gradients=True)
    # z before its own edits, which come after the pattern
    outputs = [tape.before.get(name, tape.kept[name]) for name in names]
    found = torch.autograd.grad(target.value(logits).sum(), outputs, materialize_grads=True)
    slopes = dict(zip(names, found, strict=True))
    del logits, tape, outputs

    def relevant(place: str) -> Tensor:
        slope, v = slopes[f"{place}.z"][0], look[f"{place}.v"].tensor
        by_pattern = slope @ v.repeat_interleave(len(slope) // len(v), 0).mT
        positive = (by_pattern * look[f"{place}.pattern"].tensor).clamp(min=0)
        return positive.cpu().double().mean(0)

    kept = float(look.model.config.residual)
    own, source = _follow(look, target, relevant, kept, 1)
    own = own - kept * reading(look, target)
    return Attribution("gradient_attention", target, own.float(), source)


def _follow(
    look: Look, target: Target, attended: Callable[[str], Tensor], kept: float, share: float
) -> tuple[Float[Tensor, "T"], Float[Tensor, "S"] | None]:
    """Multiply the layers from the answer backwards: the row of R, and the source's part.

    A branch is `kept` times the stream and `share` times the values that it reads. `attended` gives
    the weights between queries and keys of an attention by its path, float64.
    """
    side, config, crossed = look.answering, look.model.config, bool(look.source_elements)

    def step(block: str, names: Sequence[str]) -> Tensor:
        """[own | cross]: share of each key, own and source, in each query of a block."""
        own, *cross = (share * attended(f"{block}.{name}") for name in names)
        own = own + kept * torch.eye(len(own), dtype=own.dtype)
        return torch.cat([kept * own, *cross], 1) if cross else own

    # Only the row that is read is carried, from the end to the beginning.
    row = reading(look, target)
    source = torch.zeros(len(look.source_elements), dtype=row.dtype)
    beside, names = torch.eye(len(source), dtype=row.dtype), ["attention"]
    if crossed:
        for layer in range(config.depth("encoder")):
            beside = step(f"encoder.blocks.{layer}", names) @ beside
        names = ["attention", "cross"]
    for layer in reversed(range(config.depth(side))):
        row, across = (row @ step(f"{side}.blocks.{layer}", names)).tensor_split([len(row)])
        source = source + across @ beside
    return row, source.float() if crossed else None


METHODS: dict[str, Callable[..., Attribution]] = {
    "gradient_x_input": gradient_x_input,
    "integrated_gradients": integrated_gradients,
    "occlusion": occlusion,
    "rollout": rollout,
    "gradient_attention": gradient_attention,
}


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
