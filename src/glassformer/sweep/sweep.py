"""The trials of a sweep, one after the other: all combinations of values, or those that Optuna's
sampler (a tree-structured Parzen estimator) proposes.

A proposal is a function of the seed and of the trials before it, so a search that was killed
continues as if it had not been.
"""

import json
import time
from collections.abc import Iterator, Mapping, Sequence
from itertools import product
from pathlib import Path
from typing import Any

from glassformer.errors import ConfigError, GlassformerError
from glassformer.files import LOCK, locked
from glassformer.recipe.named import recipe_file
from glassformer.recipe.recipe import Recipe, read_recipe, read_yaml
from glassformer.signals import overheard
from glassformer.sweep.report import write_report
from glassformer.sweep.space import Axes, as_text, choices, optuna, read_space
from glassformer.sweep.trials import Sweep, points_of
from glassformer.training.loop import train
from glassformer.training.progress import Progress


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
    (fixed, axes), progress = read_space(arguments), progress or Progress()
    grid = _grid(axes) if trials is None else []
    recipes = [_recipe(recipe, fixed, params) for params in grid or _examples(axes)]
    values = read_yaml(recipe_file(recipe)), sorted(arguments), None if trials is None else seed
    with locked(folder), overheard() as signals:
        own = Sweep(folder, _metric(recipes), json.dumps(values, default=str))
        for number, params in _list_trials(own, grid, trials or len(grid)):
            sampler = optuna().samplers.TPESampler(seed=seed + number)
            own.study.sampler = sampler
            if params is not None:
                own.study.enqueue_trial(params)
            _train(own, own.study.ask(axes), recipe, fixed, keep_all, progress)
            write_report(own)
            if signals:
                own.interrupted = signals[0]
                break
    return own


def _grid(axes: Axes) -> list[dict[str, Any]]:
    """Return every combination of choices; ConfigError: a range."""
    for field, axis in axes.items():
        if not hasattr(axis, "choices"):
            raise ConfigError(
                f"{field} has a range, which is searched; add --trials N, or give a list."
            )
    combinations = product(*(axis.choices for axis in axes.values()))
    return [dict(zip(axes, values, strict=True)) for values in combinations]


def _examples(axes: Axes) -> list[dict[str, Any]]:
    """Return each choice and each end of a range once, beside the first of the others."""
    first = {field: choices(axis)[0] for field, axis in axes.items()}
    return [first | {field: value} for field, axis in axes.items() for value in choices(axis)]


def _recipe(recipe: str, fixed: Sequence[str], params: Mapping[str, Any]) -> Recipe:
    varied = [f"{field}={as_text(value)}" for field, value in params.items()]
    try:
        return read_recipe(recipe, [*fixed, *varied])
    except ConfigError as error:
        raise ConfigError(f"The trial {' '.join(varied)} is invalid: {error}") from None


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


def _list_trials(
    own: Sweep, grid: Sequence[dict[str, Any]], total: int
) -> Iterator[tuple[int, dict[str, Any] | None]]:
    """Yield the number and values of each trial to train; None: the sampler proposes them."""
    over = [trial.params for trial in own.trials() if trial.over]
    if grid:
        yield from ((i, params) for i, params in enumerate(grid) if params not in over)
        return
    begun = [trial.params for trial in own.trials() if not trial.over and trial.params not in over]
    for number in range(len(over), total):
        yield number, begun.pop(0) if begun else None


def _train(
    own: Sweep, asked: Any, recipe: str, fixed: Sequence[str], keep_all: bool, progress: Progress
) -> None:
    """Train the run of a trial, or continue it, and store what became of it."""
    trial, begin = own.trials()[-1], time.monotonic()
    states, run = optuna().trial.TrialState, own.run(trial)
    progress.message(trial.name)
    try:
        made = _recipe(recipe, fixed, trial.params)
        resume = (run / LOCK).is_file()
        for step, score in own.curve(trial) if resume else []:
            asked.report(score, step)

        def follow(line: Mapping[str, Any]) -> None:
            for step, score in points_of(line, own.metric):
                asked.report(score, step)
                if not keep_all and step < made.train.steps and asked.should_prune():
                    raise optuna().TrialPruned

        result = train(made, run, resume, progress, [follow])
        if result.interrupted is not None:
            return
        asked.set_user_attr("steps", result.steps)
        score, state = result.best, states.COMPLETE
        if score is None:
            raise ConfigError("it has no validation score")
    except optuna().TrialPruned:
        score, state = None, states.PRUNED
        progress.message(f"{trial.name} falls behind and is stopped")
    except (GlassformerError, RuntimeError, MemoryError) as error:
        score, state = None, states.FAIL
        asked.set_user_attr("error", " ".join(str(error).split()) or "out of memory")
        progress.message(f"{trial.name} failed: {asked.user_attrs['error']}")
    asked.set_user_attr("seconds", round(time.monotonic() - begin, 1))
    own.study.tell(asked, score, state)
