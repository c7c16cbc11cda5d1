"""Arrays in files: IDX (MNIST), .npy and .npz, also in gzip files and zip archives."""

import math
import tokenize
import warnings

import numpy as np

from glassformer.core.errors import DataError, amount
from glassformer.data.formats.archives import members
from glassformer.data.formats.contents import content, open_source
from glassformer.data.sources import Source, reading, source_at

IDX_KINDS = {0x08: "u1", 0x09: "i1", 0x0B: ">i2", 0x0C: ">i4", 0x0D: ">f4", 0x0E: ">f8"}
"""NumPy's types for the third byte of an IDX file."""
_DEEP = (RecursionError, OverflowError, MemoryError)
_DAMAGED = (ValueError, KeyError, TypeError, SyntaxError, EOFError, tokenize.TokenError, *_DEEP)
"""NumPy's errors for a damaged .npy file."""


def read_idx(path: str) -> np.ndarray:
    """The array in an IDX file, also `.gz` or in a zip archive.

    DataError: unreadable, not IDX, or longer or shorter than its header says. Source: the
    description below http://yann.lecun.com/exdb/mnist.
    """
    raw = content(source_at(path))
    if len(raw) < 4 or raw[:2] != b"\0\0" or raw[2] not in IDX_KINDS or raw[3] > 8:
        raise DataError(
            f"{path} begins like no IDX file, with {raw[:4]!r}; give one, or set data.format to "
            "what it is"
        )
    kind, begin = np.dtype(IDX_KINDS[raw[2]]), 4 + 4 * raw[3]
    shape = tuple(int.from_bytes(raw[at : at + 4], "big") for at in range(4, begin, 4))
    size, there = math.prod(shape) * kind.itemsize, len(raw) - begin
    if there < 0 or not size:
        raise DataError(f"{path} is empty or ends inside its header; copy or download it again")
    if there != size:
        numbers = " x ".join(f"{n:,}" for n in shape)
        found = f"only {there:,} bytes are there" if there < size else "more are there"
        raise DataError(
            f"{path} says that it holds {numbers} numbers of {amount(kind.itemsize, 'byte')}, but "
            f"{found}; copy or download it again"
        )
    return np.frombuffer(raw, kind, offset=begin).reshape(shape)


def read_npy(path: str) -> np.ndarray:
    """The array in a .npy file, never Python objects; memory-mapped if it is a plain file."""
    return _read_npy(source_at(path))


def npz_names(path: str) -> list[str]:
    """Names of the arrays in an .npz file; DataError: not one."""
    with reading(path):
        return [name.removesuffix(".npy") for name in members(path) if name.endswith(".npy")]


def read_npz(path: str, name: str) -> np.ndarray:
    """One array of an .npz file; see `read_idx`."""
    return _read_npy(Source(f"{path}/{name}.npy", path))


def _read_npy(source: Source) -> np.ndarray:
    with open_source(source) as file, warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of old files
        try:
            if source.archive is None and not source.path.endswith(".gz"):
                return np.lib.format.open_memmap(source.path, "r")
            return np.lib.format.read_array(file, allow_pickle=False)
        except _DAMAGED as problem:
            reason = " ".join(str(problem).split())[:80]
            raise DataError(
                f"{source.path} is not a whole .npy file of numbers ({reason}); write it again "
                "with numpy.save"
            ) from None
