"""Files that are whole or not there: written beside their place, synced, then renamed into it.

Knows: folders and bytes. Does not know: what they mean.
"""

import hashlib
import json
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from glassformer.errors import CheckpointError, ConfigError


@contextmanager
def writing(what: Path) -> Iterator[None]:
    """Turn the system's refusals to write into one sentence."""
    try:
        yield
    except OSError as error:
        remedy = "free some space" if error.errno == 28 else "choose another folder with --run"
        raise CheckpointError(f"Cannot write {what}: {error.strerror or error}; {remedy}.") from None


def write_text(path: Path, text: str) -> None:
    """Replace a file by `text` as one step."""
    with writing(path):
        temporary = path.with_name(f".{path.name}.tmp")
        try:
            with temporary.open("w", encoding="utf-8") as file:
                file.write(text)
                file.flush()
                os.fsync(file.fileno())
            temporary.replace(path)
        except OSError:
            temporary.unlink(missing_ok=True)
            raise


def write_json(path: Path, value: Any) -> None:
    """Replace a file by a JSON value as one step."""
    write_text(path, json.dumps(value, indent=2, allow_nan=False) + "\n")


@contextmanager
def new_folder(path: Path) -> Iterator[Path]:
    """A temporary folder to fill; it becomes `path` at the end, or vanishes if anything failed."""
    temporary = path.with_name(f".tmp-{path.name}")
    with writing(path):
        shutil.rmtree(temporary, ignore_errors=True)
        temporary.mkdir(parents=True)
        try:
            yield temporary
            write_manifest(temporary)
            if path.exists():
                shutil.rmtree(path)
            temporary.rename(path)
            sync(path.parent)
        finally:
            shutil.rmtree(temporary, ignore_errors=True)


def write_manifest(folder: Path) -> None:
    """Sync every file of a folder and record its size and SHA-256 in `manifest.json`, written last."""
    files = {}
    for file in sorted(folder.iterdir()):
        sync(file)
        files[file.name] = {"bytes": file.stat().st_size, "sha256": digest(file)}
    write_json(folder / "manifest.json", {"format": 1, "files": files})
    sync(folder)


def check_manifest(folder: Path) -> None:
    """Raise CheckpointError unless every file of the folder is as its manifest says."""
    try:
        files = json.loads((folder / "manifest.json").read_text(encoding="utf-8"))["files"]
        expected = {Path(name).name: (entry["bytes"], entry["sha256"]) for name, entry in files.items()}
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        raise CheckpointError(f"{folder} has no readable manifest.json; it is not a whole checkpoint.") from None
    for name, (size, sha256) in expected.items():
        file = folder / name
        if not file.is_file():
            raise CheckpointError(f"{file} is missing; the checkpoint is not whole.")
        if file.stat().st_size != size:
            raise CheckpointError(f"{file} has {file.stat().st_size} bytes instead of {size}; it was cut short.")
        if digest(file) != sha256:
            raise CheckpointError(f"{file} differs from its checksum; it was damaged.")


def digest(file: Path) -> str:
    """SHA-256 of a file's bytes."""
    with file.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def sync(path: Path) -> None:
    """Ask the system to put a file or folder on disk now."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


@contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Hold the only training lock of a run folder; a second trainer is refused. The system frees it at any exit."""
    try:
        import fcntl
    except ImportError:  # pragma: no cover - a system without advisory locks
        yield
        return
    with writing(folder):
        folder.mkdir(parents=True, exist_ok=True)
        file = (folder / "run.lock").open("w")
    with file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            raise ConfigError(
                f"Another process is training in {folder}; wait for it or choose another --run."
            ) from None
        yield
