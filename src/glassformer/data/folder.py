"""A folder of derived data that is whole or not there: filled beside its place, then renamed into
it."""

import json
import os
import shutil
import uuid
from collections.abc import Callable, Collection
from pathlib import Path
from typing import Any

from glassformer.errors import DataError

MANIFEST = "manifest.json"


def build(
    folder: Path,
    names: Collection[str],
    write: Callable[[Path], dict[str, Any]],
    whole: Callable[[Path], dict[str, Any] | None],
) -> dict[str, Any]:
    """Fill `folder` by `write`, which gets an empty folder and returns the manifest; an
    interruption changes nothing.

    `names` are the files that such a folder may hold; `whole` gives a folder's manifest if it is as
    it was written. DataError: a full disk, or a folder with other files in it, which is left alone.
    """
    _refuse_other_files(folder, names)
    work = folder.parent / f".{folder.name}.{uuid.uuid4().hex[:12]}.tmp"
    manifest: dict[str, Any] = {}
    try:
        work.mkdir(parents=True)
        manifest = write(work)
        with open(work / MANIFEST, "w", encoding="utf-8") as out:
            json.dump(manifest, out, indent=1)
            out.flush()
            os.fsync(out.fileno())
        _replace(work, folder)
    except OSError as problem:
        other = whole(folder)  # another process may have built the same at the same time
        if other is not None and other["request"] == manifest.get("request"):
            return other
        raise DataError(
            f"cannot write the token store {folder}: {problem.strerror or problem}; free space "
            f"or set data.store"
        ) from problem
    finally:
        shutil.rmtree(work, ignore_errors=True)
    return manifest


def _refuse_other_files(folder: Path, names: Collection[str]) -> None:
    """Building replaces the folder, so it must not hold anything that is not its own."""
    if folder.is_dir():
        others = sorted({path.name for path in folder.iterdir()} - set(names))
        if others:
            raise DataError(
                f"the folder {folder} holds other files ({others[0]}, ...); choose another "
                f"data.store"
            )
    elif folder.exists():
        raise DataError(
            f"{folder} is a file, not the folder of a token store; choose another data.store"
        )


def _replace(work: Path, folder: Path) -> None:
    """Put `work` in the place of `folder` by renaming: maps of the old files stay valid for those
    who read them."""
    old = work.with_suffix(".old")
    if folder.exists():
        folder.rename(old)
    work.rename(folder)
    shutil.rmtree(old, ignore_errors=True)
    place = os.open(folder.parent, os.O_RDONLY)
    try:
        os.fsync(place)
    finally:
        os.close(place)
