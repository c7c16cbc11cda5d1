"""The trials of a sweep: all combinations of values, or those that Optuna's sampler (a
tree-structured Parzen estimator) proposes.

FOLDER/sweep.db               Optuna's study: values and scores, also for optuna-dashboard
FOLDER/sweep.html             a curve of each trial, and a table
FOLDER/learning_rate=0.003/   the run of a trial

A proposal is a function of the seed and of the trials before it, and a trial that was stopped is
the same trial of the study when it continues: a killed sweep ends as if it had not been killed.
"""

import json
import re
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from itertools import product
from pathlib import Path
from typing import Any

from glassformer.errors import CheckpointError, ConfigError, GlassformerError
from glassformer.files import LOCK, locked
from glassformer.metrics.scores import SCORES
from glassformer.pages.charts import Point
from glassformer.recipe.named import recipe_file
from glassformer.recipe.recipe import Recipe, read_recipe, read_yaml
from glassformer.sweep.report import write_report
from glassformer.sweep.space import Axes, as_text, optuna, read_space
from glassformer.training.history import read_metrics
from glassformer.training.loop import train
from glassformer.training.progress import Progress

FILE = "sweep.db"
LONGEST_NAME = 100


@dataclass(frozen=True)
class Trial:
    """A trial: its run folder, values as a recipe has them, status, best score, curve, and seconds
    of training."""

    run: Path
    changes: dict[str, str]
    status: str
    score: float | None
    curve: list[Point]
    seconds: float
    error: str

    @property
    def step(self) -> float:
        """The step of the last score."""
        return self.curve[-1][0] if self.curve else 0


class Sweep:
    """A sweep in its folder."""

    def __init__(self, folder: Path, metric: str, identity: str):
        self.folder, self.metric = folder, metric
        self.interrupted: int | None = None
        """The signal that ended it before its end."""
        others = sorted(one.name for one in folder.iterdir() if one.name != LOCK)
        if others and FILE not in others:
            raise ConfigError(
                f"{folder} already holds {others[0]}, and a sweep has a folder of its own; choose "
                "another --run."
            )
        library = optuna()
        library.logging.set_verbosity(library.logging.ERROR)
        try:
            self.study = library.create_study(
                storage=f"sqlite:///{folder / FILE}",
                study_name="sweep",
                direction="maximize" if SCORES[metric].higher_is_better else "minimize",
                pruner=library.pruners.MedianPruner(n_startup_trials=3, n_min_trials=3),
                load_if_exists=True,
            )
            known = self.study.user_attrs.get("identity", identity)
        except import_module("sqlalchemy.exc").DatabaseError as problem:
            raise CheckpointError(
                f"{folder / FILE} cannot be read ({problem.orig}); choose another --run."
            ) from None
        if known != identity:
            raise ConfigError(
                f"{folder} holds a sweep of another recipe or of other fields; give the same, or "
                "choose another --run."
            )
        self.study.set_user_attr("identity", identity)

    @property
    def trials(self) -> list[Trial]:
        """The trials that have begun, the best first."""
        begun = [self.read(one) for one in self.study.trials if one.state.name != "WAITING"]
        return sorted(begun, key=lambda one: (one.status == "failed", self._rank(one.score)))

    @property
    def best(self) -> Trial | None:
        """The trial with the best score."""
        return next((one for one in self.trials if one.status in ("done", "stopped")), None)

    def read(self, found: Any) -> Trial:
        """Return a trial of the study, with what its run has logged."""
        changes = {field: as_text(value) for field, value in found.params.items()}
        run = self.folder / _name(changes)
        lines, error = read_metrics(run), found.user_attrs.get("error", "")
        curve = [point for line in lines for point in points_of(line, self.metric)]
        best = min((score for _, score in curve), key=self._rank, default=None)
        done = found.state.name == "COMPLETE"
        status = "failed" if error else "running"
        return Trial(
            run,
            changes,
            {"COMPLETE": "done", "PRUNED": "stopped"}.get(found.state.name, status),
            found.value if done else best,
            curve,
            max((line.get("seconds", 0.0) for line in lines), default=0.0),
            error,
        )

    def _rank(self, score: float | None) -> float:
        """Return a number that is lower for a better score."""
        if score is None:
            return float("inf")
        return -score if SCORES[self.metric].higher_is_better else score


def points_of(line: Mapping[str, Any], metric: str) -> list[Point]:
    """Return the point of a line of metrics with this score; none of a mean of checkpoints."""
    name = f"validation_{metric}"
    return [(line["step"], line[name])] if name in line and "averaged" not in line else []


