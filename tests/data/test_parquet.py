"""Parquet tables, written by pyarrow: rows, names of classes, bytes of images, damaged files."""

import io
import json
import random
import sys
import tracemalloc
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from glassformer.core.errors import ConfigError, DataError
from glassformer.data.formats import parquet
from glassformer.data.formats.contents import content
from glassformer.data.formats.parquet import parquet_rows
from glassformer.data.records.labelled import read_labelled
from glassformer.data.records.pairs import pairs
from glassformer.data.records.pictures import pictures
from glassformer.data.records.recordings import recordings
from glassformer.data.records.tagged import read_tagged
from glassformer.data.sources import Source
from glassformer.data.splits import parts
from glassformer.media.audio_file import write_wav
from small_runs import data_config

pa = pytest.importorskip("pyarrow")
pq = pytest.importorskip("pyarrow.parquet")


def write(path, columns, features=None, **options) -> str:
    table = columns if isinstance(columns, pa.Table) else pa.table(columns)
    if features is not None:
        info = json.dumps({"info": {"features": features}})
        table = table.replace_schema_metadata({"huggingface": info})
    pq.write_table(table, path, **options)
    return str(path)


def config(path, **fields):
    return data_config({"train.path": path, "validation.fraction": 0.0, **fields})


LABELS = {"names": ["neg", "pos"], "_type": "ClassLabel"}


def test_rows_are_those_of_pyarrow_over_many_batches_and_row_groups(tmp_path):
    rows = [{"text": f"t{i}", "n": i, "of": {"en": "a", "x": [i, None]}} for i in range(1000)]
    path = write(tmp_path / "t.parquet", pa.Table.from_pylist(rows), row_group_size=77)
    read = list(parquet_rows(Source(path)))
    assert [row for row, _ in read] == pq.read_table(path).to_pylist() == rows
    assert read[999][1] == f"{path}, row 1000"
    assert [row for row, _ in parquet_rows(Source(path), ["n", "of.en"])] == [
        {"n": row["n"], "of": row["of"]} for row in rows
    ]


def test_classes_have_the_names_of_the_metadata(tmp_path):
    features = {"label": LABELS, "text": {"dtype": "string", "_type": "Value"}}
    path = write(tmp_path / "t.parquet", {"text": ["a", "b", "c"], "label": [1, 0, 1]}, features)
    assert [row.labels for row in read_labelled(config(path))] == [("pos",), ("neg",), ("pos",)]
    plain = write(tmp_path / "p.parquet", {"text": ["a", "b"], "label": [1, 0]})
    assert [row.labels for row in read_labelled(config(plain))] == [("1",), ("0",)]
    named = config(plain, class_names=["no", "yes"])
    assert [row.labels for row in read_labelled(named)] == [("yes",), ("no",)]


@pytest.mark.parametrize("wrap", [lambda f: [f], lambda f: {"feature": f, "_type": "Sequence"}])
def test_tags_of_lists_of_numbers(tmp_path, wrap):
    features = {"ner_tags": wrap({"names": ["O", "B-PER"], "_type": "ClassLabel"})}
    columns = {"tokens": [["a", "Bob"], ["c"]], "ner_tags": [[0, 1], [0]]}
    path = write(tmp_path / "t.parquet", columns, features)
    rows = list(read_tagged(config(path, word_field="tokens", tag_field="ner_tags")))
    assert [(row.words, row.tags) for row in rows] == [
        (("a", "Bob"), ("O", "B-PER")),
        (("c",), ("O",)),
    ]


@pytest.mark.parametrize(
    "metadata",
    ["", "[]", "{}", '{"info": 3}', '{"info": {"features": {"label": [[[]]]}}}', "[" * 9999],
)
def test_metadata_of_another_form_name_no_classes(tmp_path, metadata):
    table = pa.table({"text": ["a"], "label": [1]}).replace_schema_metadata(
        {"huggingface": metadata}
    )
    assert [row.labels for row in read_labelled(config(write(tmp_path / "t.parquet", table)))] == [
        ("1",)
    ]


def test_a_class_without_a_name_is_told(tmp_path):
    path = write(tmp_path / "t.parquet", {"text": ["a"], "label": [2]}, {"label": LABELS})
    with pytest.raises(DataError, match="has the class 2, and its metadata name 2 classes"):
        list(read_labelled(config(path)))


def test_nested_pairs_and_documents(tmp_path):
    rows = {"translation": [{"en": "a dog", "de": "ein Hund"}, {"en": "a cat", "de": "eine Katze"}]}
    path = write(tmp_path / "p.parquet", rows)
    read = pairs(config(path, source_field="translation.en", target_field="translation.de"))
    assert [(pair.source, pair.target) for pair in read] == [
        ("a dog", "ein Hund"),
        ("a cat", "eine Katze"),
    ]
    (tmp_path / "text").mkdir()
    write(tmp_path / "text/a.parquet", {"text": ["one", "two"]})
    assert [part.text for part in parts(config(str(tmp_path / "text")))] == ["one", "two"]


def png(value: int) -> bytes:
    file = io.BytesIO()
    Image.fromarray(np.full((4, 5, 3), value, np.uint8)).save(file, "png")
    return file.getvalue()


