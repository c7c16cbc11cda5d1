"""The trials of a sweep: all combinations of values, or those that Optuna's sampler (a
tree-structured Parzen estimator) proposes.

FOLDER/sweep.db             | Optuna's study: values and scores, also for optuna-dashboard
FOLDER/sweep.html           | a curve of each trial, and a table
FOLDER/learning_rate=0.003/ | the run of a trial

A proposal is a function of the seed and of the trials before it, and a trial that was stopped is
the same trial of the study when it continues: a killed sweep ends as if it had not been killed.
"""

import json
from collections.abc import Mapping, Sequence
from itertools import product
from pathlib import Path
from typing import Any

from glassformer.core.errors import ConfigError, GlassformerError
from glassformer.core.locks import LOCK, lock
from glassformer.core.progress import Progress
from glassformer.recipe.named import recipe_file
from glassformer.recipe.reading import read_recipe, read_yaml
from glassformer.recipe.recipe import Recipe
from glassformer.sweep.space import Axes, as_text, optuna, read_space
from glassformer.sweep.study import Sweep, points_of, write_report
from glassformer.training.loop.train import train


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
    with lock(folder):
        own = Sweep(folder, _metric(recipes), json.dumps(values, default=str))
        for params in grid:
            own.study.enqueue_trial(params, skip_if_exists=True)
        for number in range(wanted := trials or len(grid)):
            own.study.sampler = optuna().samplers.TPESampler(seed=seed + number)
            asked = _trial(own.study, number, axes)
            if asked is not None:
                _train(own, asked, (recipe, fixed), keep_all, progress or Progress())
                write_report(own)
            over = sum(one.state.is_finished() for one in own.study.trials[:wanted])
            if own.stop.signal and over < wanted:
                own.interrupted = own.stop.signal
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
        if not isinstance(axis, optuna().distributions.CategoricalDistribution):
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
        sentence = f"The trial {' '.join(varied)} is invalid: {error}" if varied else str(error)
        raise ConfigError(sentence) from None


def _metric(recipes: Sequence[Recipe]) -> str:
    """Return the score that compares trials; ConfigError: several, or nothing to validate on."""
    metric, *others = sorted({recipe.train.evaluate.best for recipe in recipes})
    if others:
        raise ConfigError(
            f"The trials would be compared by {' and '.join([metric, *others])}; give one "
            "train.evaluate.best."
        )
    for split in (recipe.data.validation for recipe in recipes):
        if not (split.path or split.where or split.fraction):
            raise ConfigError(
                "Trials are compared by their validation scores; set data.validation.path or "
                "data.validation.fraction."
            )
    return metric


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
        resume = (run / LOCK).is_file()
        result = train(made, run, resume, progress=progress, listeners=[follow], stop=own.stop)
        if result.interrupted is not None:
            return
        if result.best is None:
            raise ConfigError("it has no validation score")
        own.study.tell(asked, result.best)
    except library.TrialPruned:
        own.study.tell(asked, state=library.trial.TrialState.PRUNED)
        progress.message(f"{run.name} falls behind and is stopped")
    except (GlassformerError, RuntimeError, MemoryError) as error:
        said = " ".join(str(error).split()) or "out of memory"
        asked.set_user_attr("error", said)
        progress.message(f"{run.name} failed: {said}")
