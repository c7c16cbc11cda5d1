"""The learning rate as a pure function of the step: nothing to save, nothing to restore."""

import math

from glassformer.recipe.train import TrainConfig


def rate_at(step: int, train: TrainConfig) -> float:
    """Return the factor in [0, 1] on the peak rate at `step` = 0 .. steps - 1.

    A linear warm-up reaches 1 after `warmup_steps`; then p runs from 0 to 1 over the rest of the
    steps: cosine f + (1-f)(1 + cos πp)/2, linear 1 - (1-f)p, constant 1, wsd 1 and then linear to f
    over the last `decay_fraction` of all steps, where f is `final_fraction`; inverse_sqrt is
    √((warmup + 1) / (step + 1)), for any number of steps (Vaswani et al. 2017).
    """
    of, steps = train.schedule, train.steps
    begins, final = of.warmup_steps, of.final_fraction
    if step < begins:
        return (step + 1) / (begins + 1)
    if of.kind == "constant":
        return 1.0
    if of.kind == "inverse_sqrt":
        return ((begins + 1) / (step + 1)) ** 0.5
    if of.kind == "wsd":
        begins = max(begins, round(steps * (1 - of.decay_fraction)))
    done, rest = max(0, step - begins), max(1, steps - begins)
    if of.kind == "cosine":
        return final + (1 - final) * (1 + math.cos(math.pi * (done / rest))) / 2
    return 1 - (1 - final) * done / rest
