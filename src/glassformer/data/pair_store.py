"""The pair store: both sides of every split as memory-mapped token ids, built once and reused while
nothing changed.

FOLDER/manifest.json                          what it was made from, and how much of everything there is
FOLDER/train.source.tokens  train.source.ends  ids and where each row ends (also .target, validation, test)
FOLDER/validation.jsonl  test.jsonl            the texts themselves, which scores of decoded text are taken against
"""

import json
import os
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Self, final

import numpy as np

from glassformer.data.config import DataConfig
from glassformer.data.folder import MANIFEST, build
from glassformer.data.pairs import Pair, pair_sources, pairs
from glassformer.data.split import NAMES
from glassformer.errors import DataError

VERSION = 1
FORMAT = "glassformer pair store"
SIDES = ("source", "target")
_COLUMNS = [f"{name}.{side}" for name in NAMES for side in SIDES]
_FILES = {
    MANIFEST,
    *(f"{c}.{kind}" for c in _COLUMNS for kind in ("tokens", "ends")),
    *(f"{n}.jsonl" for n in NAMES),
}

Encode = Callable[[str], np.ndarray]


@dataclass(frozen=True)
class Column:
    """Rows of token ids behind one another: row i is tokens[ends[i - 1] : ends[i]]."""

    tokens: np.ndarray
    """A memory map of int32 ids."""
    ends: np.ndarray

    def __len__(self) -> int:
        return len(self.ends)

    def row(self, i: int) -> np.ndarray:
        """The ids of a row."""
        return self.tokens[self.ends[i - 1] if i else 0 : self.ends[i]]

    @cached_property
    def lengths(self) -> np.ndarray:
        """How many ids each row has, int64."""
        return np.diff(self.ends, prepend=0)


@dataclass(frozen=True)
class PairText:
    """A pair as it was read: what a decoded text is compared with."""

    source: str
    target: str
    group: str | None = None


@dataclass(frozen=True)
class PairSplit:
    """One split's pairs: `source` ids end with <eos> and `target` ids as well."""

    name: str
    source: Column
    target: Column
    folder: Path

    def __len__(self) -> int:
        return len(self.source)

    def texts(self) -> list[PairText]:
        """The pairs as they were read; not kept for training pairs."""
        try:
            lines = (self.folder / f"{self.name}.jsonl").read_text(encoding="utf-8").split("\n")
            texts = [PairText(**json.loads(line)) for line in lines if line]
            if len(texts) != len(self):
                raise ValueError(f"there are {len(texts)} {self.name} texts for {len(self)} pairs")
            return texts
        except (OSError, ValueError, TypeError, RecursionError) as problem:
            raise DataError(
                f"cannot read the texts of {self.folder}: {problem}; delete it to build it anew"
            ) from None


@final
class PairStore:
    """A folder of pairs of token ids that is known to be whole."""

    def __init__(self, folder: Path, manifest: dict[str, Any]) -> None:
        self.folder = folder
        self.counts: dict[str, dict[str, int]] = manifest["splits"]
        """For each split that has pairs: pairs, source_tokens, target_tokens."""

    @classmethod
    def open_or_build(
        cls,
        folder: str | os.PathLike[str],
        encoders: tuple[Encode, Encode],
        fingerprints: tuple[str, str],
        config: DataConfig,
    ) -> Self:
        """The store in `config.store`, else in `folder`: reused if whole and made from the same,
        else built anew.

        Building is atomic: an interruption leaves what was there. DataError: unreadable pairs, a
        full disk, or a folder with other files in it, which is left alone.
        """
        place = Path(folder).absolute()
        if config.store is not None:
            place = (
                Path(config.root or ".").expanduser() / Path(config.store).expanduser()
            ).absolute()
        request = _request(config, fingerprints)
        manifest = _whole(place)
        if manifest is None or manifest["request"] != request:
            manifest = build(
                place, _FILES, lambda work: _write(work, request, encoders, config), _whole
            )
        return cls(place, manifest)

    @classmethod
    def open(cls, folder: str | os.PathLike[str]) -> Self:
        """The store in a folder as it is, without its sources; DataError if there is none or it is
        damaged."""
        manifest = _whole(Path(folder))
        if manifest is None:
            raise DataError(
                f"there is no whole pair store in {folder}; build it from its text again"
            )
        return cls(Path(folder), manifest)

    def split(self, name: str) -> PairSplit:
        """A split by its name: train, validation or test; DataError if it has no pairs."""
        if name not in self.counts:
            own = f"set data.{name}_path or data.{name}_fraction"
            remedy = (
                own
                if name != "train"
                else "give more pairs, or hold out a smaller fraction of them"
            )
            raise DataError(
                f"there are no {name} pairs; {remedy} (there is {', '.join(self.counts)})"
            )
        source, target = (self._column(f"{name}.{side}") for side in SIDES)
        return PairSplit(name, source, target, self.folder)

    def _column(self, name: str) -> Column:
        try:
            tokens = np.memmap(self.folder / f"{name}.tokens", dtype=np.int32, mode="r")
            return Column(tokens, np.fromfile(self.folder / f"{name}.ends", dtype=np.int64))
        except (OSError, ValueError) as problem:
            raise DataError(
                f"cannot read {self.folder}: {problem}; delete it to build it anew"
            ) from None


