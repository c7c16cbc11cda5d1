"""Scores of a model on the data of its run, or on other data in the same form."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

from glassformer.core.errors import ConfigError, DataError, GlassformerError, suggest
from glassformer.core.files import scratch_folder
from glassformer.data.config import NAMES, DataConfig
from glassformer.data.sources import capture_stdin
from glassformer.metrics.scores import judge
from glassformer.models.transformer import Transformer
from glassformer.processors.inputs import split_of
from glassformer.recipe.recipe import Recipe
from glassformer.tasks.evaluate import Evaluation
from glassformer.tasks.task import Task

Training = Callable[[], Sequence[Any]]
"""The records of the training split, read when they are asked for."""


def evaluate(
    task: Task,
    model: Transformer,
    recipe: Recipe | None,
    split: str,
    data: str | None,
    targets: str | None,
    how: Evaluation,
) -> dict[str, Any]:
    """Scores of a split of the run's data, or of all of `data` (`-`: standard input); baselines
    learn from the training split of the run's `recipe`. ConfigError: no such split, or targets."""
    _check(task, split, data, targets)
    if data is None:
        with own_data(task, split) as (opened, train):
            return {"split": split, "data": None, **_scores(opened, model, split, how, train)}

    def own_train() -> Sequence[Any]:
        if recipe is None:
            raise DataError(f"{task.folder} has no recipe.yaml, which names its training data")
        return split_of(task.processor.read(recipe.data), "train")

    with scratch_folder() as place:
        form = capture_stdin(_other_data(task.recipe.data, data, targets), place)
        opened = _open(task, form, place, split)[0]
        return {"split": "all", "data": data, **_scores(opened, model, split, how, own_train)}


@contextmanager
def own_data(task: Task, split: str) -> Iterator[tuple[Task, Training]]:
    """The task with a split of the run's data, and its training records."""
    with scratch_folder() as place:  # a run folder may be read-only
        kept = task.objective.load_stored()
        if kept is None:
            yield _open(task, task.recipe.data, place, split)
        else:
            opened = Task(task.kind, task.recipe, task.processor, task.folder, kept)
            yield opened, lambda: opened.objective.split("train").records


def _check(task: Task, split: str, data: str | None, targets: str | None) -> None:
    """Raise ConfigError for a split or targets that do not go with the rest."""
    if split not in NAMES:
        raise ConfigError(f"There is no split {split!r}; {suggest(split, NAMES)}")
    if targets is not None:
        task.processor.check_targets()
        if data is None:
            raise ConfigError("--targets are those of --data's sources; give --data PATH too.")
    if data is not None and split != "validation":
        raise ConfigError(
            f"The split {split!r} is of the run's own data, and --data is scored whole; leave "
            "one of them out."
        )


def _scores(
    task: Task, model: Transformer, split: str, how: Evaluation, train: Training
) -> dict[str, Any]:
    scores = task.objective.evaluate(model, split, how)
    try:
        found = task.objective.baselines(split, how, train)
    except GlassformerError as error:
        found = {"missing": str(error)}
    return scores | ({"baselines": judge(found, scores)} if found else {})


def _open(task: Task, data: DataConfig, scratch: Path, split: str) -> tuple[Task, Training]:
    recipe = replace(task.recipe, data=data)
    records = task.processor.read(data)
    task.objective.check(records)
    opened = task.kind.open(recipe, task.processor, records, task.folder, [split], scratch)
    return opened, lambda: split_of(records, "train")


def _other_data(own: DataConfig, path: str, targets: str | None) -> DataConfig:
    """Settings for other data in the same form, all of them as the validation split."""
    train = {"path": path, "targets": targets, "parts": own.train.parts}
    splits = {"train": train, "validation": {"path": path, "targets": targets}, "test": {}}
    return DataConfig.parse(own.model_dump() | splits | {"root": None, "store": None})
