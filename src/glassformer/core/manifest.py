"""Manifests: size and SHA-256 of each file of a folder, compared before the files are trusted.

    manifest.json | {"format": 1, "files": {"config.json": {"bytes": 512, "sha256": "9f86..."}}}

While files are replaced, a name has a list of two entries: the file before and the new one. So a
process that is killed in between leaves files that are as the manifest says.
"""

import shutil
from collections.abc import Collection, Iterator
from contextlib import contextmanager, suppress
from hashlib import file_digest, sha256
from pathlib import Path
from typing import Any

from glassformer.core.errors import CheckpointError
from glassformer.core.files import (
    make_folder,
    read_json,
    replace_folder,
    settle,
    sync,
    write_json,
    writing,
)

NAME = "manifest.json"
LARGEST = 16 << 20
Entry = dict[str, Any]
Entries = dict[str, list[Entry]]
"""The entries of files by their names."""


def digest(file: Path) -> str:
    """SHA-256 of a file's bytes."""
    with file.open("rb") as stream:
        return file_digest(stream, "sha256").hexdigest()


def fingerprint(folder: Path) -> str:
    """SHA-256 of a model's files: of the manifest of a run, or of all files of a published model,
    in hex."""
    if (own := folder / NAME).is_file():
        return digest(own)
    files = sorted(path for path in folder.iterdir() if path.is_file())
    return sha256(repr([(path.name, digest(path)) for path in files]).encode()).hexdigest()


def write_manifest(folder: Path, names: Collection[str] | None = None) -> None:
    """Put these files (None: all) on disk and write the folder's manifest, last."""
    _write(folder, entries(folder, names))


def difference(
    folder: Path,
    required: Collection[str] = (),
    only: Collection[str] | None = None,
) -> str | None:
    """Return what is not as the folder's manifest says, in a clause; None: everything is.

    Compared are the files of the manifest and those `required`, or `only` some. Sizes come first:
    they are known without reading.
    """
    while True:  # another process may replace files meanwhile
        before = _read(folder)
        found = _difference(folder, before, required, only)
        if found is None or _read(folder) == before:
            return found


def check_saved(
    folder: Path, required: Collection[str] = (), only: Collection[str] | None = None
) -> None:
    """Raise CheckpointError for a folder's model if there is a `difference`, with the remedy."""
    if (found := difference(folder, required, only)) is None:
        return
    remedy = f"accept the files as they are by `glassformer verify {folder} --accept-changed`"
    if not (folder / "config.json").is_file():  # stopped before it had a model to verify
        remedy = "begin anew in another folder"
    raise CheckpointError(f"{found}; restore it from a backup, or {remedy}.")


@contextmanager
def new_folder(path: Path) -> Iterator[Path]:
    """A temporary folder to fill; with its manifest it becomes `path` at the end, or vanishes if
    anything failed."""
    with writing(path):
        temporary = begin_folder(path)
        try:
            yield temporary
            end_folder(path, entries(temporary))
        finally:
            drop_folder(path)


def begin_folder(path: Path) -> Path:
    """Make the temporary folder of a new folder `path`, empty."""
    temporary = temporary_of(path)
    drop_folder(path)
    settle(path)
    make_folder(path.parent)
    temporary.mkdir()
    return temporary


def end_folder(path: Path, files: Entries) -> None:
    """Let the temporary folder become `path`, with a manifest of these files, which are on disk."""
    temporary = temporary_of(path)
    _write(temporary, files)
    sync(temporary)
    replace_folder(temporary, path)


def drop_folder(path: Path) -> None:
    """Remove the temporary folder of `path`, if there is one."""
    shutil.rmtree(temporary_of(path), ignore_errors=True)


def temporary_of(path: Path) -> Path:
    """Return the place where a new folder `path` is filled."""
    return path.with_name(f".tmp-{path.name}")


@contextmanager
def replacing_files(folder: Path, last: str | None = None) -> Iterator[Path]:
    """A temporary folder for new files, which replace those of `folder` at the end, with its
    manifest; a file that is not replaced keeps its entry.

    The file named `last` is there only if all others are.
    """
    temporary = folder / f".tmp-{NAME}"
    with writing(folder):
        shutil.rmtree(temporary, ignore_errors=True)
        temporary.mkdir()
        try:
            yield temporary
            before, new = _read(folder) or {}, entries(temporary)
            meanwhile = {name: before.get(name, []) + own for name, own in new.items()}
            _write(folder, before | meanwhile)
            for name in sorted(new, key=lambda name: name == last):
                if name == last:
                    sync(folder)
                (temporary / name).replace(folder / name)
            sync(folder)
            _write(folder, before | new)
        finally:
            shutil.rmtree(temporary, ignore_errors=True)


def entries(folder: Path, names: Collection[str] | None = None) -> Entries:
    """Put these files (None: all) on disk; the size and SHA-256 of each."""
    found: Entries = {}
    for file in sorted(folder.iterdir()):
        if file.is_file() and file.name != NAME and (names is None or file.name in names):
            sync(file)
            found[file.name] = [{"bytes": file.stat().st_size, "sha256": digest(file)}]
    return found


def _write(folder: Path, entries: Entries) -> None:
    files = {name: own[0] if len(own) == 1 else own for name, own in sorted(entries.items())}
    write_json(folder / NAME, {"format": 1, "files": files})


def _read(folder: Path) -> Entries | None:
    """The entries of a manifest by plain file names; None: it cannot be read."""
    files: Entries = {}
    with suppress(OSError, ValueError, KeyError, TypeError, AttributeError, OverflowError):
        values = read_json(folder / NAME, LARGEST)
        for name, own in values["files"].items():
            files[name] = [
                {"bytes": int(one["bytes"]), "sha256": str(one["sha256"])}
                for one in (own if isinstance(own, list) else [own])
            ]
        plain = all(name == Path(name).name and name not in ("", "..", NAME) for name in files)
        if values["format"] == 1 and plain and all(files.values()):
            return files
    return None


def _difference(
    folder: Path, entries: Entries | None, required: Collection[str], only: Collection[str] | None
) -> str | None:
    if entries is None:
        return f"{folder} has no readable {NAME}"
    for name in sorted(set(required) - entries.keys()):
        return f"{folder / NAME} does not mention {name}"
    files = {
        folder / name: entries[name] for name in sorted(entries) if only is None or name in only
    }
    sizes: dict[Path, int] = {}
    for file, known in files.items():
        if not file.is_file():
            return f"{file} is missing"
        sizes[file], expected = file.stat().st_size, {one["bytes"] for one in known}
        if sizes[file] not in expected:
            return f"{file} has {sizes[file]} bytes instead of {max(expected)}"
    for file, known in files.items():
        try:
            found = {"bytes": sizes[file], "sha256": digest(file)}
        except OSError as error:
            return f"{file} cannot be read ({error.strerror or error})"
        if found not in known:
            return f"{file} is not as it was written: its SHA-256 differs from {NAME}"
    return None
