"""Images or audio clips of one size, decoded once and stored for each split: one column of rows."""

import hashlib
import json
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from glassformer.core.errors import DataError
from glassformer.data.store import Store, Writer

KIND = "arrays"


@dataclass(frozen=True)
class ArraySplit:
    """The readable items of one split: row i is item `kept[i]`; `skipped`: the error of each other
    item."""

    array: np.ndarray
    """A memory map."""
    kept: np.ndarray
    """int64, ascending."""
    skipped: tuple[str, ...]
    clipped: int = 0
    """Items of which something was cut off."""


def store_arrays(
    folder: Path,
    request: dict[str, Any],
    splits: Mapping[str, Sequence[Any]],
    decode: Callable[[Any], np.ndarray],
    shape: Sequence[int],
    dtype: str,
    clipped: Callable[[], int] = int,
) -> dict[str, ArraySplit]:
    """The decoded items of each split, stored in a folder; see `Store.open_or_build`.

    With `skip` in the request, items that cannot be read are left out and counted; otherwise the
    first of them is the DataError. `clipped`: how many of the items so far have lost something.
    """

    def write(writer: Writer) -> None:
        for name, items in splits.items():
            column, skipped = writer.column(name, KIND, dtype, tuple(shape)), {}
            before = clipped()
            for number, item in enumerate(items):
                try:
                    column.append(np.broadcast_to(decode(item), shape))
                except DataError as problem:
                    if not request.get("skip"):
                        raise
                    skipped[str(number)] = str(problem)
            lost = clipped() - before
            writer.counts[name] = {"items": len(items), "skipped": skipped, "clipped": lost}

    wanted = {"kind": KIND, "shape": list(shape), "type": dtype, **request}
    # an evaluation has no recipe
    with hinting(request.get("skip", False) or "train" not in splits):
        store = Store.open_or_build(folder, wanted, write)
    return {name: arrays_of(store, name) for name in splits}


def arrays_of(store: Store, name: str) -> ArraySplit:
    """A split by its name."""
    count = store.counts[name]
    skipped = count["skipped"]
    kept = np.array([i for i in range(count["items"]) if str(i) not in skipped], np.int64)
    clipped = count.get("clipped", 0)
    return ArraySplit(store.array(name, KIND), kept, tuple(skipped.values()), clipped)


@contextmanager
def hinting(skip: bool) -> Iterator[None]:
    """Add to a DataError that unreadable files can be left out."""
    try:
        yield
    except DataError as problem:
        if skip:
            raise
        raise DataError(
            f"{problem}, or set data.bad_files=skip to go on without such files"
        ) from None


def request_of(
    records: Mapping[str, Sequence[Any]], settings: Mapping[str, Any], skip: bool
) -> dict[str, Any]:
    """Return everything that decoded files depend on: names, sizes and times of files, settings."""
    seen = hashlib.sha256()
    for name, of in records.items():
        for record in of:
            about = [name, record.where]
            with suppress(OSError):  # decoding it is the error
                status = os.stat(record.file)
                about += [status.st_size, status.st_mtime_ns]
            seen.update(json.dumps(about).encode())
    return {"files": seen.hexdigest()[:16], "settings": settings, "skip": skip}
