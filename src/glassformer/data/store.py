"""One columnar, memory-mapped store of derived data, built once and reused while nothing changed.

FOLDER/store.json              the request that it answers, the columns and counts of each split
FOLDER/manifest.json           size and SHA-256 of each file, compared when the store is opened
FOLDER/train.NAME.values       numbers of a column: rows of one shape, or concatenated ragged rows
FOLDER/train.NAME.ends         end of each ragged row, int64 offsets into the values
FOLDER/test.NAME.jsonl         a JSON value for each row

A folder is complete or absent: it is filled beside its place, then renamed into it.
"""

import json
import os
import re
import shutil
import uuid
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, BinaryIO, Self, final

import numpy as np

from glassformer.core.errors import DataError
from glassformer.core.files import read_json, replace_folder, write_json
from glassformer.core.manifest import LARGEST, difference, write_manifest
from glassformer.core.manifest import NAME as MANIFEST
from glassformer.data.config import DataConfig
from glassformer.data.sources import Source

FORMAT, VERSION, ABOUT = "glassformer store", 4, "store.json"
FORMER = 3
"""The version of stores whose manifest holds both, without hashes to compare."""
_FILE = re.compile(r"(train|validation|test)\.[a-z]+\.(values|ends|jsonl)|(store|manifest)\.json")


@dataclass(frozen=True)
class Ragged:
    """Rows of different lengths: row i is values[ends[i - 1] : ends[i]]."""

    values: np.ndarray
    ends: np.ndarray
    """int64, ascending; the last is the number of values."""

    def __len__(self) -> int:
        return len(self.ends)

    def row(self, i: int) -> np.ndarray:
        """The values of a row."""
        return self.values[self.ends[i - 1] if i else 0 : self.ends[i]]

    @cached_property
    def lengths(self) -> np.ndarray:
        """The number of values in each row, int64."""
        return np.diff(self.ends, prepend=0)


class Column:
    """A column that is being written: ragged rows of `dtype`, whose ends go into a file of their
    own, rows of one `shape`, or JSON values (no dtype)."""

    def __init__(
        self,
        dtype: str | None,
        shape: tuple[int, ...] | None,
        out: BinaryIO,
        ends: BinaryIO | None = None,
    ):
        self.dtype, self._shape, self._out, self._ends = dtype, shape, out, ends
        self.rows = self.size = 0
        """Rows, and numbers written; of JSON, bytes."""

    def append(self, row: Any) -> None:
        """Write a row: an array, or a JSON value."""
        self._end_row()
        self.rows += 1
        if self.dtype is None:
            row = np.frombuffer(json.dumps(row, ensure_ascii=False).encode() + b"\n", np.uint8)
        self.extend(row)

    def extend(self, values: np.ndarray) -> None:
        """Add numbers to the last row."""
        self._out.write(np.ascontiguousarray(values, self.dtype).data)
        self.size += values.size

    def join(self, more: Ragged) -> None:
        """Write the rows of another column, of which the first continues the last one here."""
        assert self._ends is not None
        self._ends.write((more.ends[:-1] + self.size).data)  # the last may continue, too
        self.rows += len(more) - (self.rows > 0)
        self.extend(more.values)

    def _end_row(self) -> None:
        if self.rows and self._ends is not None:
            self._ends.write(np.int64(self.size).tobytes())

    def finish(self) -> dict[str, Any]:
        """End the last row; the column's entry in the store."""
        self._end_row()
        shape = None if self._shape is None else list(self._shape)
        return {"type": self.dtype, "rows": self.rows, "size": self.size, "shape": shape}


class Writer:
    """The columns and counts of a store that is being built."""

    def __init__(self, folder: Path, files: ExitStack):
        self._folder, self._files = folder, files
        self._columns: dict[tuple[str, str], Column] = {}
        self.counts: dict[str, dict[str, Any]] = {}
        """JSON values about each split, for its readers."""

    def column(
        self, split: str, name: str, dtype: str | None, shape: tuple[int, ...] | None = None
    ) -> Column:
        """A column of a split, created at the first call; see `Column`."""
        if (split, name) not in self._columns:
            kinds = (
                ["jsonl"] if dtype is None else ["values", "ends"] if shape is None else ["values"]
            )
            paths = [self._folder / f"{split}.{name}.{kind}" for kind in kinds]
            files = [self._files.enter_context(path.open("wb", 1 << 20)) for path in paths]
            self._columns[split, name] = Column(dtype, shape, *files)
        return self._columns[split, name]

    def finish(self) -> dict[str, Any]:
        """Finish every column; the splits of the store."""
        splits: dict[str, Any] = {}
        for (split, name), column in self._columns.items():
            of = splits.setdefault(split, {"counts": self.counts.get(split, {}), "columns": {}})
            of["columns"][name] = column.finish()
        return splits


