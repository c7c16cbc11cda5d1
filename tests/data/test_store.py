"""The store: what it holds is what was written, it is reused while nothing changed, and damage or
interruption is never read."""

import errno
import json
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from glassformer.core import files
from glassformer.core.errors import DataError
from glassformer.data import store as store_module
from glassformer.data.store import Column, Store, Writer

NUMBERS = st.lists(st.lists(st.integers(0, 65_535), max_size=6), max_size=7)
WORDS = st.lists(st.text("ab é\u2028\x85🙂'\"\n", max_size=5), max_size=5)
REQUEST = {"kind": "test", "of": "x"}


def write(writer: Writer, ragged=((1, 2), (), (3,)), texts=("é", "b\n"), rows=2) -> None:
    column = writer.column("train", "ids", "uint16")
    for row in ragged:
        column.append(np.array(row, np.int64))
    for text in texts:
        writer.column("test", "texts", None).append([text, None])
    array = writer.column("test", "pixels", "uint8", (3, 2))
    for value in range(rows):
        array.append(np.full((3, 2), value))
    writer.counts["train"] = {"documents": len(ragged)}


@pytest.fixture
def folder(tmp_path):
    Store.open_or_build(tmp_path / "run" / "store", REQUEST, write)
    return tmp_path / "run" / "store"


def content(folder):
    return {path.name: path.read_bytes() for path in folder.iterdir()}


@given(NUMBERS, WORDS, st.integers(0, 4))
@settings(max_examples=20)
def test_what_it_holds_is_what_was_written(tmp_path_factory, ragged, texts, rows):
    folder = tmp_path_factory.mktemp("x") / "store"
    Store.open_or_build(folder, REQUEST, lambda writer: write(writer, ragged, texts, rows))
    store = Store.open(folder, "test")
    ids = store.ragged_column("train", "ids")
    assert [ids.row(i).tolist() for i in range(len(ids))] == ragged
    assert ids.lengths.tolist() == [len(row) for row in ragged]
    assert ids.values.dtype == np.uint16
    assert isinstance(ids.values, np.memmap) == any(ragged)
    if texts:
        assert store.values("test", "texts") == [[text, None] for text in texts]
    array = store.array("test", "pixels")
    assert (array.shape, array.dtype) == ((rows, 3, 2), np.uint8)
    assert array[:, 0, 0].tolist() == list(range(rows))
    assert store.counts["train"] == {"documents": len(ragged)}
    assert [path.name for path in folder.parent.iterdir()] == ["store"]


def test_numbers_can_follow_in_the_last_row(tmp_path):
    def longer(writer: Writer) -> None:
        column = writer.column("train", "ids", "int32")
        column.append(np.array([1]))
        column.extend(np.array([2, 3]))
        column.append(np.array([4]))

    store = Store.open_or_build(tmp_path / "store", REQUEST, longer)
    assert store.ragged_column("train", "ids").ends.tolist() == [3, 4]


def test_it_is_reused_while_the_request_is_the_same(folder):
    def never(writer: Writer) -> None:
        raise AssertionError("built a second time")

    made = content(folder)
    Store.open_or_build(folder, dict(REQUEST), never)
    assert content(folder) == made
    with pytest.raises(AssertionError, match="second time"):
        Store.open_or_build(folder, REQUEST | {"of": "y"}, never)


def test_a_kill_while_a_store_is_replaced_loses_nothing(folder, monkeypatch):
    made, rename = content(folder), Path.rename

    def killed(self, target):
        if target == folder:
            raise KeyboardInterrupt
        return rename(self, target)

    with monkeypatch.context() as patch:
        patch.setattr(Path, "rename", killed)
        patch.setattr(files, "settle", lambda path: None)
        with pytest.raises(KeyboardInterrupt):
            Store.open_or_build(folder, REQUEST | {"of": "y"}, write)
    assert not folder.exists()
    files.sweep(folder.parent, folder.name.__eq__)  # as the next start does
    assert content(folder) == made


def test_maps_of_a_store_that_is_replaced_stay_valid(folder):
    old = Store.open(folder, "test").array("test", "pixels")
    before = old.copy()
    Store.open_or_build(folder, REQUEST | {"of": "y"}, lambda writer: write(writer, rows=7))
    assert len(Store.open(folder, "test").array("test", "pixels")) == 7
    assert np.array_equal(old, before)


def changed(**changes):
    return lambda raw: json.dumps(json.loads(raw) | changes).encode()


