"""Results of a trained demo: scores beside those of baselines, and examples."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from glassformer.data.config import DataConfig
from glassformer.metrics.comparison import compared
from glassformer.run import Run


@dataclass(frozen=True)
class Shown:
    """Results of a demo: values for JSON, lines for a terminal."""

    values: dict[str, Any]
    lines: list[str]


def table(scores: Mapping[str, float], form: str = "7.2%") -> list[str]:
    """Return a line for each score."""
    return [f"  {name:34} {value:{form}}" for name, value in scores.items()]


def with_baselines(scores: Mapping[str, Any], own: str = "this model") -> dict[str, float]:
    """Return the scores of the baselines of an evaluation, then the score of the model."""
    learned = scores["baselines"]
    return {**compared(learned), own: scores[learned["metric"]]}


def train_and_test(
    run: Run, read: Callable[[DataConfig], Iterable[Any]]
) -> tuple[list[Any], list[Any]]:
    """Return the training rows and the test rows of a run's data as `read` gives them."""
    assert run.recipe is not None
    rows = list(read(run.recipe.data))
    train, test = ([row for row in rows if row.split == split] for split in ("train", "test"))
    return train, test


def nearest_neighbour(
    train: torch.Tensor, labels: Sequence[str], test: torch.Tensor, gold: Sequence[str]
) -> float:
    """Accuracy of the label of the nearest row of `train` by Euclidean distance."""
    nearest = torch.cdist(test, train).argmin(1).tolist()
    return sum(labels[i] == own for i, own in zip(nearest, gold, strict=True)) / len(gold)


def show_classes(
    run: Run,
    what: str,
    read: Callable[[DataConfig], Iterable[Any]],
    given: Callable[[Any], Any],
) -> Shown:
    """Accuracy of a classifier of images or audio on its test files beside two baselines.

    `read` returns the rows of the data, and `given` the model's input of a row.
    """
    scores = run.evaluate("test")

    def patches(rows: list[Any]) -> torch.Tensor:
        found = [run.processor.given_patches(given(row)).ravel() for row in rows]
        return torch.from_numpy(np.stack(found)).float()

    train, test = train_and_test(run, read)
    labels = [[row.labels[0] for row in rows] for rows in (train, test)]
    near = nearest_neighbour(patches(train), labels[0], patches(test), labels[1])
    accuracy = {f"the nearest {what} of training": near, **with_baselines(scores)}
    return Shown(
        {"accuracy": accuracy},
        [
            f"accuracy on {len(test):,} {what}s that it never saw, of {len(run.classes)} classes:",
            *table(accuracy),
        ],
    )
