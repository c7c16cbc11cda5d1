"""What an answer is attributed to: one score for every element of the input, by one of six methods.

    gradient_x_input, integrated_gradients, occlusion    how the target (a logit, or A instead of B) moves with elements
    rollout, gradient_attention, value_zeroing           how much of each element the layers pass on to where it is read

No method is the truth: look at `faithfulness` beside it.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from glassformer.axes import Float, Tensor
from glassformer.errors import ConfigError, suggest
from glassformer.inspect.flow import gradient_attention, rollout, value_zeroing
from glassformer.inspect.interpolation import Baseline, Dimmer
from glassformer.inspect.look import Look
from glassformer.inspect.target import Check, Target, unchecked

NODES = 8
"""Points of Gauss and Legendre on each piece of the way from the baseline."""


@dataclass(frozen=True)
class Attribution:
    """A score for each element of the stack that answers, and of an encoder-decoder for each of the
    source's.

    Gradients, integrated gradients and occlusion: in logits, of either sign. The others: at least
    0. Of integrated gradients, `change` is the target minus the target at the baseline, which the
    scores add up to but for `gap`, as a share of it; `steps` is how many gradients that took.
    """

    method: str
    target: Target
    scores: Float[Tensor, "T"]
    source_scores: Float[Tensor, "S"] | None = None
    change: float | None = None
    gap: float | None = None
    steps: int | None = None


def attribute(
    look: Look,
    method: str,
    target: int,
    *,
    position: int = -1,
    against: int | None = None,
    check: Check = unchecked,
    **options: Any,
) -> Attribution:
    """Attribute outcome `target` at `position` (minus outcome `against`) to the elements, by a
    method of `METHODS`.

    Options: `baseline` (zero, mean, or a token's id) of the first three; `tolerance` and `most` of
    integrated gradients. Rollout and value zeroing follow what reaches the position, whatever the
    outcome. `check` is called between passes: what it raises ends the work. ConfigError: an unknown
    method or option, an outcome or a position that there is not.
    """
    if method not in METHODS:
        raise ConfigError(
            f"There is no method {method!r} of attribution; {suggest(method, METHODS)}"
        )
    compute, known = METHODS[method]
    for name in options:
        if name not in known:
            hint = suggest(name, known) if known else "it has none"
            raise ConfigError(f"The method {method} has no option {name!r}; {hint}")
    return compute(look, Target.of(look, target, position, against), check=check, **options)


def gradient_x_input(
    look: Look, target: Target, *, baseline: Baseline = "zero", check: Check = unchecked
) -> Attribution:
    """s_j = (e_j - b) · ∂f/∂e_j, the target's slope towards each element. Source: Shrikumar et al.
    2017."""
    dimmer = Dimmer(look, target, baseline, check)
    _, slopes = dimmer.slopes(torch.ones(1, dimmer.count))
    return Attribution("gradient_x_input", target, *dimmer.split(slopes[0].float()))


def integrated_gradients(
    look: Look,
    target: Target,
    *,
    baseline: Baseline = "zero",
    tolerance: float = 0.01,
    most: int = 2048,
    check: Check = unchecked,
) -> Attribution:
    """s_j = (e_j - b) · ∫ ∂f/∂e_j along the straight way from the baseline, so that Σ s_j = f(e) -
    f(b).

    The way is cut in pieces of 8 Gauss-Legendre points. What a piece must add up to is known, since
    f is known at its ends, so the worst is halved until all gaps together are below `tolerance` of
    the whole, or `most` gradients are taken. Source: Sundararajan et al. 2017.
    """
    dimmer = Dimmer(look, target, baseline, check)
    at, weight = np.polynomial.legendre.leggauss(NODES)
    at, weight = torch.from_numpy((at + 1) / 2), torch.from_numpy(weight / 2)

    def piece(
        begin: float, end: float, before: float
    ) -> tuple[float, float, float, float, float, Tensor]:
        """(gap, begin, end, f at both, scores) of a piece, from 8 gradients and the value at its
        end."""
        stops = torch.cat([begin + (end - begin) * at, torch.tensor([end])])
        values, slopes = dimmer.slopes(stops[:, None].expand(-1, dimmer.count))
        scores = (end - begin) * (weight @ slopes[:-1].cpu().double())
        after = float(values[-1])
        return abs(float(scores.sum()) - (after - before)), begin, end, before, after, scores

    start = float(dimmer.values(torch.zeros(1, dimmer.count)))
    if not math.isfinite(start):
        raise ConfigError(
            f"At the baseline {baseline!r} the model answers {start}, as a norm with epsilon=0 "
            f"does for a constant "
            "vector; take baseline='mean'."
        )
    pieces = [piece(0.0, 1.0, start)]
    whole, steps = abs(pieces[0][4] - start), NODES
    while sum(gap for gap, *_ in pieces) > tolerance * whole and steps + 2 * NODES <= most:
        worst = max(range(len(pieces)), key=lambda i: pieces[i][0])
        _, begin, end, before, _, _ = pieces.pop(worst)
        first = piece(begin, (begin + end) / 2, before)
        pieces += [first, piece((begin + end) / 2, end, first[4])]
        steps += 2 * NODES
    scores = torch.stack([scores for *_, scores in pieces]).sum(0)
    change = max(pieces, key=lambda found: found[2])[4] - start
    missed = abs(float(scores.sum()) - change)
    gap = missed / abs(change) if change else missed
    return Attribution(
        "integrated_gradients", target, *dimmer.split(scores.float()), change, gap, steps
    )


def occlusion(
    look: Look, target: Target, *, baseline: Baseline = "zero", check: Check = unchecked
) -> Attribution:
    """s_j = f(e) - f(e with element j at the baseline): what is lost without it. Source: Zeiler &
    Fergus 2014."""
    dimmer = Dimmer(look, target, baseline, check)
    values = dimmer.values(torch.cat([torch.ones(1, dimmer.count), 1 - torch.eye(dimmer.count)]))
    return Attribution("occlusion", target, *dimmer.split((values[0] - values[1:]).float()))


def _followed(
    method: str, flow: Callable[[Look, Target, Check], tuple[Tensor, Tensor | None]]
) -> Callable[..., Attribution]:
    def followed(look: Look, target: Target, check: Check = unchecked) -> Attribution:
        scores, source = flow(look, target, check)
        return Attribution(
            method, target, scores.float(), None if source is None else source.float()
        )

    return followed


METHODS: dict[str, tuple[Callable[..., Attribution], tuple[str, ...]]] = {
    "gradient_x_input": (gradient_x_input, ("baseline",)),
    "integrated_gradients": (integrated_gradients, ("baseline", "tolerance", "most")),
    "occlusion": (occlusion, ("baseline",)),
    "rollout": (_followed("rollout", rollout), ()),
    "gradient_attention": (_followed("gradient_attention", gradient_attention), ()),
    "value_zeroing": (_followed("value_zeroing", value_zeroing), ()),
}
"""Each method and the options it takes."""