def sweep(
    recipe: str,
    arguments: Sequence[str],
    folder: Path,
    trials: int | None = None,
    seed: int = 0,
    keep_all: bool = False,
    progress: Progress | None = None,
) -> Sweep:
    """Train every trial in `folder`, or those that an earlier start left.

    `arguments` as of `read_space`; `trials`: search with this number of trials instead of a grid;
    `keep_all`: train all to their end, without the median rule. ConfigError before the first step:
    an invalid recipe of a trial, another sweep in the folder, no Optuna.
    """
    fixed, axes = read_space(arguments)
    grid = _grid(axes) if trials is None else []
    recipes = [_recipe(recipe, fixed, params) for params in grid or [{}]]
    values = read_yaml(recipe_file(recipe)), sorted(arguments), None if trials is None else seed
    with locked(folder):
        own = Sweep(folder, _metric(recipes), json.dumps(values, default=str))
        for params in grid:
            own.study.enqueue_trial(params, skip_if_exists=True)
        for number in range(trials or len(grid)):
            own.study.sampler = optuna().samplers.TPESampler(seed=seed + number)
            asked = _trial(own.study, number, axes)
            if asked is not None:
                _train(own, asked, (recipe, fixed), keep_all, progress or Progress())
                write_report(own)
            if own.interrupted is not None:
                break
    return own


def _trial(study: Any, number: int, axes: Axes) -> Any:
    """Return the trial of a study to train; None: it is over."""
    begun = [one for one in study.trials if one.state.name != "WAITING"]
    if number >= len(begun):
        return study.ask(axes)
    if begun[number].state.is_finished():
        return None
    return optuna().trial.Trial(study, begun[number]._trial_id)


def _grid(axes: Axes) -> list[dict[str, Any]]:
    """Return every combination of choices; ConfigError: a range."""
    for field, axis in axes.items():
        if not hasattr(axis, "choices"):
            raise ConfigError(
                f"{field} has a range, which is searched; add --trials N, or give a list."
            )
    combinations = product(*(axis.choices for axis in axes.values()))
    return [dict(zip(axes, values, strict=True)) for values in combinations]


def _recipe(recipe: str, fixed: Sequence[str], params: Mapping[str, Any]) -> Recipe:
    varied = [f"{field}={as_text(value)}" for field, value in params.items()]
    try:
        return read_recipe(recipe, [*fixed, *varied])
    except ConfigError as error:
        told = f"The trial {' '.join(varied)} is invalid: {error}" if varied else str(error)
        raise ConfigError(told) from None


def _metric(recipes: Sequence[Recipe]) -> str:
    """Return the score that compares trials; ConfigError: several, or nothing to validate on."""
    metrics = sorted({recipe.train.evaluate.best for recipe in recipes})
    if len(metrics) > 1:
        raise ConfigError(
            f"The trials would be compared by {' and '.join(metrics)}; give one "
            "train.evaluate.best."
        )
    for data in (recipe.data for recipe in recipes):
        if not any((data.validation.path, data.validation.where, data.validation.fraction)):
            raise ConfigError(
                "Trials are compared by their validation scores; set data.validation.path or "
                "data.validation.fraction."
            )
    return metrics[0]


def _name(changes: Mapping[str, str]) -> str:
    """Return the name of the folder of a trial."""
    shown = (f"{key.rpartition('.')[2]}={value}" for key, value in changes.items())
    text = re.sub(r"[^\w.=+-]+", "_", "-".join(shown))
    return text if len(text) <= LONGEST_NAME else f"{text[:90]}-{zlib.crc32(text.encode()):08x}"


def _train(
    own: Sweep, asked: Any, recipe: tuple[str, Sequence[str]], keep_all: bool, progress: Progress
) -> None:
    """Train the run of a trial, or continue it, and store its end; a trial that fails stays open,
    and the next start of the sweep tries it again."""
    library, found = optuna(), own.study.trials[asked.number]
    run, known = own.read(found).run, found.intermediate_values
    made = _recipe(*recipe, found.params)
    asked.set_user_attr("error", "")

    def follow(line: Mapping[str, Any]) -> None:
        for step, score in points_of(line, own.metric):
            if step not in known:  # when the trial was stopped
                asked.report(score, step)
            new = step >= max(known, default=0)
            if new and not keep_all and step < made.train.steps and asked.should_prune():
                raise library.TrialPruned

    progress.message(run.name)
    try:
        result = train(made, run, (run / LOCK).is_file(), progress, [follow])
        own.interrupted = result.interrupted
        if result.best is None:
            raise ConfigError("it has no validation score")
        if result.interrupted is None:
            own.study.tell(asked, result.best)
    except library.TrialPruned:
        own.study.tell(asked, state=library.trial.TrialState.PRUNED)
        progress.message(f"{run.name} falls behind and is stopped")
    except (GlassformerError, RuntimeError, MemoryError) as error:
        said = " ".join(str(error).split()) or "out of memory"
        asked.set_user_attr("error", said)
        progress.message(f"{run.name} failed: {said}")
