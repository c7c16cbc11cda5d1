"""The files of coloured shapes: a caption for each picture, the same picture for all that is said
of it."""

from collections import Counter
from pathlib import Path

import numpy as np
import pytest

from captions import kind_of, parse_caption
from glassformer.data.config import DataConfig
from glassformer.data.parts import mixed
from glassformer.data.pictures import decode, pictures
from glassformer.demos import shape_files
from glassformer.demos.shape_files import write_drawn, write_judged, write_shapes
from glassformer.demos.shape_questions import caption
from glassformer.demos.shapes import Scene, draw, scenes, split_of
from small_runs import data_config

FEW = {"train": 30, "validation": 4, "test": 6}


def config(folder: Path, suffix: str, **fields: str) -> DataConfig:
    paths = {"train.path": "train", "validation.path": "validation", "test.path": "test"}
    named = {name: f"{folder}/{split}{suffix}" for name, split in paths.items()}
    return data_config(named | fields)


def pixels(path: str) -> np.ndarray:
    return decode(Path(path).read_bytes(), path)


@pytest.fixture
def rows(monkeypatch, tmp_path):
    monkeypatch.setattr(shape_files, "COUNTS", FEW)
    write_shapes(tmp_path)
    return list(mixed(config(tmp_path, ".jsonl", group_field="kind")))


def test_each_picture_has_one_caption_and_questions(rows):
    for row in rows:
        (image, _), (text, prompt) = row.parts
        assert (image, text, row.group) == ("image", "text", kind_of(prompt))
    captions = [row for row in rows if row.group == "caption"]
    assert Counter(row.split for row in captions) == FEW
    files = {row.parts[0][1] for row in captions}
    assert len(files) == 40
    assert {row.parts[0][1] for row in rows} == files
    assert all(parse_caption(row.target) for row in captions)
    kinds = {"caption", "existence", "number", "size", "place", "colour", "shape"}
    assert {row.group for row in rows} == kinds


def test_a_picture_is_that_of_its_caption(rows):
    captions = [row for row in rows if row.group == "caption" and row.split == "test"]
    for row, scene in zip(captions, scenes("test", 6), strict=True):
        assert row.target == caption(scene)
        assert np.array_equal(pixels(row.parts[0][1]), draw(scene))


@pytest.mark.parametrize(
    ("question", "kind"),
    [
        ("describe", "caption"),
        ("what colour is the small star?", "colour"),
        ("what colour is the thing left of the star?", "place"),
        ("what shape is below the red thing?", "place"),
        ("what shape is the red thing?", "shape"),
        ("is the red thing large or small?", "size"),
        ("is there an orange star?", "existence"),
        ("how many crosses are there?", "number"),
    ],
)
def test_what_a_question_asks_for(question, kind):
    assert kind_of(question) == kind


def test_rows_of_files_have_the_group_that_is_named(tmp_path):
    file = tmp_path / "rows.jsonl"
    file.write_text('{"input": ["why?"], "target": "so", "about": {"kind": "cause"}}\n')
    config = {"train.path": str(file), "validation.fraction": 0.0}
    assert [row.group for row in mixed(data_config(config | {"group_field": "about.kind"}))] == [
        "cause"
    ]
    assert [row.group for row in mixed(data_config(config))] == [None]


def test_small_pictures_are_to_be_drawn(monkeypatch, tmp_path):
    monkeypatch.setattr(shape_files, "DRAWN_COUNTS", FEW)
    write_drawn(tmp_path)
    rows = list(mixed(config(tmp_path, ".jsonl")))
    assert Counter(row.split for row in rows) == FEW
    for split in FEW:
        own = [row for row in rows if row.split == split]
        for row, scene in zip(own, scenes(split, FEW[split], cells=1), strict=True):
            assert row.parts == (("text", caption(scene)),)
            assert (row.target, row.labels) == (None, ())
            assert np.array_equal(pixels(row.image), draw(Scene(scene.things, cells=1), 16))


def test_a_judge_is_told_every_kind_on_other_pictures(monkeypatch, tmp_path):
    counts = {"train": 400, "validation": 20, "test": 40}
    monkeypatch.setattr(shape_files, "DRAWN_COUNTS", counts)
    for name, write in (("drawn", write_drawn), ("judged", write_judged)):
        (tmp_path / name).mkdir()
        write(tmp_path / name)
    told = pictures(config(tmp_path / "judged", ".tsv", label_separator=" "))
    assert Counter(one.split for one in told) == counts
    trained = Counter(split_of(one.labels) for one in told if one.split == "train")
    assert trained == {"train": 300, "validation": 40, "test": 60}
    targets = {pixels(row.image).tobytes() for row in mixed(config(tmp_path / "drawn", ".jsonl"))}
    of_told = [one.pixels().tobytes() for one in told]
    assert len(set(of_told)) == len(of_told)
    assert not targets & set(of_told)
