"""The token store: every split as a flat memory-mapped array of token ids, built once and reused
while nothing changed.

FOLDER/manifest.json     what it was made from, and how much of everything there is
FOLDER/train.tokens      ids, uint16 or uint32 (also validation.tokens and test.tokens)
FOLDER/train.ends        where each document ends, int64 offsets into the tokens
"""

import json
import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, Self, final

import numpy as np

from glassformer.data.config import DataConfig
from glassformer.data.folder import MANIFEST, build
from glassformer.data.sources import resolve
from glassformer.data.split import NAMES, Part, parts
from glassformer.errors import ConfigError, DataError

VERSION = 1
FORMAT = "glassformer token store"
_FILES = {MANIFEST, *(f"{name}.{kind}" for name in NAMES for kind in ("tokens", "ends"))}

Encode = Callable[[str], np.ndarray]
Progress = Callable[[str, int, int | None], None]
"""Called with what is being done, how many units are done, and of how many (None: unknown)."""


@dataclass(frozen=True)
class Split:
    """One split's tokens and what they stand for: UTF-8 bytes and characters of text, separators
    not counted."""

    name: str
    tokens: np.ndarray
    """A memory map of uint16 or uint32 ids."""
    n_bytes: int
    n_characters: int
    document_ends: np.ndarray
    """Offsets behind the last token of each document, int64, ascending; the last is the number of
    tokens."""
    documents: Literal["mixed", "separate"] = "mixed"

    @property
    def described(self) -> str:
        """How an error sentence names it."""
        return {"train": "training"}.get(self.name, self.name) + " text"


@final
class TokenStore:
    """A folder of token ids that is known to be whole."""

    def __init__(
        self, folder: Path, manifest: dict[str, Any], documents: Literal["mixed", "separate"]
    ) -> None:
        self.folder = folder
        self.counts: dict[str, dict[str, int]] = manifest["splits"]
        """For each split that has text: tokens, bytes, characters, documents."""
        self._type = np.dtype(manifest["type"])
        self._documents: Literal["mixed", "separate"] = documents

    @classmethod
    def open_or_build(
        cls,
        folder: str | os.PathLike[str],
        encode: Encode,
        tokenizer_fingerprint: str,
        vocab_size: int,
        eos: int | None,
        config: DataConfig,
        progress: Progress | None = None,
    ) -> Self:
        """The store in `config.store`, else in `folder`: reused if whole and made from the same,
        else built anew.

        `eos` is put behind each document of a split with more than one. Building is atomic: an
        interruption leaves what was there. DataError: unreadable text, a full disk, or a folder
        with other files in it, which is left alone.
        """
        place = Path(folder).absolute()
        if config.store is not None:
            place = Path(config.root or ".").expanduser() / Path(config.store).expanduser()
            place = place.absolute()
        request = _request(config, tokenizer_fingerprint, vocab_size, eos)
        manifest = _whole(place)
        if manifest is None or manifest["request"] != request:
            manifest = _build(place, request, encode, vocab_size, eos, config, progress)
        return cls(place, manifest, config.documents)

    @classmethod
    def open(
        cls, folder: str | os.PathLike[str], documents: Literal["mixed", "separate"] = "mixed"
    ) -> Self:
        """The store in a folder as it is, without its sources; DataError if there is none or it is
        damaged."""
        manifest = _whole(Path(folder))
        if manifest is None:
            raise DataError(
                f"there is no whole token store in {folder}; build it from its text again"
            )
        return cls(Path(folder), manifest, documents)

    def split(self, name: str) -> Split:
        """A split by its name: train, validation or test; DataError if it has no text."""
        if name not in self.counts:
            remedy = (
                f"set data.{name}_path or data.{name}_fraction"
                if name in NAMES[1:]
                else "known are train, ..."
            )
            raise DataError(
                f"there is no {name} text; {remedy} (there is {', '.join(self.counts)})"
            )
        count = self.counts[name]
        try:
            # an empty file cannot be mapped, and words of nothing but spaces are no tokens
            tokens = np.zeros(0, self._type)
            if count["tokens"]:
                tokens = np.memmap(self.folder / f"{name}.tokens", dtype=self._type, mode="r")
            ends = np.fromfile(self.folder / f"{name}.ends", dtype=np.int64)
        except (OSError, ValueError) as problem:
            raise DataError(
                f"cannot read the token store {self.folder}: {problem}; delete it to build it anew"
            ) from None
        return Split(name, tokens, count["bytes"], count["characters"], ends, self._documents)


