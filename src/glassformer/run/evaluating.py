"""Scores of a model on the data of its run, or on other data in the same form."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

from glassformer.data.config import NAMES, DataConfig
from glassformer.data.sources import capture_stdin
from glassformer.errors import ConfigError, DataError, GlassformerError, suggest
from glassformer.files import scratch_folder
from glassformer.metrics.comparison import judged
from glassformer.models.transformer import Transformer
from glassformer.processors.inputs import split_of
from glassformer.recipe.recipe import Recipe
from glassformer.tasks.evaluate import Evaluation
from glassformer.tasks.task import Task

Training = Callable[[], Sequence[Any]]
"""The records of the training split, read when they are asked for."""


def on_own_data(
    task: Task, model: Transformer, split: str, targets: str | None, how: Evaluation
) -> dict[str, Any]:
    """Scores of a split of the run's data, with baselines where the task has them. ConfigError: no
    such split, or targets."""
    _check_split(split)
    if targets is not None:
        _check_pairs(task)
        raise ConfigError("--targets are those of --data's sources; give --data PATH too.")
    with own_data(task, split) as (opened, train):
        return {"split": split, "data": None, **_scores(opened, model, split, how, train)}


@contextmanager
def own_data(task: Task, split: str) -> Iterator[tuple[Task, Training]]:
    """The task with a split of the run's data, and its training records."""
    with scratch_folder() as place:  # a run folder may be read-only
        kept = task.stored()
        if kept is None:
            yield _opened(task, task.recipe.data, place, split)
        else:
            opened = type(task)(task.recipe, task.processor, task.folder, kept)
            yield opened, lambda: opened.split("train").records


def on_other_data(
    task: Task,
    model: Transformer,
    recipe: Recipe | None,
    data: str,
    targets: str | None,
    split: str,
    how: Evaluation,
) -> dict[str, Any]:
    """Scores of all of `data` (`-`: standard input); baselines learn from the training split of the
    run's `recipe`. ConfigError: a split, or targets of a task that has none."""
    _check_split(split)
    if targets is not None:
        _check_pairs(task)
    if split != "validation":
        raise ConfigError(
            f"The split {split!r} is of the run's own data, and --data is scored whole; leave "
            "one of them out."
        )

    def train() -> Sequence[Any]:
        if recipe is None:
            raise DataError(f"{task.folder} has no recipe.yaml, which names its training data")
        return split_of(task.processor.read(recipe.data), "train")

    with other_data(task, data, targets) as opened:
        return {"split": "all", "data": data, **_scores(opened, model, split, how, train)}


@contextmanager
def other_data(task: Task, data: str, targets: str | None = None) -> Iterator[Task]:
    """The task with all of `data` as its validation split."""
    with scratch_folder() as place:
        form = _other_data(task.recipe.data, data, targets)
        yield _opened(task, capture_stdin(form, place), place, "validation")[0]


def _check_split(split: str) -> None:
    if split not in NAMES:
        raise ConfigError(f"There is no split {split!r}; {suggest(split, NAMES)}")


def _check_pairs(task: Task) -> None:
    if "pair" not in task.processor.capabilities:
        raise ConfigError(
            "Only an encoder-decoder has targets beside its data; leave out --targets."
        )


def _scores(
    task: Task, model: Transformer, split: str, how: Evaluation, train: Training
) -> dict[str, Any]:
    scores = task.evaluate(model, split, how)
    try:
        found = task.baselines(split, how, train)
    except GlassformerError as error:
        found = {"missing": str(error)}
    return scores | ({"baselines": judged(found, scores)} if found else {})


def _opened(task: Task, data: DataConfig, scratch: Path, split: str) -> tuple[Task, Training]:
    recipe = replace(task.recipe, data=data)
    records = task.processor.read(data)
    task.processor.check(records)
    opened = type(task).open(recipe, task.processor, records, task.folder, [split], scratch)
    return opened, lambda: split_of(records, "train")


def _other_data(own: DataConfig, path: str, targets: str | None) -> DataConfig:
    """Settings for other data in the same form, all of them as the validation split."""
    train = {"path": path, "targets": targets, "parts": own.train.parts}
    splits = {"train": train, "validation": {"path": path, "targets": targets}, "test": {}}
    return DataConfig.parse(own.model_dump() | splits | {"root": None, "store": None})
