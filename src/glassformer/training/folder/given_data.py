"""Data that a program gives instead of files: rows become a JSON-lines file in the run folder, and
their images and audio files beside it.

RUN/data/train.jsonl            a row each line; an image is `files/HASH.png`
RUN/data/files/HASH.png         images and, as WAV, audio
"""

import hashlib
import io
import json
import shutil
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

from glassformer.core.errors import ConfigError
from glassformer.core.files import writing
from glassformer.media.audio_file import write_wav

DATA, FILES = "data", "files"
"""Folders: of a run, for its data; of these, for images and audio."""
AUDIO = {"array", "sampling_rate"}
"""Keys of decoded audio, as the `datasets` library has it."""


def write_data(write: Callable[[Path], None], folder: Path) -> None:
    """Write a data set as a folder that is whole or absent; one that exists is not changed."""
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
    """Return recipe values in which rows at `data.SPLIT.path` are files of the run, as `keep_rows`
    writes them; and the rows by split."""
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
def keep_rows(rows: Mapping[str, Any], run: Path, resume: bool, first: bool) -> Iterator[None]:
    """Write rows into the run folder, in the `first` process; the others, and a run that is
    resumed, compare them. If no run begins there in the body, they are removed again. ConfigError:
    other rows, or one that JSON cannot hold."""
    home = run.absolute() / DATA
    new = bool(rows) and first and not (resume and home.is_dir())
    try:
        if new:
            shutil.rmtree(home, ignore_errors=True)  # of an attempt that was stopped
            write_data(lambda folder: _write_or_compare(rows, folder, new), home)
        else:
            _write_or_compare(rows, home, new)
        yield
    finally:
        if new and not (run / "recipe.yaml").exists():
            shutil.rmtree(home, ignore_errors=True)


def _are_rows(given: Any) -> bool:
    """Return whether a value is rows, and no path or list of paths."""
    if given is None or isinstance(given, str | Path):
        return False
    return not (isinstance(given, list) and all(isinstance(one, str | Path) for one in given))


def _write_or_compare(rows: Mapping[str, Any], folder: Path, new: bool) -> None:
    """Write rows and their files into a new folder, or compare rows with those that it has."""
    if new:
        (folder / FILES).mkdir()
    mode = "w" if new else "r"
    for split, given in rows.items():
        with (folder / f"{split}.jsonl").open(mode, encoding="utf-8", newline="\n") as file:
            lines = _lines(split, given, folder if new else None)
            for number, line in enumerate(chain(lines, [""]), 1):
                if new:
                    file.write(line)
                elif file.readline() != line:
                    raise ConfigError(
                        f"Row {number} of data.{split}.path is not the one that {folder.parent} "
                        "is trained with; give the same rows, in every process and when resuming, "
                        "or choose another run folder."
                    )


def _keep(content: bytes, suffix: str, folder: Path | None) -> str:
    """Return the name of a file with this content, and write it into a folder."""
    name = f"{FILES}/{hashlib.sha256(content).hexdigest()[:24]}{suffix}"
    if folder is not None:
        (folder / name).write_bytes(content)
    return name


def _lines(split: str, rows: Any, folder: Path | None) -> Iterator[str]:
    """Yield each row as a line of JSON; its files are written into a folder."""
    if not isinstance(rows, Iterable):
        raise ConfigError(f"data.{split}.path must be files or rows, not {str(rows)[:60]!r}.")
    for number, row in enumerate(rows, 1):
        where = f"Row {number} of data.{split}.path"
        if not isinstance(row, Mapping):
            raise ConfigError(
                f"{where} is {str(row)[:60]!r}, no dict; give dicts such as {{'text': 'a b'}}."
            )
        try:
            line = json.dumps(_plain(row, folder), ensure_ascii=False, allow_nan=False)
            line.encode()  # an unpaired surrogate fails here
            yield f"{line}\n"
        except (TypeError, ValueError, OSError) as error:
            raise ConfigError(
                f"{where} cannot be written as JSON ({error}); give texts, numbers, lists, images "
                "and audio."
            ) from None


def _plain(value: Any, folder: Path | None) -> Any:
    """Return a value of JSON, with the names of files instead of images and audio."""
    match value:
        case Mapping() if value.keys() >= AUDIO:
            samples = np.asarray(value["array"], np.float32)
            return _keep(write_wav(samples, int(value["sampling_rate"])), ".wav", folder)
        case Mapping():
            return {str(key): _plain(one, folder) for key, one in value.items()}
        case list() | tuple():
            return [_plain(one, folder) for one in value]
        case Image.Image():
            return _keep(_png(value), ".png", folder)
        case np.ndarray() if value.dtype == np.uint8 and value.ndim in (2, 3):
            grey = value.shape[2:] == (1,)
            return _plain(Image.fromarray(value[..., 0] if grey else value), folder)
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