def _request(
    config: DataConfig, fingerprint: str, vocab_size: int, eos: int | None
) -> dict[str, Any]:
    """Everything that the content of a store depends on, as JSON."""
    named = {"train": config.path, "validation": config.validation_path, "test": config.test_path}
    sources = {
        name: [source.stamp() for source in resolve(path, config.root)]
        for name, path in named.items()
        if path is not None or name == "train"
    }
    settings = config.model_dump(include={"format", "text_field", "word_field", "encoding"})
    fractions = [config.held_out_validation, config.held_out_test]
    tokenizer = {"fingerprint": fingerprint, "vocab_size": vocab_size, "eos": eos}
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
        size = np.dtype(manifest["type"]).itemsize
        for name, count in manifest["splits"].items():
            right = count["tokens"] * size, count["documents"] * 8
            if name not in NAMES or right != tuple(
                (folder / f"{name}.{k}").stat().st_size for k in ("tokens", "ends")
            ):
                return None
            if not all(
                type(count[key]) is int for key in ("tokens", "bytes", "characters", "documents")
            ):
                return None
    except (OSError, ValueError, TypeError, KeyError, AttributeError, RecursionError):
        return None
    return manifest if manifest["type"] in ("uint16", "uint32") and manifest["splits"] else None


def _build(
    folder: Path,
    request: dict[str, Any],
    encode: Encode,
    vocab_size: int,
    eos: int | None,
    config: DataConfig,
    progress: Progress | None,
) -> dict[str, Any]:
    kind = "uint16" if vocab_size <= 1 << 16 else "uint32"

    def write(work: Path) -> dict[str, Any]:
        counts = _write_splits(work, np.dtype(kind), encode, vocab_size, eos, config, progress)
        return {"format": FORMAT, "type": kind, "request": request, "splits": counts}

    return build(folder, _FILES, write, _whole)


def _write_splits(
    work: Path,
    kind: np.dtype,
    encode: Encode,
    vocab_size: int,
    eos: int | None,
    config: DataConfig,
    progress: Progress | None,
) -> dict[str, dict[str, int]]:
    writers: dict[str, _Writer] = {}
    done = 0
    try:
        for part in parts(config):
            if part.split not in writers:
                writers[part.split] = _Writer(work, part.split, kind, eos)
            ids = encode(part.text)
            if ids.size and not 0 <= int(ids.min()) <= int(ids.max()) < vocab_size:
                raise ConfigError(
                    f"the tokenizer gave id {int(ids.max())} for {part.source}, beyond its "
                    f"vocabulary of {vocab_size}; "
                    "use the tokenizer that belongs to this model"
                )
            writers[part.split].add(ids, part)
            done += len(part.text)
            if progress is not None:
                progress("tokenize", done, None)
        return {name: writer.finish() for name, writer in writers.items()}
    finally:
        for writer in writers.values():
            writer.close()


class _Writer:
    """Appends documents to the files of one split; a separator is written only once a second
    document comes."""

    def __init__(self, folder: Path, name: str, kind: np.dtype, eos: int | None) -> None:
        self._out = open(folder / f"{name}.tokens", "wb", buffering=1 << 20)  # noqa: SIM115  (closed by close)
        self._ends_path = folder / f"{name}.ends"
        self._kind, self._eos = kind, eos
        self._tokens = self._bytes = self._characters = 0
        self._ends: list[int] = []
        self._owed = False

    def add(self, ids: np.ndarray, part: Part) -> None:
        if self._ends:
            self._separate()
        self._write(ids)
        self._ends.append(self._tokens)
        self._owed = part.ends
        self._bytes += len(part.text.encode("utf-8"))
        self._characters += len(part.text)

    def finish(self) -> dict[str, int]:
        if len(self._ends) > 1:
            self._separate()
        self._out.flush()
        os.fsync(self._out.fileno())
        with open(self._ends_path, "wb") as out:
            out.write(np.array(self._ends, dtype=np.int64).tobytes())
            out.flush()
            os.fsync(out.fileno())
        sizes = {"tokens": self._tokens, "bytes": self._bytes, "characters": self._characters}
        return sizes | {"documents": len(self._ends)}

    def close(self) -> None:
        self._out.close()

    def _separate(self) -> None:
        if self._owed and self._eos is not None:
            self._write(np.array([self._eos]))
            self._ends[-1] = self._tokens
        self._owed = False

    def _write(self, ids: np.ndarray) -> None:
        self._out.write(ids.astype(self._kind).tobytes())
        self._tokens += len(ids)
