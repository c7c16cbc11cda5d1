"""Rows divided into splits: by file, or at random."""

from collections.abc import Callable, Iterator
from typing import TypeVar

import numpy as np

from glassformer.data.config import NAMES, DataConfig, SplitName
from glassformer.random_stream import epoch_key, permute

Row = TypeVar("Row")


def in_splits(
    config: DataConfig, rows: Callable[[SplitName], Iterator[Row]]
) -> Iterator[tuple[SplitName, Row]]:
    """Every row with its split; `rows` reads a split's files (those of train twice, if rows are
    held out).

    Splits without files are held out from train by a fixed permutation, since files are often
    sorted.
    """
    validation, test = config.held_out
    if validation or test:
        n = sum(1 for _ in rows("train"))
        last = permute(np.arange(n), n, epoch_key(0, 0)) if n else np.zeros(0, int)
        for place, row in zip(last, rows("train"), strict=True):
            held = place < round(n * (validation + test))
            split: SplitName = (
                "train" if not held else "validation" if place < round(n * validation) else "test"
            )
            yield split, row
    for split in NAMES[1:] if validation or test else NAMES:
        if split == "train" or config.splits[split].path is not None:
            for row in rows(split):
                yield split, row
