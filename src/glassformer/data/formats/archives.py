"""Zip archives read in place: the names of their members, and the bytes of one."""

import io
import lzma
import os
import struct
import zipfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from fnmatch import fnmatchcase
from functools import lru_cache
from typing import cast

from glassformer.core.errors import DataError

ENCRYPTED = 0x1
"""Flag of an encrypted member."""
LARGEST_UNASKED = 1 << 26
"""Bytes that a member may have at any compression ratio."""
LARGEST_RATIO = 200
"""Largest ratio beyond that: five times that of text, a fifth of the limit of deflate."""

BROKEN = (zipfile.BadZipFile, zlib.error, lzma.LZMAError, EOFError)
"""Python's errors for a damaged member."""
UNREADABLE = (*BROKEN, struct.error, ValueError, OverflowError, NotImplementedError)
"""Python's errors for a damaged archive, undecodable names and unknown compression."""


def members(archive: str) -> list[str]:
    """Names of the files in an archive, sorted; DataError: not a zip archive, or a name with
    `..`."""
    with _open(archive) as file:
        names = sorted({name for name in file.namelist() if name and not name.endswith("/")})
    for name in names:
        if ".." in name.split("/"):
            raise DataError(
                f"{archive} has the member {name!r}, whose name leads out of it; pack it again"
            )
    return names


def has_member(archive: str, name: str) -> bool:
    """Whether an archive has a file of this name."""
    with _open(archive) as file:
        return name in file.NameToInfo


def check_inside(path: str, archive: str, where: str, name: str) -> None:
    """Raise DataError for a file that a table in an archive names outside of it: who packed it must
    not choose what is read here."""
    if not path.startswith(f"{archive}/"):
        raise DataError(
            f"{where} names {name!r}, which is not in its archive; pack the file into it, or "
            "unpack the archive if you trust it"
        )


def member(archive: str, name: str) -> io.BufferedIOBase:
    """Open a member; damage raises one of `BROKEN` while reading.

    DataError: no archive, no such member, encrypted, or implausibly large.
    """
    with _open(archive) as file:
        if name not in file.NameToInfo:
            raise DataError(
                f"there is no member {name} in {archive}; check the name, and whether it changed"
            )
        info = file.getinfo(name)
        if info.flag_bits & ENCRYPTED:
            raise DataError(f"{archive}/{name} needs a password; give an archive without one")
        if info.file_size > max(LARGEST_UNASKED, LARGEST_RATIO * info.compress_size):
            raise DataError(
                f"{archive}/{name} would grow from {info.compress_size:,} to {info.file_size:,} "
                f"bytes, an implausible ratio; unpack it yourself if you trust it"
            )
        return cast(io.BufferedIOBase, file.open(info))


@contextmanager
def _open(archive: str) -> Iterator[zipfile.ZipFile]:
    """The open archive; DataError: damaged, here or in the body."""
    status = os.stat(archive)
    try:
        yield _kept_open(archive, status.st_size, status.st_mtime_ns, os.getpid())
    except UNREADABLE as problem:
        raise DataError(
            f"{archive} is not a whole zip archive ({problem}); copy it again"
        ) from problem


@lru_cache(maxsize=64)
def _kept_open(archive: str, size: int, mtime_ns: int, process: int) -> zipfile.ZipFile:
    """Keep an archive open: listing 20,000 members for each of them would take an hour.

    The key has the process, since a fork shares its parent's file position, and the file's state.
    """
    return zipfile.ZipFile(archive)


def matches(name: str, pattern: str) -> bool:
    """Whether a name matches a glob: `*` stays inside a folder, `**` is any number of folders."""

    def same(parts: list[str], wanted: list[str]) -> bool:
        if not wanted:
            return not parts
        if wanted[0] != "**":
            return bool(parts) and fnmatchcase(parts[0], wanted[0]) and same(parts[1:], wanted[1:])
        return same(parts, wanted[1:]) or (bool(parts) and same(parts[1:], wanted))

    return same(name.split("/"), pattern.split("/"))
