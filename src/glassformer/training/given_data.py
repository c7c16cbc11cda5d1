"""Data that a program gives in place of files: rows become a JSON-lines file in the run folder, and
their images and audio files beside it.

RUN/data/train.jsonl            a row each line; `files/HASH.png` stands for an image
RUN/data/files/HASH.png         images and, as WAV, audio
"""

import hashlib
import io
import json
import os
import shutil
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from itertools import zip_longest
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

from glassformer.errors import ConfigError
from glassformer.files import LOCK, locked, writing
from glassformer.manifest import digest
from glassformer.media.audio_file import write_wav
from glassformer.processes import Processes
from glassformer.torchrun import joined
from glassformer.training.run_folder import check_folder, is_continued

DATA, FILES = "data", "files"
"""Folders: of a run, for its data; of these, for images and audio."""
AUDIO = {"array", "sampling_rate"}
"""Keys of decoded audio, as the `datasets` library has it."""
Keep = Callable[[bytes, str], str]
"""Keeps the content of a file with a suffix; its name."""


def write_data(write: Callable[[Path], None], folder: Path) -> None:
    """Write a data set as a folder that is whole or absent; one that exists stays as it is."""
    if folder.exists():
        return
    temporary = folder.with_name(f".tmp-{folder.name}")
    with writing(folder):
        shutil.rmtree(temporary, ignore_errors=True)
        temporary.mkdir(parents=True)
        try:
            write(temporary)
            temporary.rename(folder)
        finally:
            shutil.rmtree(temporary, ignore_errors=True)


def with_files(values: Mapping[str, Any], run: Path) -> tuple[dict[str, Any], dict[str, Any]]:
    """Recipe values in which rows at `data.SPLIT.path` are files of the run, which `written`
    writes; and the rows by split."""
    data = values.get("data")
    splits = data if isinstance(data, Mapping) else {}
    rows = {
        split: of["path"]
        for split, of in splits.items()
        if isinstance(of, Mapping) and _are_rows(of.get("path"))
    }
    home = run.absolute() / DATA
    named = {split: {**splits[split], "path": str(home / f"{split}.jsonl")} for split in rows}
    return {**values, "data": {**splits, **named}} if rows else dict(values), rows


@contextmanager
def written(rows: Mapping[str, Any], run: Path, resume: bool) -> Iterator[None]:
    """Write rows into the run folder; if no run begins there in the body, they are removed again.

    Of processes that torchrun started, the first one writes; all have the same rows.
    ConfigError: a row that JSON cannot hold; when resuming, other rows than the run's; rows that
    differ between processes.
    """
    if not rows:
        yield
        return
    mine = False
    try:
        with joined() as processes:
            mine = processes.from_first(lambda: _keep_rows(rows, run, resume)) and processes.first
            _check_equal(rows, run, processes)
        yield
    finally:
        if mine and not (run / "recipe.yaml").exists():
            shutil.rmtree(run.absolute() / DATA, ignore_errors=True)
            if {*os.listdir(run)} <= {LOCK}:
                shutil.rmtree(run, ignore_errors=True)


def _keep_rows(rows: Mapping[str, Any], run: Path, resume: bool) -> bool:
    """Write the rows (True), or compare them with those of the run that goes on (False)."""
    resume = resume or is_continued(run)
    home = run.absolute() / DATA
    check_folder(run, resume)
    if resume and home.is_dir():
        for split, given in rows.items():
            _check_same(split, given, home / f"{split}.jsonl")
        return False
    with locked(run):  # its file says that the data are a run's
        shutil.rmtree(home, ignore_errors=True)  # of an attempt that was stopped
        write_data(lambda folder: _write(rows, folder), home)
    return True


