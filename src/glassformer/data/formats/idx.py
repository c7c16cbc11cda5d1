"""Arrays in files: IDX (MNIST), .npy and .npz, also in gzip files and zip archives."""

import math
import os
import tokenize
import warnings

import numpy as np

from glassformer.data.formats.archives import members
from glassformer.data.formats.contents import opened, source_at
from glassformer.data.sources import Source, reading
from glassformer.errors import DataError, counted

CHUNK = 1 << 20
IDX_KINDS = {0x08: "u1", 0x09: "i1", 0x0B: ">i2", 0x0C: ">i4", 0x0D: ">f4", 0x0E: ">f8"}
"""NumPy's types for the third byte of an IDX file."""
_DEEP = (RecursionError, OverflowError, MemoryError)
_DAMAGED = (ValueError, KeyError, TypeError, SyntaxError, EOFError, tokenize.TokenError, *_DEEP)
"""NumPy's errors for a damaged .npy file."""


def read_idx(path: str) -> np.ndarray:
    """The array in an IDX file, also `.gz` or in a zip archive; memory-mapped if it is a plain
    file. No more is allocated than the bytes that exist.

    DataError: unreadable, not IDX, or longer or shorter than its header says. Source: the
    description below http://yann.lecun.com/exdb/mnist.
    """
    source = source_at(path)
    with opened(source) as file:
        head = file.read(4)
        if len(head) < 4 or head[:2] != b"\0\0" or head[2] not in IDX_KINDS or head[3] > 8:
            raise DataError(
                f"{path} begins like no IDX file, with {head!r}; give one, or set data.format to "
                "what it is"
            )
        sizes, kind = file.read(4 * head[3]), np.dtype(IDX_KINDS[head[2]])
        shape = tuple(np.frombuffer(sizes, ">u4", len(sizes) // 4).tolist())
        size, offset = math.prod(shape) * kind.itemsize, 4 + len(sizes)
        if len(shape) < head[3] or not size:
            raise DataError(f"{path} is empty or ends inside its header; copy or download it again")
        if _is_plain(source):
            _check_size(shape, kind, size, os.stat(path).st_size - offset, path)
            return np.memmap(path, kind, "r", offset, shape)
        body = bytearray()
        while len(body) <= size and (more := file.read(min(CHUNK, size + 1 - len(body)))):
            body += more
    _check_size(shape, kind, size, len(body), path)
    return np.frombuffer(body, kind).reshape(shape)


def _check_size(shape: tuple[int, ...], kind: np.dtype, size: int, real: int, path: str) -> None:
    if real != size:
        numbers = " x ".join(f"{n:,}" for n in shape)
        there = f"only {real:,} bytes are there" if real < size else "more are there"
        raise DataError(
            f"{path} says that it holds {numbers} numbers of {counted(kind.itemsize, 'byte')}, but "
            f"{there}; copy or download it again"
        )


def read_npy(path: str) -> np.ndarray:
    """The array in a .npy file, never Python objects; see `read_idx`."""
    return _read_npy(source_at(path))


def npz_names(path: str) -> list[str]:
    """Names of the arrays in an .npz file; DataError: not one."""
    with reading(path):
        return [name.removesuffix(".npy") for name in members(path) if name.endswith(".npy")]


def read_npz(path: str, name: str) -> np.ndarray:
    """One array of an .npz file; see `read_idx`."""
    return _read_npy(Source(f"{path}/{name}.npy", path))


def _is_plain(source: Source) -> bool:
    return source.archive is None and not source.path.endswith(".gz")


def _read_npy(source: Source) -> np.ndarray:
    with opened(source) as file, warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of old files
        try:
            if _is_plain(source):
                return np.lib.format.open_memmap(source.path, "r")
            return np.lib.format.read_array(file, allow_pickle=False)
        except _DAMAGED as problem:
            reason = " ".join(str(problem).split())[:80]
            raise DataError(
                f"{source.path} is not a whole .npy file of numbers ({reason}); write it again "
                "with numpy.save"
            ) from None
