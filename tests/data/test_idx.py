"""Arrays in files against numpy.save and the bytes written by hand; broken ones are one sentence
each."""

import gzip
import io
import struct
import tracemalloc
import zipfile
from contextlib import suppress

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from glassformer.core.errors import DataError
from glassformer.data.formats.idx import npz_names, read_idx, read_npy, read_npz


def idx(array: np.ndarray, kind: int = 8) -> bytes:
    return (
        struct.pack(f">BBBB{array.ndim}I", 0, 0, kind, array.ndim, *array.shape) + array.tobytes()
    )


def npy(array: np.ndarray) -> bytes:
    file = io.BytesIO()
    np.save(file, array, allow_pickle=False)
    return file.getvalue()


def ways(tmp_path, name: str, raw: bytes) -> list[str]:
    """The same bytes as a plain file, packed, and in an archive."""
    (tmp_path / name).write_bytes(raw)
    (tmp_path / f"{name}.gz").write_bytes(gzip.compress(raw))
    with zipfile.ZipFile(tmp_path / "x.zip", "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr(f"a/{name}", raw)
        archive.writestr(f"a/{name}.gz", gzip.compress(raw))
    return [
        str(tmp_path / place)
        for place in (name, f"{name}.gz", f"x.zip/a/{name}", f"x.zip/a/{name}.gz")
    ]


kinds = arrays.arrays(
    st.sampled_from(["u1", ">i4", "<f8", "?"]),
    arrays.array_shapes(min_dims=1, max_dims=4, max_side=5),
    elements={},
)


@given(arrays.arrays("u1", arrays.array_shapes(min_dims=1, max_dims=4, max_side=5)))
def test_idx_everywhere(tmp_path_factory, array):
    for path in ways(tmp_path_factory.mktemp("idx"), "images-idx3-ubyte", idx(array)):
        np.testing.assert_array_equal(read_idx(path), array)


@pytest.mark.parametrize(
    ("kind", "code"), [("i1", 9), (">i2", 11), (">i4", 12), (">f4", 13), (">f8", 14)]
)
def test_idx_of_other_numbers(tmp_path, kind, code):
    array = np.arange(-3, 3).astype(kind).reshape(2, 3)
    (tmp_path / "x").write_bytes(idx(array, code))
    np.testing.assert_array_equal(read_idx(str(tmp_path / "x")), array)


@given(kinds, st.booleans())
def test_npy_everywhere(tmp_path_factory, array, columns_first):
    array = np.asfortranarray(array) if columns_first else array
    for path in ways(tmp_path_factory.mktemp("npy"), "x.npy", npy(array)):
        read = read_npy(path)
        assert read.dtype == array.dtype
        assert read.tobytes() == array.tobytes()


@pytest.mark.parametrize("save", [np.savez, np.savez_compressed])
def test_npz(tmp_path, save):
    held = {
        "images": np.arange(24, dtype="u1").reshape(2, 3, 4),
        "y": np.array([1, 2]),
        "names": np.array(["a", "bc"]),
    }
    save(tmp_path / "x.npz", **held)
    path = str(tmp_path / "x.npz")
    assert sorted(npz_names(path)) == sorted(held)
    for name, array in held.items():
        np.testing.assert_array_equal(read_npz(path, name), array)


def test_plain_files_are_mapped_not_read(tmp_path):
    array = np.zeros((200, 100, 100), np.uint8)
    (tmp_path / "x.npy").write_bytes(npy(array))
    tracemalloc.start()
    mapped = read_npy(str(tmp_path / "x.npy"))
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert isinstance(mapped, np.memmap)
    assert not mapped.flags.writeable
    assert peak < 400_000


@pytest.mark.parametrize("name", ["x", "x.gz", "x.zip/a/x", "x.zip/a/x.gz"])
def test_a_lying_header(tmp_path, name):
    places = ways(tmp_path, "x", struct.pack(">BBBB3I", 0, 0, 8, 3, 50_000, 50_000, 3) + b"123456")
    path = next(place for place in places if place.endswith(f"/{name}"))
    with pytest.raises(
        DataError, match=r"50,000 x 50,000 x 3 numbers of 1 byte, but only 6 bytes are there"
    ):
        read_idx(path)


@pytest.mark.parametrize("name", ["x", "x.gz", "x.zip/a/x"])
def test_bytes_too_many(tmp_path, name):
    places = ways(tmp_path, "x", idx(np.zeros((2, 3), np.uint8)) + b"1")
    with pytest.raises(DataError, match=r"2 x 3 numbers of 1 byte, but more are there"):
        read_idx(next(place for place in places if place.endswith(f"/{name}")))


class Anything:
    """What would be run if it were unpickled."""

    def __reduce__(self):
        return (pytest.fail, ("unpickled",))


def objects() -> bytes:
    file = io.BytesIO()
    np.save(file, np.array([Anything()], dtype=object), allow_pickle=True)
    return file.getvalue()


def header(text: str) -> bytes:
    return b"\x93NUMPY\1\0" + struct.pack("<H", len(text)) + text.encode()


@pytest.mark.parametrize(
    ("read", "raw", "sentence"),
    [
        (read_idx, b"", r"begins like no IDX file, with b''"),
        (read_idx, b"\0\0\7\1\0\0\0\1a", r"begins like no IDX file"),
        (read_idx, b"\0\0\x08\2\0\0\0\1", r"ends inside its header"),
        (read_idx, b"\0\0\x08\1\0\0\0\0", r"is empty"),
        (read_npy, b"PNG", r"is not a whole .npy file"),
        (
            read_npy,
            header("{'descr': '|u1', 'fortran_order': False, 'shape': (2, 4L)}") + b"1234",
            r"is not a whole .npy file",
        ),
        (read_npy, header("(" * 9000) + b"1", r"is not a whole .npy file"),
        (read_npy, objects(), r"is not a whole .npy file of numbers"),
    ],
)
def test_one_sentence_for_what_is_no_array(tmp_path, read, raw, sentence):
    (tmp_path / "x").write_bytes(raw)
    with pytest.raises(DataError, match=sentence) as caught:
        read(str(tmp_path / "x"))
    assert "\n" not in str(caught.value)


def test_broken_containers(tmp_path):
    raw = gzip.compress(idx(np.arange(200, dtype="u1")))
    (tmp_path / "x.gz").write_bytes(raw[:-20])
    with pytest.raises(DataError, match=r"x.gz is not a whole gzip file"):
        read_idx(str(tmp_path / "x.gz"))
    (tmp_path / "x.npz").write_bytes(b"PK")
    with pytest.raises(DataError, match=r"x.npz is not a whole zip archive"):
        npz_names(str(tmp_path / "x.npz"))
    with pytest.raises(DataError, match=r"cannot read .*none: No such file"):
        read_idx(str(tmp_path / "none"))


GOOD = [
    idx(np.arange(60, dtype="u1").reshape(3, 4, 5)),
    npy(np.arange(12, dtype="u1").reshape(3, 4)),
    npy(np.ones(3)),
]


@given(
    st.sampled_from(GOOD),
    st.integers(0, 200),
    st.lists(st.tuples(st.integers(0, 140), st.integers(0, 255)), max_size=4),
)
def test_garbled_bytes_are_an_array_or_a_data_error(tmp_path_factory, raw, end, changes):
    garbled = bytearray(raw[:end])
    for at, byte in changes:
        if at < len(garbled):
            garbled[at] = byte
    folder = tmp_path_factory.mktemp("garbled")
    for path in ways(folder, "x", bytes(garbled)):
        for read in (read_idx, read_npy):
            with suppress(DataError):
                assert read(path).nbytes <= len(garbled)