def _check_equal(rows: Mapping[str, Any], run: Path, processes: Processes) -> None:
    """Raise ConfigError in all processes if one of them has other rows than the first wrote."""
    if processes.count == 1:
        return
    files = {split: run.absolute() / DATA / f"{split}.jsonl" for split in rows}
    if processes.first:
        own = {split: digest(file) for split, file in files.items()}
    else:
        own = {split: _digest(split, given) for split, given in rows.items()}
    first, *others = processes.gathered(own)
    for rank, theirs in enumerate(others, 1):
        for split in rows:
            if theirs[split] != first[split]:
                raise ConfigError(
                    f"The rows of data.{split}.path in process {rank} are not those of process 0; "
                    "give the same rows, in the same order, in every process: each trains on its "
                    "share of them."
                )


def _digest(split: str, given: Any) -> str:
    """SHA-256 of the file that would be written."""
    found = hashlib.sha256()
    for line in _lines(split, given, _name):
        found.update(f"{line}\n".encode())
    return found.hexdigest()


def _are_rows(given: Any) -> bool:
    """Whether a value is rows, and no path or list of paths."""
    if given is None or isinstance(given, str | Path):
        return False
    return not (isinstance(given, list) and all(isinstance(one, str | Path) for one in given))


def _write(rows: Mapping[str, Iterable[Any]], folder: Path) -> None:
    (folder / FILES).mkdir()

    def keep(content: bytes, suffix: str) -> str:
        name = _name(content, suffix)
        (folder / name).write_bytes(content)
        return name

    for split, given in rows.items():
        with (folder / f"{split}.jsonl").open("w", encoding="utf-8", newline="\n") as out:
            out.writelines(f"{line}\n" for line in _lines(split, given, keep))


def _check_same(split: str, given: Iterable[Any], file: Path) -> None:
    with file.open(encoding="utf-8") as kept:
        lines = _lines(split, given, _name)
        for number, (line, own) in enumerate(zip_longest(lines, kept), 1):
            if own is None or line != own.rstrip("\n"):
                raise ConfigError(
                    f"Row {number} of data.{split}.path is not the one that {file.parents[1]} was "
                    "trained with; resume with the same rows or choose another run folder."
                )


def _name(content: bytes, suffix: str) -> str:
    return f"{FILES}/{hashlib.sha256(content).hexdigest()[:24]}{suffix}"


def _lines(split: str, rows: Any, keep: Keep) -> Iterator[str]:
    """Each row as a line of JSON."""
    if not isinstance(rows, Iterable):
        raise ConfigError(f"data.{split}.path must be files or rows, not {str(rows)[:60]!r}.")
    for number, row in enumerate(rows, 1):
        where = f"Row {number} of data.{split}.path"
        if not isinstance(row, Mapping):
            raise ConfigError(
                f"{where} is {str(row)[:60]!r}, no dict; give dicts such as {{'text': 'a b'}}."
            )
        try:
            line = json.dumps(_plain(row, keep), ensure_ascii=False, allow_nan=False)
            line.encode()  # an unpaired surrogate fails here
            yield line
        except (TypeError, ValueError, OSError) as error:
            raise ConfigError(
                f"{where} cannot be written as JSON ({error}); give texts, numbers, lists, images "
                "and audio."
            ) from None


def _plain(value: Any, keep: Keep) -> Any:
    """A value as JSON has it; images and audio as the names of files."""
    match value:
        case Mapping() if value.keys() >= AUDIO:
            samples = np.asarray(value["array"], np.float32)
            return keep(write_wav(samples, int(value["sampling_rate"])), ".wav")
        case Mapping():
            return {str(key): _plain(one, keep) for key, one in value.items()}
        case list() | tuple():
            return [_plain(one, keep) for one in value]
        case Image.Image():
            return keep(_png(value), ".png")
        case np.ndarray() if value.dtype == np.uint8 and value.ndim in (2, 3):
            grey = value.ndim == 3 and value.shape[2] == 1
            return keep(_png(Image.fromarray(value[..., 0] if grey else value)), ".png")
        case np.ndarray() | np.generic():
            return value.tolist()
        case Path():
            return str(value)
    return value


def _png(image: Image.Image) -> bytes:
    file = io.BytesIO()
    known = image.mode in ("1", "L", "LA", "P", "RGB", "RGBA", "I;16")
    (image if known else image.convert("RGB")).save(file, "png")
    return file.getvalue()
