"""The trials of a sweep, one after the other, each an ordinary run."""

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from glassformer.errors import ConfigError, GlassformerError
from glassformer.files import LOCK, locked
from glassformer.metrics.scores import SCORES
from glassformer.recipe.named import recipe_file
from glassformer.recipe.recipe import Recipe, read_recipe, read_yaml
from glassformer.signals import overheard
from glassformer.sweep.report import write_report
from glassformer.sweep.search import library, proposed
from glassformer.sweep.space import Changes, Range, Space, read_space
from glassformer.sweep.state import Sweep, Trial
from glassformer.sweep.stopping import Stopped, stopping
from glassformer.training.loop import train
from glassformer.training.progress import Progress

Say = Callable[[str], None]


def sweep(
    recipe: str,
    arguments: Sequence[str],
    folder: Path,
    trials: int | None = None,
    seed: int = 0,
    keep_all: bool = False,
    progress: Progress | None = None,
) -> Sweep:
    """Train every trial in `folder`, or those that are not over yet of an earlier start.

    `arguments` as of `read_space`; `trials`: a search of so many in place of a grid; `keep_all`:
    train those too that fall behind. ConfigError, before anything is trained: an invalid recipe of
    a trial, another sweep in the folder, `trials` without Optuna.
    """
    space, progress = read_space(arguments), progress or Progress()
    recipes = _checked(recipe, space, trials)
    metric = _metric(recipes)
    identity = {
        "recipe": read_yaml(recipe_file(recipe)),
        "fields": sorted(arguments),
        "search": None if trials is None else seed,
    }
    own = Sweep(folder, metric, SCORES[metric].higher_is_better, identity)
    with locked(folder), overheard() as signals:
        own.restore()
        for number, changes in enumerate(_all_changes(own, space, trials, seed)):
            known = own.trials[number] if number < len(own.trials) else Trial(number, changes)
            if known.over:
                continue
            progress.message(f"{known.name}")
            _train(own, known, recipe, space, keep_all, progress)
            write_report(own)
            if signals:
                own.interrupted = signals[0]
                break
    return own


def _all_changes(own: Sweep, space: Space, trials: int | None, seed: int) -> Iterator[Changes]:
    """The values of every trial, in order: of earlier starts, of the grid, or as they are asked
    for."""
    if trials is None:
        yield from space.grid
        return
    yield from (trial.changes for trial in own.trials)
    for number in range(len(own.trials), trials):
        yield proposed(space, own, number, seed)


def _checked(recipe: str, space: Space, trials: int | None) -> list[Recipe]:
    """The recipes of a grid, or examples of those of a search; ConfigError: an invalid one."""
    if trials is not None:
        library()
    elif found := next((axis for axis in space.axes if isinstance(axis, Range)), None):
        raise ConfigError(
            f"{found.field} has a range, which is searched; add --trials N, or give a list."
        )
    tried = space.grid if trials is None else space.examples
    return [_recipe(recipe, space, changes) for changes in tried]


def _recipe(recipe: str, space: Space, changes: Changes) -> Recipe:
    varied = [f"{field}={value}" for field, value in changes.items()]
    try:
        return read_recipe(recipe, [*space.fixed, *varied])
    except ConfigError as error:
        raise ConfigError(f"The trial {' '.join(varied)} is invalid: {error}") from None


def _metric(recipes: Sequence[Recipe]) -> str:
    """The score by which trials are compared; ConfigError: several, or nothing to validate on."""
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


def _train(
    own: Sweep, trial: Trial, recipe: str, space: Space, keep_all: bool, progress: Progress
) -> None:
    """Train a trial, or go on with it, and keep what became of it."""
    own.keep(replace(trial, status="running"))
    run, begin = own.run(trial), time.monotonic()
    others = [own.curve(one) for one in own.trials[: trial.number] if one.over]
    found: dict[str, Any] = {}
    try:
        made = _recipe(recipe, space, trial.changes)
        resume, steps = (run / LOCK).is_file(), made.train.steps
        rule = stopping(own.curve(trial) if resume else [], others, own.metric, own.rank, steps)
        result = train(made, run, resume, progress, [] if keep_all else [rule])
        found = {"status": "done", "score": result.best, "step": result.steps}
        if result.interrupted is not None:
            found["status"] = "running"
        elif result.best is None:
            found = {"status": "failed", "said": "it has no validation score"}
    except Stopped:
        curve = own.curve(trial)
        best = min(curve, key=lambda point: own.rank(point[1]))[1]
        found = {"status": "stopped", "score": best, "step": round(curve[-1][0])}
        progress.message(f"{trial.name} falls behind and is stopped at step {found['step']}")
    except (GlassformerError, RuntimeError, MemoryError) as error:
        found = {"status": "failed", "said": " ".join(str(error).split()) or "out of memory"}
        progress.message(f"{trial.name} failed: {found['said']}")
    seconds = round(trial.seconds + time.monotonic() - begin, 1)
    own.keep(replace(trial, seconds=seconds, **found))