@pytest.mark.parametrize("struct", [True, False])
def test_images_in_cells_are_read_one_row_group_at_a_time(tmp_path, struct):
    shades = random.Random(0).sample(range(256), 30)
    cells = [{"bytes": png(s), "path": "/etc/passwd"} if struct else png(s) for s in shades]
    features = {"label": LABELS}
    table = {"image": cells, "label": [i % 2 for i in range(30)]}
    path = write(tmp_path / "i.parquet", table, features, row_group_size=8)
    found = pictures(config(path, file_field="image"))
    assert [int(one.pixels()[0, 0, 0]) for one in found] == shades
    assert [one.labels for one in found] == [(LABELS["names"][i % 2],) for i in range(30)]
    assert found[3].where == f"{path}/image/3"
    assert found[3].file == path
    parquet._group_cells.cache_clear()
    assert [content(one.source) for one in reversed(found)][-1] == png(shades[0])
    assert parquet._group_cells.cache_info().misses == 4


def test_audio_in_cells(tmp_path):
    sounds = [np.linspace(-0.5, 0.5, 200 + i, dtype=np.float32) for i in range(4)]
    cells = [{"bytes": write_wav(one, 8000), "path": None} for one in sounds]
    path = write(tmp_path / "a.parquet", {"audio": cells, "label": ["a", "b", "a", "b"]})
    found = recordings(config(path, file_field="audio"))
    assert [len(one.samples()[0]) for one in found] == [200, 201, 202, 203]


def test_a_cell_that_only_names_a_file_is_not_opened(tmp_path):
    (tmp_path / "x.png").write_bytes(png(1))
    cells = [{"bytes": png(3), "path": "x.png"}, {"bytes": None, "path": str(tmp_path / "x.png")}]
    path = write(tmp_path / "i.parquet", {"image": cells, "label": ["a", "b"]})
    with pytest.raises(DataError, match="row 2 has no bytes in 'image', only the name of a file"):
        pictures(config(path, file_field="image"))


def test_a_table_that_changes_while_it_is_read_is_told(tmp_path):
    path = write(tmp_path / "i.parquet", {"image": [png(1), png(2)], "label": ["a", "b"]})
    found = pictures(config(path, file_field="image"))
    write(tmp_path / "i.parquet", {"image": [png(1)], "label": ["a"]})
    with pytest.raises(DataError, match="is not there any more"):
        found[1].pixels()


def test_what_is_no_table_is_one_sentence(tmp_path):
    path = write(tmp_path / "t.parquet", {"text": ["a"], "label": ["b"]})
    for fields, told in [
        ({"text_field": "txt"}, "has no column 'txt'; did you mean 'text'"),
        ({"format": "parquet", "train.path": __file__}, "cannot be read as Parquet"),
    ]:
        with pytest.raises(DataError, match=told):
            list(read_labelled(config(path, **fields)))
    twice = pa.Table.from_arrays([pa.array(["a"])] * 2, names=["text", "text"])
    with pytest.raises(DataError, match="two columns 'text'"):
        list(read_labelled(config(write(tmp_path / "d.parquet", twice))))
    nulls = write(tmp_path / "n.parquet", {"text": ["a", None], "label": ["b", "c"]})
    with pytest.raises(DataError, match="row 2 has 'text' that is not a string but None"):
        list(read_labelled(config(nulls)))


def test_damaged_tables_are_told_or_read(tmp_path):
    """Bytes changed anywhere: a sentence or rows, no other error, bounded time."""
    rows = {"text": [f"text {i}" for i in range(300)], "label": [i % 2 for i in range(300)]}
    raw = Path(write(tmp_path / "t.parquet", rows, {"label": LABELS})).read_bytes()
    draw, told = random.Random(0), list[str]()
    for case in range(250):
        bad = bytearray(raw)
        for _ in range(draw.choice((1, 3))):
            bad[draw.randrange(len(bad))] = draw.randrange(256)
        if case % 5 == 0:
            del bad[draw.randrange(len(bad)) :]
        (tmp_path / "b.parquet").write_bytes(bad)
        try:
            list(parquet_rows(Source(str(tmp_path / "b.parquet"))))
        except DataError as problem:
            told.append(str(problem))
    assert len(told) > 50
    assert all(sentence.startswith(f"{tmp_path}/b.parquet") for sentence in told)


def test_without_the_extra_a_sentence_names_it(tmp_path, monkeypatch):
    path = write(tmp_path / "t.parquet", {"text": ["a"], "label": ["b"]})
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(ConfigError, match=r"pip install 'glassformer\[parquet\]'"):
        list(read_labelled(config(path)))


def test_an_implausible_size_is_refused(tmp_path, monkeypatch):
    path = write(
        tmp_path / "t.parquet",
        {"text": ["a" * 4000] * 4000, "label": ["b"] * 4000},
        use_dictionary=False,
        compression="zstd",
    )
    monkeypatch.setattr(parquet, "LARGEST_UNASKED", 1 << 20)
    with pytest.raises(DataError, match="an implausible ratio"):
        list(read_labelled(config(path)))


def test_memory_does_not_grow_with_the_row_groups(tmp_path):
    """The bytes of one row group are held, not those of all before."""
    draw = random.Random(0)
    columns = {"text": [draw.randbytes(500).hex() for _ in range(8000)], "label": ["a"] * 8000}
    path = write(tmp_path / "t.parquet", columns, row_group_size=500, use_dictionary=False)
    tracemalloc.start()
    for _ in parquet_rows(Source(path)):
        pass
    most = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert Path(path).stat().st_size > 8e6
    assert most < 4e6
