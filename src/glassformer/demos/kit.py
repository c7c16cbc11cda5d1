"""The kit of every demo: ordinary files, the split that each thing is held out for, and results
beside those of baselines."""

import json
import zlib
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.random import Generator, default_rng

from glassformer.data.config import NAMES, DataConfig, SplitName
from glassformer.metrics.scores import by_name
from glassformer.run import Run


def counts(train: int, validation: int, test: int) -> dict[SplitName, int]:
    """Return the numbers of examples of the splits."""
    return {"train": train, "validation": validation, "test": test}


def split_of(name: str) -> SplitName:
    """Split of everything made of `name`: one name of ten for validation, one for the test."""
    splits: dict[int, SplitName] = {0: "validation", 1: "test"}
    return splits.get(zlib.crc32(name.encode()) % 10, "train")


def write_table(path: Path, header: str, rows: Iterable[Sequence[str]]) -> None:
    """Write tab-separated values; `header` names the columns."""
    write_lines(path, map("\t".join, [header.split(), *rows]))


def write_json_lines(path: Path, rows: Iterable[Any]) -> None:
    """Write a JSON value on each line."""
    write_lines(path, (json.dumps(row, ensure_ascii=False) for row in rows))


def write_labelled(
    folder: Path,
    counts: Mapping[SplitName, int],
    suffix: str,
    write: Callable[[Generator, SplitName, Path], str],
) -> None:
    """Write files and a table of their labels for each split; `write` writes one and returns its
    label."""
    for seed, split in enumerate(NAMES):
        (folder / split).mkdir()
        random, rows = default_rng(seed), list[tuple[str, str]]()
        for number in range(counts[split]):
            file = f"{split}/{number}{suffix}"
            rows.append((file, write(random, split, folder / file)))
        write_table(folder / f"{split}.tsv", "file_name label", rows)


def write_lines(path: Path, lines: Iterable[str]) -> None:
    """Write lines of UTF-8 that end as on Unix."""
    with path.open("w", encoding="utf-8", newline="\n") as file:
        file.writelines(f"{line}\n" for line in lines)


class Shown(NamedTuple):
    """Results of a demo: values for JSON, lines for a terminal."""

    values: dict[str, Any]
    lines: list[str]


def table(scores: Mapping[str, float], form: str = "7.2%") -> list[str]:
    """Return a line for each score."""
    return [f"  {name:34} {value:{form}}" for name, value in scores.items()]


def with_baselines(scores: Mapping[str, Any]) -> dict[str, float]:
    """Return the scores of the baselines of an evaluation, then the score of the model."""
    learned = scores["baselines"]
    return {**by_name(learned), "this model": scores[learned["metric"]]}


def train_and_test(
    run: Run, read: Callable[[DataConfig], Iterable[Any]]
) -> tuple[list[Any], list[Any]]:
    """Return the training rows and the test rows of a run's data as `read` gives them."""
    assert run.recipe is not None
    rows = defaultdict[SplitName, list[Any]](list)
    for row in read(run.recipe.data):
        rows[row.split].append(row)
    return rows["train"], rows["test"]


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
