"""Decoded images or clips are stored once; items that cannot be read stop it, or are left out and
counted."""

from pathlib import Path

import numpy as np
import pytest

from glassformer.core.errors import DataError
from glassformer.data.arrays import ArraySplit, store_arrays

SHAPE = (3, 2)


def item(value: int, calls: list[int] | None = None):
    def read() -> np.ndarray:
        if calls is not None:
            calls.append(value)
        if value < 0:
            raise DataError(f"picture {value} is broken; restore it")
        return np.full(SHAPE, value, np.uint8)

    return read


def built(
    folder: Path, train=(1, 2, 3), skip=False, request=None, calls=None, test=(9,)
) -> dict[str, ArraySplit]:
    splits = {"train": [item(v, calls) for v in train], "test": [item(v, calls) for v in test]}
    request = {"skip": skip, **(request or {"of": "x"})}
    return store_arrays(folder, request, splits, lambda read: read(), SHAPE, "uint8")


def test_what_was_decoded_is_there_once(tmp_path):
    calls: list[int] = []
    store = built(tmp_path / "s", calls=calls)
    assert store["train"].array[:, 0, 0].tolist() == [1, 2, 3]
    assert store["train"].array.shape == (3, *SHAPE)
    assert store["train"].kept.tolist() == [0, 1, 2]
    assert calls == [1, 2, 3, 9]
    again = built(tmp_path / "s", calls=calls)
    assert calls == [1, 2, 3, 9], "decoded a second time"
    assert again["test"].array[0, 0, 0] == 9
    built(tmp_path / "s", request={"of": "y"}, calls=calls)
    assert len(calls) == 8


def test_bad_items_stop_it_and_leave_nothing(tmp_path):
    with pytest.raises(DataError, match="picture -2 is broken"):
        built(tmp_path / "s", train=(1, -2, 3))
    assert not list(tmp_path.iterdir())


def test_bad_items_are_left_out_and_told(tmp_path):
    rows = built(tmp_path / "s", train=(-1, 1, -2, 3, -5), skip=True)["train"]
    assert rows.array[:, 0, 0].tolist() == [1, 3]
    assert rows.kept.tolist() == [1, 3]
    assert rows.skipped == tuple(f"picture {i} is broken; restore it" for i in (-1, -2, -5))
    nothing = built(tmp_path / "t", train=(-1,), skip=True)["train"]
    assert (len(nothing.array), nothing.kept.tolist()) == (0, [])
