"""Arrays in files: IDX (MNIST), .npy and .npz, also in gzip files and zip archives.

Headers are not trusted: no more is allocated than the bytes that exist.
"""

import io
import math
import os
import tokenize
import warnings
from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from glassformer.data.formats.archives import members
from glassformer.data.formats.contents import opened, source_at
from glassformer.data.sources import Source, reading
from glassformer.errors import DataError, counted

HEAD = 1 << 16
"""Longest header."""
CHUNK = 1 << 20
IDX_KINDS = {0x08: "u1", 0x09: "i1", 0x0B: ">i2", 0x0C: ">i4", 0x0D: ">f4", 0x0E: ">f8"}
"""NumPy's types for the third byte of an IDX file."""


_DEEP = (RecursionError, OverflowError, MemoryError)
_NO_HEADER = (ValueError, KeyError, TypeError, SyntaxError, tokenize.TokenError, *_DEEP)
"""Errors of a damaged .npy header."""


class Layout(NamedTuple):
    """Shape, type, order (Fortran or C) and offset of an array."""

    shape: tuple[int, ...]
    kind: np.dtype
    fortran: bool
    offset: int


def read_idx(path: str) -> np.ndarray:
    """The array in an IDX file, also `.gz` or in a zip archive; memory-mapped if it is a plain
    file.

    DataError: unreadable, not IDX, or longer or shorter than its header says. Source: the
    description below http://yann.lecun.com/exdb/mnist.
    """
    return _read(source_at(path), _idx_layout)


def read_npy(path: str) -> np.ndarray:
    """The array in a .npy file, never Python objects; see `read_idx`."""
    return _read(source_at(path), _npy_layout)


def npz_names(path: str) -> list[str]:
    """Names of the arrays in an .npz file; DataError: not one."""
    with reading(path):
        return [name.removesuffix(".npy") for name in members(path) if name.endswith(".npy")]


def read_npz(path: str, name: str) -> np.ndarray:
    """One array of an .npz file; see `read_idx`."""
    return _read(Source(f"{path}/{name}.npy", path), _npy_layout)


def _read(source: Source, layout_of: Callable[[bytes, str], Layout]) -> np.ndarray:
    with opened(source) as file:
        head = file.read(HEAD)
        layout = layout_of(head, source.path)
        if len(head) < layout.offset or any(n <= 0 for n in layout.shape):
            raise DataError(
                f"{source.path} is empty or ends inside its header; copy or download it again"
            )
        size = math.prod(layout.shape) * layout.kind.itemsize
        order = "F" if layout.fortran else "C"
        if source.archive is None and not source.path.endswith(".gz"):
            with reading(source.path):
                _check_size(layout, size, os.stat(source.path).st_size - layout.offset, source.path)
                return np.memmap(source.path, layout.kind, "r", layout.offset, layout.shape, order)
        body = bytearray(head[layout.offset :])
        while len(body) <= size and (more := file.read(min(CHUNK, size + 1 - len(body)))):
            body += more
    _check_size(layout, size, len(body), source.path)
    return np.frombuffer(body, layout.kind).reshape(layout.shape, order=order)


def _check_size(layout: Layout, size: int, real: int, path: str) -> None:
    if real != size:
        shape = " x ".join(f"{n:,}" for n in layout.shape)
        says = f"{shape} numbers of {counted(layout.kind.itemsize, 'byte')}"
        there = f"only {real:,} bytes are there" if real < size else "more are there"
        raise DataError(f"{path} says that it holds {says}, but {there}; copy or download it again")


def _idx_layout(head: bytes, path: str) -> Layout:
    if len(head) < 4 or head[:2] != b"\0\0" or head[2] not in IDX_KINDS or not 1 <= head[3] <= 8:
        raise DataError(
            f"{path} begins like no IDX file, with {head[:4]!r}; give one, or set data.format to "
            f"what it is"
        )
    offset = 4 + 4 * head[3]
    shape = tuple(int.from_bytes(head[at : at + 4], "big") for at in range(4, offset, 4))
    return Layout(shape, np.dtype(IDX_KINDS[head[2]]), False, offset)


def _npy_layout(head: bytes, path: str) -> Layout:
    file = io.BytesIO(head)
    headers = {
        (1, 0): np.lib.format.read_array_header_1_0,
        (2, 0): np.lib.format.read_array_header_2_0,
    }
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of old files
            shape, fortran, kind = headers[np.lib.format.read_magic(file)](file)
    except _NO_HEADER as problem:
        message = " ".join(str(problem).split())[:80]
        raise DataError(
            f"{path} is not a whole .npy file ({message}); write it again with numpy.save"
        ) from None
    if kind.hasobject or kind.fields is not None or kind.itemsize == 0:
        held = "Python objects" if kind.hasobject else kind
        raise DataError(f"{path} holds {held}; give an array of numbers")
    return Layout(shape, kind, fortran, file.tell())
