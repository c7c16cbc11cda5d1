"""Zip archives read in place: their members, and the bytes of one."""

import io
import lzma
import struct
import zipfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from fnmatch import fnmatchcase
from typing import cast

from glassformer.errors import DataError

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
    try:
        with zipfile.ZipFile(archive) as file:
            names = sorted({name for name in file.namelist() if name and not name.endswith("/")})
    except UNREADABLE as problem:
        raise DataError(
            f"{archive} is not a whole zip archive ({problem}); copy it again"
        ) from problem
    for name in names:
        if ".." in name.split("/"):
            raise DataError(
                f"{archive} has the member {name!r}, whose name leads out of it; pack it anew"
            )
    return names


@contextmanager
def member(archive: str, name: str) -> Iterator[io.BufferedIOBase]:
    """Open a member; damage raises one of `BROKEN` while reading.

    DataError: no archive, no such member, encrypted, or implausibly large.
    """
    try:
        with zipfile.ZipFile(archive) as file:
            # the file stays open for as long as its member is
            raw = cast(io.BufferedIOBase, file.open(_checked(file, archive, name)))
    except UNREADABLE as problem:
        raise DataError(
            f"{archive} is not a whole zip archive ({problem}); copy it again"
        ) from problem
    with raw:
        yield raw


def _checked(file: zipfile.ZipFile, archive: str, name: str) -> zipfile.ZipInfo:
    try:
        info = file.getinfo(name)
    except KeyError:
        raise DataError(
            f"there is no member {name} in {archive}; it has changed, so begin anew"
        ) from None
    if info.flag_bits & ENCRYPTED:
        raise DataError(f"{archive}/{name} needs a password; give an archive without one")
    if info.file_size > max(LARGEST_UNASKED, LARGEST_RATIO * info.compress_size):
        raise DataError(
            f"{archive}/{name} would grow from {info.compress_size:,} to {info.file_size:,} "
            f"bytes, which no text does; "
            "unpack it yourself if you trust it"
        )
    return info


def matches(name: str, pattern: str) -> bool:
    """Whether a name matches a glob: `*` stays inside a folder, `**` is any number of folders."""

    def same(parts: list[str], wanted: list[str]) -> bool:
        if not wanted:
            return not parts
        if wanted[0] == "**" and same(parts, wanted[1:]):
            return True
        further = wanted if wanted[0] == "**" else wanted[1:]
        return (
            bool(parts)
            and (wanted[0] == "**" or fnmatchcase(parts[0], wanted[0]))
            and same(parts[1:], further)
        )

    return same(name.split("/"), pattern.split("/"))
