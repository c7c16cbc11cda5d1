"""The bytes of a source: a file on disk, in a zip archive or in a cell of a Parquet table, without
gzip compression."""

import gzip
import io
from collections.abc import Iterator
from contextlib import contextmanager
from typing import cast

from glassformer.core.errors import DataError
from glassformer.data.formats.archives import BROKEN, LARGEST_RATIO, LARGEST_UNASKED, member
from glassformer.data.formats.parquet import cell_bytes
from glassformer.data.sources import Source, reading

LARGEST = 1 << 30
"""Largest size of one image or audio file."""
PIECE = 1 << 24
"""Bytes of one read, which allocates all of them."""


@contextmanager
def open_source(source: Source) -> Iterator[io.BufferedIOBase]:
    """Open a source, decompressed; DataError: damaged or unreadable."""
    zipped = source.path.endswith(".gz")
    try:
        with reading(source.path), _raw(source) as raw:
            if zipped:
                with gzip.open(raw, "rb") as file:
                    yield cast(io.BufferedIOBase, file)
            else:
                yield raw
    except (OSError, *BROKEN) as problem:  # an OSError that is not the system's: of gzip or bzip2
        kind = "gzip file" if zipped else "member of its zip archive"
        rest = ", or drop .gz from its name" if zipped else ""
        raise DataError(
            f"{source.path} is not a whole {kind} ({problem}); copy it again{rest}"
        ) from problem


def _raw(source: Source) -> io.BufferedIOBase:
    if source.archive is None:
        return open(source.path, "rb")
    if source.row is not None:
        return io.BytesIO(cell_bytes(source))
    return member(source.archive, source.member)


def content(source: Source) -> bytes:
    """Read a whole file; DataError: see `open_source`, or more than 2**30 bytes, or more than a
    gzip file plausibly holds."""
    largest = LARGEST
    with open_source(source) as file:
        if source.path.endswith(".gz"):
            largest = min(largest, max(LARGEST_UNASKED, LARGEST_RATIO * source.size))
        pieces, size = list[bytes](), 0
        while size <= largest and (piece := file.read(PIECE)):
            pieces.append(piece)
            size += len(piece)
    if size > largest:
        raise DataError(
            f"{source.path} has more than {largest:,} bytes, the most of such a file; unpack it "
            "or divide it"
        )
    return b"".join(pieces)