@final
class Store:
    """A complete folder of columns."""

    def __init__(self, folder: Path, about: dict[str, Any]) -> None:
        self.folder, self._splits, self.request = folder, about["splits"], about["request"]
        self.counts: dict[str, dict[str, Any]] = {
            name: split["counts"] for name, split in self._splits.items()
        }
        """JSON values about each split, from the writer."""

    @classmethod
    def open_or_build(
        cls, folder: Path, request: dict[str, Any], write: Callable[[Writer], None]
    ) -> Self:
        """The store in `folder` if it is complete and of the same `request`, else built by `write`
        as one step.

        `request`: everything that the content depends on, as JSON, with its `kind`. DataError: a
        full disk, or a folder with other files in it, which stays as it is.
        """
        place = folder.absolute()
        about = _whole(place)
        if about is None or about["request"] != request:
            about = _build(place, request, write)
        return cls(place, about)

    @classmethod
    def open(cls, folder: Path, kind: str, hashed: bool = True) -> Self:
        """An existing store; without `hashed`, for a few examples, columns are not compared.

        DataError: none of this kind, or damaged.
        """
        about = _whole(folder, hashed)
        if about is None or about["request"]["kind"] != kind:
            raise DataError(
                f"there is no whole store of {kind} in {folder}; build it from its data again"
            )
        return cls(folder, about)

    def array(self, split: str, name: str) -> np.ndarray:
        """A memory map of a column: [rows, *shape], or all values of ragged rows."""
        column = self._splits[split]["columns"][name]
        one = column["shape"]
        shape = (column["size"],) if one is None else (column["rows"], *one)
        return self._map(f"{split}.{name}.values", column["type"], shape)

    def ragged_column(self, split: str, name: str) -> Ragged:
        """A column of ragged rows."""
        rows = self._splits[split]["columns"][name]["rows"]
        return Ragged(self.array(split, name), self._map(f"{split}.{name}.ends", "int64", (rows,)))

    def values(self, split: str, name: str) -> list[Any]:
        """A column of JSON values."""
        lines = (self.folder / f"{split}.{name}.jsonl").read_bytes().split(b"\n")
        return [json.loads(line) for line in lines if line]

    def _map(self, name: str, dtype: str, shape: tuple[int, ...]) -> np.ndarray:
        if not np.prod(shape):  # an empty file cannot be mapped
            return np.zeros(shape, dtype)
        return np.memmap(self.folder / name, dtype, "r", shape=shape)


def check_split(store: Store, name: str, problem: str, remedy: str) -> None:
    """Raise DataError if the store has no split of this name; `remedy` for training data."""
    if name not in store.counts:
        if name in ("validation", "test"):
            remedy = f"set data.{name}.path or data.{name}.fraction"
        raise DataError(f"{problem}; {remedy} (there is {', '.join(store.counts)})")


def place_of(config: DataConfig, folder: str | os.PathLike[str]) -> Path:
    """The folder that the settings name for the store, else `folder`."""
    if config.store is None:
        return Path(folder)
    return Path(config.root or ".").expanduser() / Path(config.store).expanduser()


def request_of(
    kind: str,
    config: DataConfig,
    sources: Mapping[Any, Sequence[Source]],
    fields: set[str],
    tokenizer: dict[str, Any],
) -> dict[str, Any]:
    """Return everything that token ids from these sources depend on: the files, these fields of the
    settings, the tokenizer."""
    return {
        "kind": kind,
        "sources": {name: [source.stamp() for source in of] for name, of in sources.items()},
        "fractions": list(config.held_out),
        "settings": config.model_dump(include=fields),
        "tokenizer": tokenizer,
    }


def _whole(folder: Path, hashed: bool = True) -> dict[str, Any] | None:
    """Return what a store says of itself if its files are as they were written, or None.

    Without `hashed`, the files of columns are not compared: a damaged one is an error when it is
    read.
    """
    try:
        former = not (folder / ABOUT).exists()
        about = read_json(folder / (MANIFEST if former else ABOUT), LARGEST)
        if (about["format"], about["version"]) != (FORMAT, FORMER if former else VERSION):
            return None
        compared = None if hashed else [ABOUT]
        whole = former or difference(folder, [ABOUT], compared) is None
        return about if whole and about["request"]["kind"] else None
    except (OSError, ValueError, TypeError, KeyError, AttributeError):
        return None


def _build(
    folder: Path, request: dict[str, Any], write: Callable[[Writer], None]
) -> dict[str, Any]:
    """Fill `folder` and return what it says of itself; an interruption changes nothing."""
    _refuse_other_files(folder)
    work = folder.parent / f".{folder.name}.{uuid.uuid4().hex[:12]}.tmp"
    about = {"format": FORMAT, "version": VERSION, "request": request}
    try:
        work.mkdir(parents=True)
        with ExitStack() as files:
            writer = Writer(work, files)
            write(writer)
            about["splits"] = writer.finish()
        write_json(work / ABOUT, about)
        write_manifest(work)
        replace_folder(work, folder)
    except (OSError, DataError) as problem:
        other = _whole(folder)  # another process may have built the same at the same time
        if other is not None and other["request"] == request:
            return other
        if isinstance(problem, DataError):
            raise
        raise DataError(
            f"cannot write the store {folder}: {problem.strerror or problem}; free space or set "
            f"data.store"
        ) from problem
    finally:
        shutil.rmtree(work, ignore_errors=True)
    return about


def _refuse_other_files(folder: Path) -> None:
    """Raise DataError for a file, or a folder with files that are no store's: building replaces
    it."""
    found = folder.iterdir() if folder.is_dir() else [folder] if folder.exists() else ()
    if other := min((path.name for path in found if not _FILE.fullmatch(path.name)), default=None):
        raise DataError(
            f"{folder} is to be a folder of encoded data and nothing else, but {other} is there; "
            "choose another data.store"
        )