def _request(config: DataConfig, fingerprints: tuple[str, str]) -> dict[str, Any]:
    """Everything that the content of a store depends on, as JSON."""
    sources = {
        field: [source.stamp() for source in found] for field, found in pair_sources(config).items()
    }
    fields = {"format", "source_field", "target_field", "group_field", "encoding", "prefix"}
    fractions = [config.held_out_validation, config.held_out_test]
    settings = config.model_dump(include=fields)
    tokenizer = {"fingerprint": fingerprints[1], "source": fingerprints[0]}
    return {
        "version": VERSION,
        "sources": sources,
        "fractions": fractions,
        "tokenizer": tokenizer,
    } | settings


def _whole(folder: Path) -> dict[str, Any] | None:
    """The manifest of a store whose files have the sizes that it says, or None."""
    try:
        manifest = json.loads((folder / MANIFEST).read_bytes())
        if manifest["format"] != FORMAT or manifest["request"]["version"] != VERSION:
            return None
        for name, count in manifest["splits"].items():
            for side in SIDES:
                right = count[f"{side}_tokens"] * 4, count["pairs"] * 8
                found = tuple(
                    (folder / f"{name}.{side}.{kind}").stat().st_size for kind in ("tokens", "ends")
                )
                if name not in NAMES or right != found or not count["pairs"]:
                    return None
            if name != "train" and not (folder / f"{name}.jsonl").is_file():
                return None
    except (OSError, ValueError, TypeError, KeyError, AttributeError, RecursionError):
        return None
    return manifest if manifest["splits"] else None


def _write(
    work: Path, request: dict[str, Any], encoders: tuple[Encode, Encode], config: DataConfig
) -> dict[str, Any]:
    writers: dict[str, _Writer] = {}
    try:
        for pair in pairs(config):
            if pair.split not in writers:
                writers[pair.split] = _Writer(work, pair.split)
            writers[pair.split].add(pair, encoders)
        return {
            "format": FORMAT,
            "request": request,
            "splits": {name: w.finish() for name, w in writers.items()},
        }
    finally:
        for writer in writers.values():
            writer.close()


class _Writer:
    """Appends pairs to the files of one split."""

    def __init__(self, folder: Path, name: str) -> None:
        self._folder, self._name = folder, name
        opened = lambda file, *how, **more: open(folder / f"{name}.{file}", *how, **more)  # noqa: E731, SIM115
        self._files = {side: opened(f"{side}.tokens", "wb", buffering=1 << 20) for side in SIDES}
        self._texts = None if name == "train" else opened("jsonl", "w", encoding="utf-8")
        self._ends: dict[str, list[int]] = {side: [] for side in SIDES}
        self._tokens = dict.fromkeys(SIDES, 0)

    def add(self, pair: Pair, encoders: tuple[Encode, Encode]) -> None:
        for side, text, encode in zip(SIDES, (pair.source, pair.target), encoders, strict=True):
            ids = encode(text)
            self._files[side].write(ids.astype(np.int32).tobytes())
            self._tokens[side] += len(ids)
            self._ends[side].append(self._tokens[side])
        if self._texts is not None:
            text = {"source": pair.source, "target": pair.target}
            text |= {} if pair.group is None else {"group": pair.group}
            self._texts.write(json.dumps(text, ensure_ascii=False) + "\n")

    def finish(self) -> dict[str, int]:
        for side in SIDES:
            with open(self._folder / f"{self._name}.{side}.ends", "wb") as out:
                out.write(np.array(self._ends[side], dtype=np.int64).tobytes())
                out.flush()
                os.fsync(out.fileno())
        for file in (*self._files.values(), *([self._texts] if self._texts else [])):
            file.flush()
            os.fsync(file.fileno())
        sizes = {f"{side}_tokens": self._tokens[side] for side in SIDES}
        return {"pairs": len(self._ends["source"]), **sizes}

    def close(self) -> None:
        for file in (*self._files.values(), *([self._texts] if self._texts else [])):
            file.close()
