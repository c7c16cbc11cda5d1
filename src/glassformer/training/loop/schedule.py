"""The learning rate as a pure function of the step: nothing to save, nothing to restore."""

import math

from glassformer.recipe.train import Schedule, TrainConfig


def rate(
    step: int,
    *,
    steps: int,
    warmup_steps: int,
    schedule: Schedule,
    final_fraction: float = 0.0,
    decay_fraction: float = 0.5,
) -> float:
    """The factor in [0, 1] on the peak rate at `step` = 0 .. steps - 1.

    A linear warm-up reaches 1 after `warmup_steps`; then p runs from 0 to 1 over the rest of the
    steps: cosine f + (1-f)(1 + cos πp)/2, linear 1 - (1-f)p, constant 1, wsd 1 and then linear to f
    over the last `decay_fraction` of all steps, where f is `final_fraction`; inverse_sqrt is
    √((warmup + 1) / (step + 1)), whatever the number of steps (Vaswani et al. 2017).
    """
    if step < warmup_steps:
        return (step + 1) / (warmup_steps + 1)
    match schedule:
        case "constant":
            return 1.0
        case "inverse_sqrt":
            return ((warmup_steps + 1) / (step + 1)) ** 0.5
        case "cosine":
            p = (step - warmup_steps) / max(1, steps - warmup_steps)
            return final_fraction + (1 - final_fraction) * (1 + math.cos(math.pi * p)) / 2
        case "linear":
            begins = warmup_steps
        case "wsd":
            begins = max(warmup_steps, round(steps * (1 - decay_fraction)))
    return 1 - (1 - final_fraction) * max(0, step - begins) / max(1, steps - begins)


def rate_at(step: int, train: TrainConfig) -> float:
    """The same by a recipe."""
    of = train.schedule
    return rate(
        step,
        steps=train.steps,
        warmup_steps=of.warmup_steps,
        schedule=of.kind,
        final_fraction=of.final_fraction,
        decay_fraction=of.decay_fraction,
    )
