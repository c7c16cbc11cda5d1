"""Scores of the checkpoints of a run, measured again as training measures.

rows = [*checkpoint_scores(run, print)]
best(rows, "loss").step
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

from glassformer.core.devices import candidates
from glassformer.core.errors import CheckpointError, ConfigError
from glassformer.metrics.scores import SCORES
from glassformer.models.transformer import Transformer
from glassformer.run.evaluating import own_data
from glassformer.run.run import Run
from glassformer.training.folder.checkpoints import Checkpoints
from glassformer.training.folder.history import evaluations, of_model, read_metrics


@dataclass(frozen=True)
class CheckpointScores:
    """Scores of the validation split at a step, and those that training `reported` of it, {}: none.

    `mean`: of the mean of checkpoints that is the run's model, instead of a checkpoint's weights.
    """

    step: int
    scores: dict[str, Any]
    reported: dict[str, Any]
    mean: bool = False


def checkpoint_scores(run: Run, say: Callable[[str], None]) -> Iterator[CheckpointScores]:
    """Score the checkpoints of a run as training does, then its model, if it is a mean of them; a
    damaged checkpoint is reported by `say` and left out.

    ConfigError: a run without recipe, checkpoints or validation split; DataError: data that are not
    there any more.
    """
    if run.recipe is None:
        raise ConfigError(
            f"{run.folder} has no recipe.yaml, so training left no checkpoints in it."
        )
    checkpoints, lines = Checkpoints(run.folder), read_metrics(run.folder)
    if not (there := checkpoints.steps()):
        raise ConfigError(
            f"{run.folder} has no checkpoints; score its model without --all-checkpoints."
        )
    reported = {(one.step, one.mean): one.scores for one in evaluations(lines)}
    [precision] = candidates(run.recipe.train.precision)
    with own_data(run.task, "validation") as (task, _):
        if not task.objective.validated:
            raise ConfigError(f"{run.folder} has no validation split to choose by.")
        how = task.objective.validation(precision)

        def score(step: int, model: Transformer, mean: bool) -> CheckpointScores:
            scores = task.objective.evaluate(model, "validation", how)
            return CheckpointScores(step, scores, reported.get((step, mean), {}), mean)

        for step in there:
            try:
                model = replace(run, bits=None).at(step).model
            except CheckpointError as error:
                say(f"left out: {error}")
            else:
                yield score(step, model, mean=False)
        if (own := of_model(lines, checkpoints.state(there[-1]).best_step)).mean:
            yield score(own.step, run.model, mean=True)


def steps(run: Run) -> list[int]:
    """Steps of the checkpoints of a run."""
    return Checkpoints(run.folder).steps()


def history(run: Run) -> list[dict[str, Any]]:
    """Lines of the metrics of a run's training."""
    return read_metrics(run.folder)


def seal(run: Run, step: int) -> str:
    """Return a digest that changes if a step is trained again. ConfigError: there is no such
    checkpoint."""
    return Checkpoints(run.folder).seal(step)


def best(rows: Sequence[CheckpointScores], metric: str) -> CheckpointScores:
    """The best row by a score; of equals the earliest."""
    sign = 1 if SCORES[metric].higher_is_better else -1
    return max(rows, key=lambda row: sign * row.scores[metric])
