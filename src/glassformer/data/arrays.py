"""Images or audio clips of one size, decoded once and stored for each split: one column of rows."""

import hashlib
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from glassformer.data.store import Store, Writer
from glassformer.errors import DataError

KIND = "arrays"
Item = Callable[[], np.ndarray]
"""Decodes one item to the shape of the store; DataError if it cannot be read."""


@dataclass(frozen=True)
class ArraySplit:
    """The readable items of one split: row i is item `kept[i]`; `skipped`: the error of each other
    item."""

    array: np.ndarray
    """A memory map."""
    kept: np.ndarray
    """int64, ascending."""
    skipped: tuple[str, ...]


def store_arrays(
    folder: Path,
    request: dict[str, Any],
    splits: Mapping[str, Sequence[Item]],
    shape: Sequence[int],
    dtype: str,
    skip: bool,
) -> Store:
    """The store of decoded items; see `Store.open_or_build`.

    `skip`: items that cannot be read are left out and counted; otherwise the first of them is the
    DataError.
    """

    def write(writer: Writer) -> None:
        for name, items in splits.items():
            column, skipped = writer.column(name, KIND, dtype, tuple(shape)), {}
            for number, item in enumerate(items):
                try:
                    column.append(np.broadcast_to(item(), shape))
                except DataError as problem:
                    if not skip:
                        raise
                    skipped[str(number)] = str(problem)
            writer.counts[name] = {"items": len(items), "skipped": skipped}

    wanted = {"kind": KIND, "shape": list(shape), "type": dtype, **request}
    return Store.open_or_build(folder, wanted, write)


def arrays_of(store: Store, name: str) -> ArraySplit:
    """A split by its name."""
    count = store.counts[name]
    skipped = count["skipped"]
    kept = np.array([i for i in range(count["items"]) if str(i) not in skipped], np.int64)
    return ArraySplit(store.array(name, KIND), kept, tuple(skipped.values()))


def stamp_of(paths: Sequence[str | list[str] | None]) -> str:
    """Names, sizes and times of the files that settings name (folders with all that is in them), in
    16 hex digits."""
    seen = hashlib.sha256()
    for path in paths:
        for name in [path] if isinstance(path, str) else path or []:
            for file in _files(Path(name)):
                stat = file.stat()
                seen.update(f"{file}|{stat.st_size}|{stat.st_mtime_ns}\n".encode())
            seen.update(f"{name}\n".encode())
    return seen.hexdigest()[:16]


def _files(path: Path) -> Iterator[Path]:
    place = path
    # a member of an archive, or a glob: what holds it
    while not place.exists() and place != place.parent:
        place = place.parent
    if place.is_dir():
        for folder, folders, names in os.walk(place):
            folders.sort()
            yield from (Path(folder) / name for name in sorted(names))
    else:
        yield place
