"""A folder that one process has at a time, and that is unchanged if work in it is refused."""

import os
import shutil
import time
from collections.abc import Collection, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import IO

from glassformer.core.errors import ConfigError
from glassformer.core.files import WINDOWS, make_folder, writing

LOCK, BEFORE = "run.lock", "before"


@contextmanager
def lock(folder: Path, patience: float = 0.0) -> Iterator[None]:
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
        end = time.monotonic() + patience
        with suppress(OSError):  # a file system without locks; then nothing is refused
            while not _take(file):
                if time.monotonic() >= end:
                    raise ConfigError(
                        f"Another process is training in {folder}; wait for it or choose another "
                        "--run."
                    )
                time.sleep(0.1)
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


def _take(file: IO[bytes]) -> bool:
    """Lock an open file for this process, until it is closed; return False if another has it."""
    try:
        import fcntl
    except ImportError:  # Windows
        import msvcrt

        refused, take = PermissionError, partial(msvcrt.locking, file.fileno(), msvcrt.LK_NBLCK, 1)
    else:
        refused, take = BlockingIOError, partial(fcntl.flock, file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    try:
        take()
    except refused:
        return False
    return True


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
            before, now = kept / name, folder / name
            if _same_files(before, now):
                continue
            if now.is_dir():
                shutil.rmtree(now)
            if before.exists():
                before.replace(now)
            else:
                now.unlink(missing_ok=True)
        raise
    finally:
        shutil.rmtree(kept, ignore_errors=True)


def _link(source: str | Path, target: str | Path) -> None:
    try:
        os.link(source, target)
    except OSError:  # a file system without hard links
        shutil.copy2(source, target)


def _same_files(one: Path, other: Path) -> bool:
    """True for two names of a file, or two folders of such names."""
    if one.is_dir() and other.is_dir():
        names = {path.name for path in (*one.iterdir(), *other.iterdir())}
        return all(_same_files(one / name, other / name) for name in names)
    return one.is_file() and other.is_file() and one.samefile(other)
