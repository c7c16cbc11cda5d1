"""Whole small files, on disk or in zip archives; each archive is opened once."""

import os
import zipfile
from functools import lru_cache
from pathlib import Path

from glassformer.data.formats.archives import ENCRYPTED, UNREADABLE
from glassformer.data.sources import Source, reading
from glassformer.errors import DataError, counted

LARGEST = 1 << 30
"""Largest size of one image or audio file."""


def source_at(path: str) -> Source:
    """The source at a path that may continue inside a zip archive: `photos.zip/train/cat/1.jpg`."""
    place = Path(path).absolute()
    archive = next((p for p in place.parents if p.suffix.lower() == ".zip" and p.is_file()), None)
    return Source(str(place), None if archive is None else str(archive))


def content(source: Source) -> bytes:
    """Read a file; DataError: missing, unreadable, encrypted, or more than 2**30 bytes."""
    with reading(source.path):
        if source.archive is None:
            _check_size(source, os.stat(source.path).st_size)
            return Path(source.path).read_bytes()
        status = os.stat(source.archive)
        try:
            archive = _opened(source.archive, status.st_size, status.st_mtime_ns, os.getpid())
            member = archive.getinfo(source.member)
            if member.flag_bits & ENCRYPTED:
                raise DataError(f"{source.path} needs a password; give an archive without one")
            _check_size(source, member.file_size)
            return archive.read(member)
        except KeyError:
            raise DataError(
                f"there is no {source.member} in {source.archive}; check the name, or add it"
            ) from None
        except (OSError, *UNREADABLE) as problem:
            if isinstance(problem, OSError) and problem.strerror is not None:
                raise
            raise DataError(
                f"{source.path} cannot be unpacked ({problem}); copy its archive again"
            ) from None


@lru_cache(maxsize=64)
def _opened(archive: str, size: int, mtime_ns: int, process: int) -> zipfile.ZipFile:
    """Keep an archive open: listing 20,000 members for each of them would take an hour.

    One for each process (a fork shares its parent's file position), and anew when the file changes.
    """
    return zipfile.ZipFile(archive)


def _check_size(source: Source, size: int) -> None:
    if size > LARGEST:
        raise DataError(
            f"{source.path} has {counted(size, 'byte')}, more than the {LARGEST:,} that one "
            f"file may have"
        )
