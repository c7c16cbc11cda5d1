"""Scores of the checkpoints of a run by a new evaluation, beside those that training reported, and
the choice of the best.

rows = list(checkpoint_scores(run))
best(rows, "loss").step
choose(run, rows, print)
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

from glassformer.errors import ConfigError
from glassformer.files import write_json
from glassformer.metrics.scores import SCORES
from glassformer.models.transformer import Transformer
from glassformer.run.evaluating import own_data
from glassformer.run.run import Run
from glassformer.tasks.task import Task
from glassformer.training.checkpoint import BEST, Checkpoints, State
from glassformer.training.history import VALIDATION, History, read_metrics, scores_at
from glassformer.training.machine import candidates, choose_machine, environment
from glassformer.training.model_card import Origin
from glassformer.training.report import write_report
from glassformer.training.run_folder import held, prepare
from glassformer.training.saving import Saving

ROUNDING = {"float32": 1e-3, "bfloat16": 3e-2}
"""Relative difference of two losses of the same weights, by precision. Other processors, threads
and sizes of batches add in other orders: some 1e-6 in float32, as far as seen."""


@dataclass(frozen=True)
class CheckpointScores:
    """Scores of the validation split at a step, those that training `reported` of it, {}: none, and
    sample output as training shows it.

    `mean`: of the mean of checkpoints that is the run's model, instead of a checkpoint's weights.
    """

    step: int
    scores: dict[str, Any]
    reported: dict[str, Any]
    sample: dict[str, Any]
    mean: bool = False

    @property
    def line(self) -> dict[str, Any]:
        """Values of this step in `metrics.jsonl`."""
        return {f"{VALIDATION}{name}": value for name, value in self.scores.items()} | self.sample

    @property
    def difference(self) -> float:
        """Relative difference of the losses; 0 if none was reported."""
        if "loss" not in self.reported:
            return 0.0
        return abs(self.scores["loss"] / self.reported["loss"] - 1)


def checkpoint_scores(
    run: Run, steps: Sequence[int] = (), decode: bool = True
) -> Iterator[CheckpointScores]:
    """Score the checkpoints of a run (or of some `steps`), measured as training measures; then its
    model, if it is a mean of them. Without `decode`, nothing is generated or sampled.

    ConfigError: a run without recipe, checkpoints or validation split; CheckpointError: a damaged
    checkpoint; DataError: data that are not there any more.
    """
    if run.recipe is None:
        raise ConfigError(
            f"{run.folder} has no recipe.yaml, so training left no checkpoints in it."
        )
    steps, lines = steps or Checkpoints(run.folder).steps(), read_metrics(run.folder)
    if not steps:
        raise ConfigError(
            f"{run.folder} has no checkpoints; score its model without --all-checkpoints."
        )
    [precision] = candidates(run.recipe.train.precision)
    with own_data(run.task, "validation") as (task, _):
        if not task.validated:
            raise ConfigError(f"{run.folder} has no validation split to choose by.")
        how = task.validation(precision)
        how = how if decode else replace(how, lines=0)

        def score(step: int, model: Transformer, mean: bool) -> CheckpointScores:
            scores = task.evaluate(model, "validation", how)
            sample = task.sample(model) if decode and not mean else None
            own = {} if sample is None else sample.values
            return CheckpointScores(step, scores, scores_at(lines, step, mean), own, mean)

        for step in steps:
            yield score(step, replace(run, bits=None).at(step).model, mean=False)
        for line in lines:
            if line.get("averaged_taken"):
                yield score(line["step"], run.model, mean=True)


def seal(run: Run, step: int) -> str:
    """Return a digest that changes if a step is trained again. ConfigError: there is no such
    checkpoint."""
    return Checkpoints(run.folder).seal(step)


def best(rows: Sequence[CheckpointScores], metric: str) -> CheckpointScores:
    """The best row by a score; of equals the earliest."""
    sign = 1 if SCORES[metric].higher_is_better else -1
    return max(rows, key=lambda row: sign * row.scores[metric])


@dataclass(frozen=True)
class ReportCheck:
    """Largest relative difference between the losses that training reported and those of the
    weights, the rounding that is allowed, and, if it is larger, the best step by a new
    evaluation."""

    difference: float
    rounding: float
    best_step: int | None


def check_report(run: Run) -> ReportCheck | None:
    """Compare what training reported of the best and of the newest checkpoint with their weights;
    None: there is nothing to compare. Errors of `checkpoint_scores`."""
    checkpoints = Checkpoints(run.folder)
    if run.recipe is None or not (steps := checkpoints.steps()):
        return None
    best_step, lines = checkpoints.state(steps[-1]).best_step, read_metrics(run.folder)
    compared = [step for step in steps if step in (steps[-1], best_step)]
    compared = [step for step in compared if scores_at(lines, step, mean=False)]
    if not compared:
        return None
    rounding = ROUNDING[run.recipe.train.precision]
    difference = max(row.difference for row in checkpoint_scores(run, compared, decode=False))
    if difference <= rounding:
        return ReportCheck(difference, rounding, None)
    found = best([*checkpoint_scores(run)], run.recipe.train.evaluate.best)
    return ReportCheck(difference, rounding, found.step)


def choose(
    run: Run, rows: Sequence[CheckpointScores], say: Callable[[str], None]
) -> CheckpointScores:
    """Make the best of all checkpoints the run's model, and correct what the run reported of each;
    returns its row.

    What training reported of steps that have no checkpoint can't be measured again: if any score
    was wrong, those values get the prefix `reported_` in `metrics.jsonl` and leave the curves.
    Errors: as of `glassformer train --resume`.
    """
    assert run.recipe is not None
    metric, folder = run.recipe.train.evaluate.best, run.folder
    of_steps, chosen = [row for row in rows if not row.mean], best(rows, metric)
    wrong = any(row.difference > ROUNDING[run.recipe.train.precision] for row in rows)
    with held(folder, resume=True):
        task = prepare(run.recipe, folder, True, say).task()
        checkpoints = Checkpoints(folder, run.recipe.train.save)
        history = History(folder, max(line["step"] for line in read_metrics(folder)))
        for line in () if chosen.mean else history.since(0, "averaged_taken"):
            line["averaged_taken"] = False
        history.correct({(row.step, row.mean): row.line for row in rows}, withdraw=wrong)
        for at, row in enumerate(of_steps, 1):
            leader = best(of_steps[:at], metric)
            state = replace(
                checkpoints.state(row.step),
                best_step=leader.step,
                best_score=leader.scores[metric],
            )
            checkpoints.amend(state)
        if not chosen.mean:
            _export(run, task, history, checkpoints.state(of_steps[-1].step), say)
        history.sync()
        history.close()
        write_report(folder, task, history.lines, task.recipe.yaml())
    return chosen


def _export(
    run: Run, task: Task, history: History, state: State, say: Callable[[str], None]
) -> None:
    """Make the best checkpoint of a state the run's model."""
    assert run.recipe is not None
    checkpoints = Checkpoints(run.folder, run.recipe.train.save)
    write_json(checkpoints.folder / BEST, {"step": state.best_step, "score": state.best_score})
    machine = choose_machine("cpu", run.recipe.train.precision)
    baselines = [line["baselines"] for line in history.lines if "baselines" in line]
    origin = Origin(state.data, environment(machine), baselines[-1] if baselines else {})
    Saving(task, checkpoints, history, state, say).export_best(state, origin)
