"""Ordinary files, and the split that each thing is held out for."""

import json
import zlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from numpy.random import Generator, default_rng

from glassformer.data.config import NAMES, SplitName


def split_of(name: str) -> SplitName:
    """Split of everything made of `name`: one name of ten for validation, one for the test."""
    splits: dict[int, SplitName] = {0: "validation", 1: "test"}
    return splits.get(zlib.crc32(name.encode()) % 10, "train")


def write_table(path: Path, header: str, rows: Iterable[Sequence[str]]) -> None:
    """Write tab-separated values; `header` names the columns."""
    _write_lines(path, map("\t".join, [header.split(), *rows]))


def write_json_lines(path: Path, rows: Iterable[Any]) -> None:
    """Write a JSON value on each line."""
    _write_lines(path, (json.dumps(row, ensure_ascii=False) for row in rows))


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


def _write_lines(path: Path, lines: Iterable[str]) -> None:
    with path.open("w", encoding="utf-8", newline="\n") as file:
        file.writelines(f"{line}\n" for line in lines)
