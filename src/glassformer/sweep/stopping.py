"""Ending a trial that falls behind: the median rule.

A trial ends at an evaluation if its best score so far is worse than the median of what the trials
before it had reached by that step (Golovin et al. 2017, section 3.2.2).
"""

from collections.abc import Callable, Mapping, Sequence
from statistics import median
from typing import Any

from glassformer.pages.charts import Point
from glassformer.sweep.state import scored
from glassformer.training.history import Listener

FEWEST = 3
"""Other trials that must have come as far."""


class Stopped(Exception):
    """A trial fell behind."""


def stopping(
    curve: Sequence[Point],
    others: Sequence[Sequence[Point]],
    metric: str,
    rank: Callable[[float], float],
    steps: int,
) -> Listener:
    """A listener that raises `Stopped` where a trial falls behind the curves of `others`; not at
    its last step. `curve`: its own so far."""
    own = list(curve)

    def listener(line: Mapping[str, Any]) -> None:
        if point := scored(line, f"validation_{metric}"):
            own.extend(point)
            if point[0][0] < steps and falls_behind(own, others, rank):
                raise Stopped

    return listener


def falls_behind(
    curve: Sequence[Point], others: Sequence[Sequence[Point]], rank: Callable[[float], float]
) -> bool:
    """Whether the best of a curve is worse than the median of the others up to its last step."""
    last = curve[-1][0]
    reached = [
        min(rank(score) for step, score in other if step <= last)
        for other in others
        if other and other[0][0] <= last <= other[-1][0]
    ]
    best = min(rank(score) for _, score in curve)
    return len(reached) >= FEWEST and best > median(reached)
