"""The baselines of a run: recorded once, and told beside the scores of its best model."""

from collections.abc import Callable
from typing import Any

from glassformer.metrics.comparison import beside, judged
from glassformer.tasks.task import Task
from glassformer.training.checkpoint import State
from glassformer.training.history import History


def recorded(task: Task, history: History, step: int) -> dict[str, Any]:
    """Baselines of the validation split, {} without any; a line of the history has them."""
    found = task.training_baselines()
    before = [line["baselines"] for line in history.lines if "baselines" in line]
    if found and before[-1:] != [found]:
        history.add(step=step, baselines=found)
    return found


def told(
    baselines: dict[str, Any], history: History, state: State, say: Callable[[str], None]
) -> dict[str, Any]:
    """The same with `better`, after a line beside the scores of the best model."""
    means = history.since(state.best_step or 0, "averaged_taken")
    scores = history.scores(means[-1]["step"] if means else state.best_step)
    if not (baselines and scores):
        return baselines
    say(beside(baselines, scores))
    return judged(baselines, scores)
