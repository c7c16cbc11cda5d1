"""The array store: pictures or recordings of one size, decoded once, as memory-mapped arrays.

FOLDER/manifest.json     what it was made from, which items could be read, what was wrong with the others
FOLDER/train.npy         one row for each item that could be read (also validation.npy and test.npy)
"""

import hashlib
import json
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self, final

import numpy as np

from glassformer.data.folder import MANIFEST, build
from glassformer.data.split import NAMES
from glassformer.errors import DataError

VERSION = 1
FORMAT = "glassformer array store"
_FILES = {MANIFEST, *(f"{name}.npy" for name in NAMES)}

Item = Callable[[], np.ndarray]
"""Decodes one item to the shape of the store; DataError if it cannot be read."""
Progress = Callable[[str, int, int | None], None]


@dataclass(frozen=True)
class Rows:
    """What could be read of one split: row i is item `kept[i]`; `skipped` says what was wrong with
    each other."""

    array: np.ndarray
    kept: np.ndarray
    """int64, ascending."""
    skipped: tuple[str, ...]


@final
class ArrayStore:
    """A folder of arrays that is known to be whole."""

    def __init__(self, folder: Path, manifest: dict[str, Any]) -> None:
        self.folder = folder
        self._shape: list[int] = manifest["request"]["shape"]
        self._splits: dict[str, dict[str, Any]] = manifest["splits"]

    @classmethod
    def open_or_build(
        cls,
        folder: Path,
        request: dict[str, Any],
        splits: Mapping[str, Sequence[Item]],
        shape: Sequence[int],
        kind: str,
        skip: bool,
        progress: Progress | None = None,
    ) -> Self:
        """The store in `folder` if it was made by the same `request`, else built anew, as a whole
        or not at all.

        `skip`: items that cannot be read are left out and counted; otherwise the first of them is
        the DataError.
        """
        place, wanted = (
            folder.absolute(),
            {"version": VERSION, "shape": list(shape), "kind": kind, **request},
        )
        manifest = _whole(place)
        if manifest is None or manifest["request"] != wanted:

            def write(work: Path) -> dict[str, Any]:
                counts = {
                    name: _write(
                        work / f"{name}.npy",
                        name,
                        items,
                        tuple(shape),
                        np.dtype(kind),
                        skip,
                        progress,
                    )
                    for name, items in splits.items()
                }
                return {"format": FORMAT, "request": wanted, "splits": counts}

            manifest = build(place, _FILES, write, _whole)
        return cls(place, manifest)

    def split(self, name: str) -> Rows:
        """The rows of a split."""
        of = self._splits[name]
        n = of["kept"]
        kept = np.array([i for i in range(of["items"]) if str(i) not in of["skipped"]], np.int64)
        array = (
            np.load(self.folder / f"{name}.npy", mmap_mode="r")
            if n
            else np.zeros((0, *self._shape))
        )
        return Rows(array, kept, tuple(of["skipped"].values()))


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
    while (
        not place.exists() and place != place.parent
    ):  # a member of an archive, or a glob: what holds it
        place = place.parent
    if place.is_dir():
        for folder, folders, names in os.walk(place):
            folders.sort()
            yield from (Path(folder) / name for name in sorted(names))
    else:
        yield place


def _write(
    path: Path,
    split: str,
    items: Sequence[Item],
    shape: tuple[int, ...],
    kind: np.dtype,
    skip: bool,
    progress: Progress | None,
) -> dict[str, Any]:
    skipped: dict[str, str] = {}
    array = np.lib.format.open_memmap(path, mode="w+", dtype=kind, shape=(len(items), *shape))
    kept = 0
    for number, item in enumerate(items):
        try:
            array[kept] = item()
            kept += 1
        except DataError as problem:
            if not skip:
                raise
            skipped[str(number)] = str(problem)
        if progress is not None and number % 256 == 0:
            progress(f"read the {split} files", number, len(items))
    array.flush()
    del array
    if skipped:  # rows that nothing was written to stand at the end
        whole = np.load(path, mmap_mode="r")
        short = path.with_suffix(".short.npy")
        np.save(short, whole[:kept])
        short.replace(path)
    return {"items": len(items), "kept": kept, "skipped": skipped}


def _whole(folder: Path) -> dict[str, Any] | None:
    """The manifest of a store whose files have the shapes that it says, or None."""
    try:
        manifest = json.loads((folder / MANIFEST).read_bytes())
        if manifest["format"] != FORMAT or manifest["request"]["version"] != VERSION:
            return None
        for name, of in manifest["splits"].items():
            if name not in NAMES or of["kept"] + len(of["skipped"]) != of["items"]:
                return None
            if of["kept"]:
                array = np.load(folder / f"{name}.npy", mmap_mode="r", allow_pickle=False)
                wanted = (of["kept"], *manifest["request"]["shape"])
                if array.shape != wanted or array.dtype != np.dtype(manifest["request"]["kind"]):
                    return None
    except (OSError, ValueError, TypeError, KeyError, AttributeError, RecursionError):
        return None
    return manifest if manifest["splits"] else None
