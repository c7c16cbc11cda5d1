"""Attribution of an answer: a score for every element of the input, by one of five methods.

    gradient_x_input, integrated_gradients, occlusion    change of the target (a logit, or A instead
                                                         of B) with each element
    rollout, gradient_attention                          share of each element that the layers pass
                                                         on to the answer

Methods disagree; `faithfulness` measures them.
"""

import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
import torch

from glassformer.core.axes import Float, Tensor
from glassformer.core.errors import ConfigError, suggest
from glassformer.inspect.flow import gradient_attention, rollout
from glassformer.inspect.interpolation import Baseline, Interpolation
from glassformer.inspect.look import Look
from glassformer.inspect.target import Attribution, Target

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
    for name in [name for name in options if name not in known]:
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
    """Integrated gradients from share `begin` to `end`; the target there: `before`, `after`."""

    begin: float
    end: float
    before: float
    after: float
    scores: Float[Tensor, "_"]

    @property
    def gap(self) -> float:
        return abs(float(self.scores.sum()) - (self.after - self.before))


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
        scores = (end - begin) / 2 * (weights @ slopes[:-1].cpu().double())
        return _Interval(begin, end, before, float(values[-1]), scores)

    start = float(path.values(torch.zeros(1, path.count)))
    if not math.isfinite(start):
        raise ConfigError(
            f"At the baseline {baseline!r} the model answers {start}, as a norm with epsilon=0 "
            f"does for a constant vector; take baseline='mean'."
        )
    parts, steps = [interval(0.0, 1.0, start)], NODES
    change = parts[0].after - start
    while sum(one.gap for one in parts) > tolerance * abs(change) and steps + 2 * NODES <= most:
        worst = max(parts, key=lambda one: one.gap)
        parts.remove(worst)
        middle = (worst.begin + worst.end) / 2
        first = interval(worst.begin, middle, worst.before)
        parts += [first, interval(middle, worst.end, first.after)]
        steps += 2 * NODES
    scores = torch.stack([one.scores for one in parts]).sum(0)
    missed = abs(float(scores.sum()) - change)
    gap = missed / abs(change) if change else missed
    found = path.attribution("integrated_gradients", scores)
    return replace(found, change=change, gap=gap, steps=steps)


def occlusion(look: Look, target: Target, *, baseline: Baseline = "zero") -> Attribution:
    """s_j = f(e) - f(e with element j at the baseline). Source: Zeiler & Fergus 2014."""
    path = Interpolation(look, target, baseline)
    values = path.values(torch.cat([torch.ones(1, path.count), 1 - torch.eye(path.count)]))
    return path.attribution("occlusion", values[0] - values[1:])


METHODS: dict[str, Callable[..., Attribution]] = {
    "gradient_x_input": gradient_x_input,
    "integrated_gradients": integrated_gradients,
    "occlusion": occlusion,
    "rollout": rollout,
    "gradient_attention": gradient_attention,
}