def entry(split, column, **changes):
    def change(raw):
        manifest = json.loads(raw)
        manifest["splits"][split]["columns"][column] |= changes
        return json.dumps(manifest).encode()

    return change


DAMAGE = {
    "cut": ("train.ids.values", lambda raw: raw[:-1]),
    "longer": ("train.ids.values", lambda raw: raw + b"\0\0"),
    "ends": ("train.ids.ends", lambda raw: b""),
    "array": ("test.pixels.values", lambda raw: raw[:-4]),
    "texts": ("test.texts.jsonl", lambda raw: raw + b"[]\n"),
    "values gone": ("train.ids.values", None),
    "ends gone": ("train.ids.ends", None),
    "texts gone": ("test.texts.jsonl", None),
    "no manifest": ("manifest.json", None),
    "half manifest": ("manifest.json", lambda raw: raw[:100]),
    "nothing of itself": ("store.json", None),
    "half store": ("store.json", lambda raw: raw[:100]),
    "deep store": ("store.json", lambda raw: b"[" * 100_000),
    "binary store": ("store.json", lambda raw: b"\xff\xfe\0"),
    "list": ("store.json", lambda raw: b"[]"),
    "foreign": ("store.json", changed(format="other")),
    "version": ("store.json", changed(version=99)),
    "no splits": ("store.json", changed(splits={})),
    "a split elsewhere": ("store.json", changed(splits={"../x": {"counts": {}, "columns": {
        "ids": {"type": "uint8", "rows": 0, "size": 0, "shape": None}}}})),
    "another type": ("store.json", entry("train", "ids", type="float64")),
    "another shape": ("store.json", entry("test", "pixels", shape=[3, 3])),
    "another count": ("store.json", entry("test", "pixels", rows=1)),
    "no count": ("store.json", entry("train", "ids", rows="many")),
}  # fmt: skip


@pytest.mark.parametrize("how", DAMAGE)
def test_a_damaged_or_foreign_store_is_rebuilt(folder, how):
    made, (name, change) = content(folder), DAMAGE[how]
    if change is None:
        (folder / name).unlink()
    else:
        (folder / name).write_bytes(change(made[name]))
    with pytest.raises(DataError, match=r"no whole store of test in .*; build it from its data"):
        Store.open(folder, "test")
    Store.open_or_build(folder, REQUEST, write)
    assert content(folder) == made


def test_a_store_of_another_kind_is_none(folder):
    with pytest.raises(DataError, match="no whole store of pairs"):
        Store.open(folder, "pairs")


def test_other_files_are_never_touched(tmp_path, folder):
    (folder / "thesis.doc").write_text("years of work")
    made = content(folder)
    with pytest.raises(
        DataError, match=r"nothing else, but thesis.doc is there; choose another data.store"
    ):
        Store.open_or_build(folder, REQUEST | {"of": "y"}, write)
    assert content(folder) == made
    (tmp_path / "file").write_text("x")
    with pytest.raises(DataError, match="but file is there"):
        Store.open_or_build(tmp_path / "file", REQUEST, write)


@pytest.mark.parametrize(
    ("failure", "raised", "match"),
    [
        (OSError(errno.ENOSPC, "No space left on device"), DataError, r"cannot write the store .*: "
         r"No space left on device; free space or set data.store"),
        (DataError("a bad row; mend it"), DataError, "a bad row"),
        (KeyboardInterrupt(), KeyboardInterrupt, None),
    ],
)  # fmt: skip
def test_a_failure_while_building_leaves_what_was_there(
    folder, monkeypatch, failure, raised, match
):
    made, rows = content(folder), []

    def extend(self, values):
        rows.append(values)
        if len(rows) == 3:
            raise failure

    monkeypatch.setattr(Column, "extend", extend)
    with pytest.raises(raised, match=match):
        Store.open_or_build(folder, REQUEST | {"of": "y"}, write)
    assert content(folder) == made
    assert [path.name for path in folder.parent.iterdir()] == ["store"]


def test_a_store_that_another_process_finished_first_is_taken(tmp_path, monkeypatch):
    def late(work, folder):
        monkeypatch.undo()
        Store.open_or_build(folder, REQUEST, write)
        raise OSError(errno.ENOTEMPTY, "Directory not empty")

    monkeypatch.setattr(store_module, "replace_folder", late)
    store = Store.open_or_build(tmp_path / "store", REQUEST, write)
    assert len(store.array("test", "pixels")) == 2
