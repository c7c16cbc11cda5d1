"""Files that are complete or absent: written beside their place, synced, then renamed into it."""

import errno
import json
import math
import os
import re
import shutil
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from glassformer.core.errors import CheckpointError, DataError

Values = dict[str, Any]
"""The object of a JSON file."""
FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
WINDOWS = os.name == "nt"
NO_SYNC = (errno.EINVAL, errno.EBADF, errno.EACCES, errno.ENOTSUP)
"""How file systems say that they do not sync folders."""
TEMPORARY = re.compile(r"\.tmp-(.+)|\.old-(.+)|\.(.+?)(?:\.[0-9a-f]{12})?\.tmp")
"""Names of what is being written or removed: a folder, the folder that it replaces, a file or a
store."""
SYSTEM = {".DS_Store", "Thumbs.db", "desktop.ini"}
"""Files that systems put into folders."""


@contextmanager
def writing(what: Path) -> Iterator[None]:
    """Turn the system's refusals to write into one sentence."""
    try:
        yield
    except OSError as error:
        remedy = "free some space" if error.errno in FULL else "choose another place"
        raise CheckpointError(
            f"Cannot write {what}: {error.strerror or error}; {remedy}."
        ) from None


def file_in(path: str | os.PathLike[str], name: str) -> Path:
    """The file of this name, if `path` is a folder; else `path`."""
    return Path(path) / name if Path(path).is_dir() else Path(path)


def read_bytes(file: Path, largest: int, what: str) -> bytes:
    """The content of a file; DataError: missing, unreadable, or more than `largest` bytes."""
    try:
        if file.stat().st_size > largest:
            raise DataError(
                f"{file} has over {largest >> 20} MB, too many for {what}; give another file"
            )
        return file.read_bytes()
    except OSError as problem:
        raise DataError(
            f"cannot read {file}: {problem.strerror}; give {what}, or the folder of a model with it"
        ) from None


def read_json(path: Path, largest: int = 1 << 20) -> Any:
    """The value of a JSON file.

    OSError: it cannot be read; ValueError: no JSON, nested too deeply, more than `largest` bytes.
    """
    if (size := path.stat().st_size) > largest:
        raise ValueError(f"{path} has {size} bytes, more than {largest}")
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except RecursionError:
        raise ValueError(f"{path} is nested too deeply") from None


def write_text(path: Path, text: str) -> None:
    """Replace a file by `text` as one step."""
    with replacing(path) as temporary:
        # surrogateescape: a folder's name that is not UTF-8 comes out as the bytes that it has
        temporary.write_text(text, encoding="utf-8", errors="surrogateescape", newline="\n")


def write_json(path: Path, value: Any) -> None:
    """Replace a file by a JSON value as one step."""
    write_text(path, json.dumps(value, indent=2, allow_nan=False) + "\n")


def finite(value: Any) -> Any:
    """Return a value with None for every number that JSON does not have (NaN, infinity)."""
    match value:
        case float():
            return value if math.isfinite(value) else None
        case Mapping():
            return {name: finite(part) for name, part in value.items()}
        case list() | tuple():
            return [*map(finite, value)]
    return value


@contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """A place beside `path` for a new file; at the end it is on disk and takes the place of `path`
    as one step."""
    temporary = path.with_name(f".{path.name}.tmp")
    with writing(path):
        try:
            yield temporary
            sync(temporary)
            temporary.replace(path)
            sync(path.parent)
        finally:
            with suppress(OSError):
                temporary.unlink(missing_ok=True)


@contextmanager
def scratch_folder() -> Iterator[Path]:
    """A temporary folder, removed at the end; maps of its files stay readable."""
    with tempfile.TemporaryDirectory(prefix="glassformer-", ignore_cleanup_errors=True) as folder:
        yield Path(folder)


def make_folder(path: Path) -> None:
    """Make a folder and those above it that are missing, so that all of them stay after a loss of
    power."""
    if not path.is_dir():
        make_folder(path.parent)
        path.mkdir(exist_ok=True)
        sync(path.parent)


def remove_folder(path: Path) -> None:
    """Remove a folder. Its name goes first, so that no part of it is ever found by its name."""
    away = path.with_name(f".tmp-{path.name}")
    shutil.rmtree(away, ignore_errors=True)
    path.rename(away)
    sync(path.parent)
    shutil.rmtree(away, ignore_errors=True)


def replace_folder(new: Path, path: Path) -> None:
    """Rename the folder `new` to `path`. Maps of files of an earlier folder stay valid; it is
    restored if this fails."""
    try:
        if path.exists():  # a folder that is not empty cannot be renamed over
            before = _before(path)
            shutil.rmtree(before, ignore_errors=True)
            path.rename(before)
        new.rename(path)
        sync(path.parent)
    finally:
        settle(path)


def _before(path: Path) -> Path:
    """The place of an earlier folder while it is replaced."""
    return path.with_name(f".old-{path.name}")


def settle(path: Path) -> None:
    """Restore the earlier folder if nothing took its place, else remove it."""
    before = _before(path)
    if path.exists():
        shutil.rmtree(before, ignore_errors=True)
    elif before.exists():
        before.rename(path)


def sweep(folder: Path, own: Callable[[str], bool]) -> None:
    """Remove what a killed process left unfinished of the files and folders that are its `own`."""
    for rest in folder.iterdir() if folder.is_dir() else ():
        name = finished_name(rest.name)
        if name == rest.name or not own(name):
            continue
        if rest.name.startswith(".old-"):
            settle(folder / name)
        elif rest.is_dir() and not rest.is_symlink():
            shutil.rmtree(rest, ignore_errors=True)
        else:
            rest.unlink(missing_ok=True)


def finished_name(name: str) -> str:
    """The name that a file or folder gets when it is whole; its own name if it is no temporary
    one."""
    found = TEMPORARY.fullmatch(name)
    return found[found.lastindex or 0] if found else name


def sync(path: Path) -> None:
    """Ask the system to put a file or folder on disk now."""
    if WINDOWS and path.is_dir():  # which has no handle there
        return
    handle = os.open(path, os.O_RDWR if WINDOWS else os.O_RDONLY)
    try:
        os.fsync(handle)
    except OSError as error:
        if error.errno not in NO_SYNC or not path.is_dir():
            raise
    finally:
        os.close(handle)
