"""Scores of the checkpoints of a run, measured again, and the choice of the best.

    for row in checkpoint_scores(run, print): ...
    best(rows, "loss").step
    choose(run, print, rows.append)

A choice corrects, in this order, the states of the checkpoints, the run's model and the log: a
choice that was killed is still seen by `check_report`, and can be made again.
"""

import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from glassformer.errors import CheckpointError, ConfigError, GlassformerError
from glassformer.files import write_json
from glassformer.metrics.scores import SCORES
from glassformer.models.transformer import Transformer
from glassformer.recipe.recipe import Recipe
from glassformer.recipe.train import DECODED
from glassformer.run.evaluating import own_data
from glassformer.run.run import Run
from glassformer.tasks.task import Task
from glassformer.training.checkpoint import BEST, Checkpoints, State
from glassformer.training.history import VALIDATION, History, read_metrics, scores_at
from glassformer.training.machine import candidates
from glassformer.training.model_card import Origin
from glassformer.training.model_files import CARD, export
from glassformer.training.report import write_report
from glassformer.training.run_folder import held, prepare, unchanged
from glassformer.training.start import model_to_fill

Say = Callable[[str], None]
ROUNDING = {"float32": 1e-3, "bfloat16": 3e-2}
"""Relative difference of two losses of the same weights, by precision. Other processors, threads
and sizes of batches add in other orders: some 1e-6 in float32, as far as seen."""
DECODING = 0.1
"""The same of scores of decoded text, in which one rounding may change a whole line."""
LEAST = {"bleu": 1.0, "chrf": 1.0}
"""Scores below this, or 0.1, are compared as if they were as large."""


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

    def misfit(self, precision: str) -> float:
        """Largest difference between a loss or a score of decoded text and the reported one, as a
        multiple of what rounding explains; 0 if none was reported."""
        allowed = {"loss": ROUNDING[precision]} | dict.fromkeys(DECODED, DECODING)
        return max(
            (
                abs(self.scores[name] - was) / max(abs(was), LEAST.get(name, 0.1)) / allowed[name]
                for name, was in self.reported.items()
                if name in allowed and name in self.scores
            ),
            default=0.0,
        )


def checkpoint_scores(
    run: Run, say: Say, steps: Sequence[int] = (), decode: bool = True
) -> Iterator[CheckpointScores]:
    """Score the checkpoints of a run (or of some `steps`), measured as training measures, then its
    model, if it is a mean of them; a damaged checkpoint is reported by `say` and left out.

    Without `decode`, nothing is generated or sampled. ConfigError: a run without recipe,
    checkpoints or validation split; DataError: data that are not there any more.
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
    [precision] = candidates(run.recipe.train.precision)
    with own_data(run.task, "validation") as (task, _):
        if not task.validated:
            raise ConfigError(f"{run.folder} has no validation split to choose by.")
        how = task.validation(precision)
        how = how if decode else replace(how, lines=0)

        def score(step: int, model: Transformer, mean: bool) -> CheckpointScores:
            scores, sample = task.evaluate(model, "validation", how), None
            with suppress(GlassformerError):  # a sample is not worth an evaluation
                sample = task.sample(model) if decode and not mean else None
            own = {} if sample is None else sample.values
            return CheckpointScores(step, scores, scores_at(lines, step, mean), own, mean)

        for step in steps or there:
            try:
                model = replace(run, bits=None).at(step).model
            except CheckpointError as error:
                say(f"left out: {error}")
            else:
                yield score(step, model, mean=False)
        if not steps and (line := taken_mean(lines, checkpoints.state(there[-1]))):
            yield score(line["step"], run.model, mean=True)


def taken_mean(lines: Sequence[dict[str, Any]], state: State) -> dict[str, Any] | None:
    """Return the line of the mean of checkpoints that is a run's model; None: it is none."""
    since = state.best_step or 0
    means = [line for line in lines if line["step"] >= since and line.get("averaged_taken")]
    return means[-1] if means else None


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
    """The misfit of the newest scores that training reported, and, if it is above 1, the best step
    by a new evaluation (None: unknown)."""

    misfit: float
    best_step: int | None = None


