"""Files that options write: checked before any work, and never in place of somebody else's file."""

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

from typer import Option

from glassformer.core.errors import ConfigError

Force = Annotated[bool, Option("--force", help="Replace any output file that exists.")]
MARKS = (b'<meta name="generator" content="glassformer">', b"Software\0glassformer")
"""What pages (`pages/kit.py`) and images (`pages/images.py`) hold among their first bytes; a .npy
file has no place for it."""
FIRST = 1024


def check_output(option: str, path: Path | None, suffixes: Sequence[str], force: bool) -> None:
    """ConfigError: another kind of file, no folder for it, or, without `force`, a file that is
    there and does not say that glassformer wrote it."""
    if path is None:
        return
    if path.suffix.lower() not in suffixes:
        raise ConfigError(
            f"{option} writes {' or '.join(suffixes)}, not {path.name!r}; name such a file."
        )
    if not path.parent.is_dir():
        raise ConfigError(
            f"{option} cannot write {path}: there is no folder {path.parent}; make it first."
        )
    if path.is_dir():
        raise ConfigError(f"{option} cannot write {path}: it is a folder; name a file.")
    if os.path.lexists(path) and not force and not _is_ours(path):
        raise ConfigError(
            f"{option} would replace {path}, which does not say that glassformer wrote it; choose "
            "another file or add --force."
        )


def _is_ours(path: Path) -> bool:
    try:
        with path.open("rb") as file:
            first = file.read(FIRST)
    except OSError:
        return False
    return any(mark in first for mark in MARKS)
