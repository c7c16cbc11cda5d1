"""Files that are complete or absent: written beside their place, synced, then renamed into it."""

import errno
import json
import math
import os
import re
import shutil
import tempfile
import time
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, Any

from glassformer.core.errors import CheckpointError, ConfigError, DataError

FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
WINDOWS = os.name == "nt"
NO_SYNC = (errno.EINVAL, errno.EBADF, errno.EACCES, errno.ENOTSUP)
"""How file systems say that they do not sync folders."""
LOCK, BEFORE = "run.lock", "before"
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
    """A value with None in place of every number that JSON does not have (NaN, infinity)."""
    match value:
        case float():
            return value if math.isfinite(value) else None
        case Mapping():
            return {name: finite(part) for name, part in value.items()}
        case list() | tuple():
            return [finite(part) for part in value]
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
    return next(filter(None, found.groups())) if found else name


@contextmanager
def unchanged_if_refused(folder: Path, names: Collection[str]) -> Iterator[None]:
    """Put the files and folders of these names back as they were, if an error comes.

    They are kept by hard links meanwhile: every writer here replaces a file, and none changes one.
    A file system without hard links gets copies.
    """
    kept = folder / f".tmp-{BEFORE}"
    with writing(kept):
        kept.mkdir()
        for name in names:
            if (folder / name).is_dir():
                shutil.copytree(folder / name, kept / name, copy_function=_link)
            elif (folder / name).exists():
                _link(folder / name, kept / name)
    try:
        yield
    except Exception:
        for name in names:
            _put_back(kept / name, folder / name)
        raise
    finally:
        shutil.rmtree(kept, ignore_errors=True)


def _link(source: str | Path, target: str | Path) -> None:
    try:
        os.link(source, target)
    except OSError:  # a file system without hard links
        shutil.copy2(source, target)


def _put_back(before: Path, now: Path) -> None:
    """Make `now` what `before` is: a file, a folder, or nothing."""
    if _same_files(before, now):
        return
    if now.is_dir():
        shutil.rmtree(now)
    if before.exists():
        before.replace(now)
    else:
        now.unlink(missing_ok=True)


def _same_files(one: Path, other: Path) -> bool:
    """True for two names of a file, or two folders of such names."""
    if one.is_dir() and other.is_dir():
        names = {path.name for path in (*one.iterdir(), *other.iterdir())}
        return all(_same_files(one / name, other / name) for name in names)
    return one.is_file() and other.is_file() and one.samefile(other)


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


def _take(file: IO[bytes]) -> None:
    """Lock an open file for this process, until it is closed; BlockingIOError: another has it."""
    try:
        import fcntl
    except ImportError:  # Windows
        import msvcrt

        try:
            msvcrt.locking(file.fileno(), msvcrt.LK_NBLCK, 1)
        except PermissionError as error:
            raise BlockingIOError(error.errno, error.strerror) from None
    else:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)


def _take_within(file: IO[bytes], patience: float) -> None:
    """Take a lock; BlockingIOError: another process holds it after this many seconds."""
    end = time.monotonic() + patience
    while True:
        try:
            _take(file)
            return
        except BlockingIOError:
            if time.monotonic() >= end:
                raise
            time.sleep(0.1)


@contextmanager
def locked(folder: Path, patience: float = 0.0) -> Iterator[None]:
    """Hold the only training lock of a run folder; a second trainer is refused after `patience`
    seconds. The system frees it at any exit.

    Its file stays, as the mark of a folder in which a run began. After an error before anything was
    written there, it goes again, and the folder with it if it was made for this.
    """
    with writing(folder):
        new = not folder.exists()
        make_folder(folder)
        file = (folder / LOCK).open("ab")  # to empty a file that is locked may be refused
    with file:
        try:
            _take_within(file, patience)
        except BlockingIOError:
            raise ConfigError(
                f"Another process is training in {folder}; wait for it or choose another --run."
            ) from None
        except OSError:  # a file system without locks; then nobody is told
            pass
        try:
            yield
        except Exception:
            if folder.is_dir() and [entry.name for entry in folder.iterdir()] == [LOCK]:
                if WINDOWS:  # which does not remove an open file
                    file.close()
                with suppress(OSError):
                    (folder / LOCK).unlink()
                    if new:
                        folder.rmdir()
            raise