def check_report(run: Run, say: Say) -> ReportCheck | None:
    """Compare the newest scores that training reported with the weights of their checkpoint; None:
    there is nothing to compare. Older ones may be of other settings of a run that was resumed.

    Errors of `checkpoint_scores`.
    """
    lines = read_metrics(run.folder)
    steps = [step for step in Checkpoints(run.folder).steps() if scores_at(lines, step, mean=False)]
    if run.recipe is None or not steps:
        return None
    train = run.recipe.train
    decode = train.evaluate.best in DECODED
    rows = [*checkpoint_scores(run, say, steps[-1:], decode)]
    if not rows:
        return None
    misfit = rows[0].misfit(train.precision)
    if misfit <= 1:
        return ReportCheck(misfit)
    found = None
    with suppress(GlassformerError):
        found = best([*checkpoint_scores(run, say, decode=decode)], train.evaluate.best).step
    return ReportCheck(misfit, found)


def choose(run: Run, say: Say, show: Callable[[CheckpointScores], None]) -> CheckpointScores:
    """Make the best of all checkpoints the run's model, and correct what the run reported of each;
    returns its row. Each row is also given to `show` when it is measured.

    What training reported of steps that have no checkpoint can't be measured again: if any score
    was wrong, those values get the prefix `reported_` in `metrics.jsonl` and leave the curves.
    ConfigError: the run is being trained, or its data have changed; errors of `checkpoint_scores`.
    """
    folder, recipe = run.folder, run.recipe
    if recipe is None:
        raise ConfigError(f"{folder} has no recipe.yaml, so training left no checkpoints in it.")
    metric, rows = recipe.train.evaluate.best, list[CheckpointScores]()
    with held(folder, resume=True), unchanged(folder):
        checkpoints = Checkpoints(folder, recipe.train.save)
        checkpoints.sweep()
        for row in checkpoint_scores(run, say):
            show(row)
            rows.append(row)
        of_steps = [row for row in rows if not row.mean]
        if not of_steps:
            raise CheckpointError(f"{folder} has no whole checkpoint to choose.")
        chosen, task = best(rows, metric), _task(recipe, checkpoints, of_steps[-1].step, say)
        lines = read_metrics(folder)
        with closing(History(folder, max((one["step"] for one in lines), default=0))) as history:
            mean = taken_mean(history.lines, checkpoints.state(of_steps[-1].step))
            for at, row in enumerate(of_steps, 1):
                leader = best(of_steps[:at], metric)
                own = {"best_step": leader.step, "best_score": leader.scores[metric]}
                checkpoints.amend(replace(checkpoints.state(row.step), **own))
            _export(run, task, chosen, history, mean)
            wrong = any(row.misfit(recipe.train.precision) > 1 for row in rows)
            if mean is not None and not chosen.mean:
                mean["averaged_taken"] = False
            history.correct({(row.step, row.mean): row.line for row in rows}, withdraw=wrong)
            history.sync()
            write_report(folder, task, history.lines, recipe.yaml())
    return chosen


def _task(recipe: Recipe, checkpoints: Checkpoints, step: int, say: Say) -> Task:
    """The task with the data that a checkpoint was trained on; ConfigError: they have changed."""
    here = replace(recipe, train=recipe.train.model_copy(update={"device": "cpu"}))
    folder = checkpoints.folder.parent
    task = prepare(here, folder, True, say).task()
    if task.fingerprint != checkpoints.state(step).data:
        raise ConfigError(
            f"The content of data.train.path is not what {folder} was trained on; restore it."
        )
    return task


def _export(
    run: Run,
    task: Task,
    chosen: CheckpointScores,
    history: History,
    mean: dict[str, Any] | None,
) -> None:
    """Write the chosen model and its card, which keeps the machine that it was trained on."""
    checkpoints, card = Checkpoints(run.folder), run.folder / CARD
    state = checkpoints.state(chosen.step)
    found = re.search(r"\*\*Environment\*\*: glassformer \S+, (.*)", _text(card))
    baselines = [line["baselines"] for line in history.lines if "baselines" in line]
    origin = Origin(state.data, found[1] if found else "", baselines[-1] if baselines else {})
    model = run.model
    if chosen.mean and mean is not None:
        origin = replace(origin, averaged=tuple(mean["averaged"]))
    else:
        model = model_to_fill(task.recipe, run.folder, state.base)
        checkpoints.load(chosen.step, model)
        value = chosen.scores[task.recipe.train.evaluate.best]
        write_json(checkpoints.folder / BEST, {"step": chosen.step, "score": value})
    export(model, task, run.folder, chosen.step, chosen.scores, origin)


def _text(file: Path) -> str:
    return file.read_text(encoding="utf-8", errors="replace") if file.is_file() else ""
