"""The bytes of a source: a file on disk, in a zip archive or in a cell of a Parquet table, without
gzip compression."""

import gzip
import io
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from glassformer.data.formats.archives import BROKEN, LARGEST_RATIO, LARGEST_UNASKED, member
from glassformer.data.formats.parquet import cell_bytes
from glassformer.data.sources import Source, reading, slashed
from glassformer.errors import DataError

LARGEST = 1 << 30
"""Largest size of one image or audio file."""
PIECE = 1 << 24
"""Bytes that are read at once: a read allocates as many as it may return."""


def source_at(path: str) -> Source:
    """The source at a path that may continue inside a zip archive: `photos.zip/train/cat/1.jpg`."""
    place = Path(path).absolute()
    archive = next((p for p in place.parents if p.suffix.lower() == ".zip" and p.is_file()), None)
    return Source(slashed(place), None if archive is None else slashed(archive))


@contextmanager
def opened(source: Source) -> Iterator[io.BufferedIOBase]:
    """Open a source, decompressed; DataError: damaged or unreadable."""
    zipped = source.path.endswith(".gz")
    try:
        with reading(source.path), _raw(source) as raw:
            if zipped:
                with gzip.open(raw, "rb") as file:
                    bounded = _Bounded(file, source.path, os.stat(source.file).st_size)
                    yield io.BufferedReader(bounded, 1 << 16)
            else:
                yield raw
    except (OSError, *BROKEN) as problem:  # an OSError that is not the system's: of gzip or bzip2
        kind = "gzip file" if zipped else "member of its zip archive"
        rest = ", or drop .gz from its name" if zipped else ""
        raise DataError(
            f"{source.path} is not a whole {kind} ({problem}); copy it again{rest}"
        ) from problem


class _Bounded(io.RawIOBase):
    """A decompressed stream that ends with a DataError where it grows implausibly large."""

    def __init__(self, file: gzip.GzipFile, name: str, size: int) -> None:
        self._file, self._name, self._size = file, name, size
        self._left = max(LARGEST_UNASKED, LARGEST_RATIO * size)

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        count = self._file.readinto(buffer)
        self._left -= count
        if self._left < 0:
            raise DataError(
                f"{self._name} would grow from {self._size:,} to over "
                f"{max(LARGEST_UNASKED, LARGEST_RATIO * self._size):,} bytes, an implausible "
                f"ratio; unpack it yourself if you trust it"
            )
        return count


def _raw(source: Source) -> io.BufferedIOBase:
    if source.archive is None:
        return open(source.path, "rb")
    if source.row is not None:
        return io.BytesIO(cell_bytes(source))
    return member(source.archive, source.member)


def content(source: Source) -> bytes:
    """Read a whole file; DataError: see `opened`, or more than 2**30 bytes."""
    with opened(source) as file:
        pieces, size = list[bytes](), 0
        while size <= LARGEST and (piece := file.read(PIECE)):
            pieces.append(piece)
            size += len(piece)
    if size > LARGEST:
        raise DataError(
            f"{source.path} has more than {LARGEST:,} bytes, the most of one file; make it smaller"
        )
    return b"".join(pieces)
