"""Which checkpoints are kept: a function of their steps and the settings alone."""

from collections.abc import Collection

from glassformer.recipe.train import SaveConfig


def kept(steps: Collection[int], save: SaveConfig, best: int | None = None) -> set[int]:
    """The steps to keep: the last ones, the best, and older ones by `keep_every` and
    `keep_thinned`."""
    keep = {*sorted(steps)[-save.keep_last :], best}
    if save.keep_every is not None:
        keep |= {step for step in steps if step % save.keep_every == 0}
    if save.keep_thinned:
        keep |= thinned(steps, save.every)
    return {step for step in steps if step in keep}


def thinned(steps: Collection[int], every: int) -> set[int]:
    """The multiples of `every` that are younger than twice their largest power of two times
    `every`.

    With the newest step n, s = k every is kept while n - s < 2 every (k & -k). So a step that is
    let go is never missed later, and of each age a up to n / 3 there is one between a and 3 a.
    """
    newest = max(steps, default=0)
    return {
        step
        for step in steps
        if step % every == 0 and newest - step < 2 * every * _power_of_two(step // every)
    }


def _power_of_two(k: int) -> int:
    """The largest power of two that divides k."""
    return k & -k
