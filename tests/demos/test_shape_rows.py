"""The rows of the drawn shapes: one caption for each picture, the same picture for all that is said
of it."""

from collections import Counter

import numpy as np
import pytest
from glassformer.demos.shape_rows import kind_of, shape_pixels, shape_rows

from glassformer.data.config import DataConfig
from glassformer.data.parts import mixed
from glassformer.data.pictures import pictures
from glassformer.demos import shape_rows as shaperows
from glassformer.demos.shape_questions import caption, parse_caption
from glassformer.demos.shapes import Scene, draw, scenes, split_of


@pytest.fixture
def rows(monkeypatch):
    monkeypatch.setattr(shaperows, "COUNTS", {"train": 30, "validation": 4, "test": 6})
    shaperows._scenes.cache_clear()
    yield list(shape_rows())
    shaperows._scenes.cache_clear()


def test_each_picture_has_one_caption_and_questions(rows):
    captions = [row for row in rows if row.kind == "caption"]
    assert Counter(row.split for row in captions) == {"train": 30, "validation": 4, "test": 6}
    assert len({row.picture for row in captions}) == 40
    assert {row.picture for row in rows} == {row.picture for row in captions}
    assert all(parse_caption(row.answer) for row in captions)
    assert {row.kind for row in rows} == {
        "caption",
        "existence",
        "number",
        "size",
        "place",
        "colour",
        "shape",
    }
    assert list(shape_rows()) == rows


def test_a_picture_is_that_of_its_caption(rows):
    scene = scenes("test", 3)[2]
    assert np.array_equal(shape_pixels("builtin:shapes/test/2"), draw(scene))
    said = [
        row.answer
        for row in rows
        if row.picture == "builtin:shapes/test/2" and row.kind == "caption"
    ]
    assert said == [caption(scene)]


def test_they_are_read_as_mixed_rows_with_groups(rows):
    found = list(mixed(DataConfig.parse({"path": "builtin:shapes"})))
    assert [(row.parts, row.target, row.group, row.split) for row in found] == [
        ((("image", row.picture), ("text", row.prompt)), row.answer, row.kind, row.split)
        for row in rows
    ]


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
    config = {"path": str(file), "validation_fraction": 0.0}
    assert [
        row.group for row in mixed(DataConfig.parse(config | {"group_field": "about.kind"}))
    ] == ["cause"]
    assert [row.group for row in mixed(DataConfig.parse(config))] == [None]


def test_small_pictures_are_to_be_drawn(monkeypatch):
    monkeypatch.setattr(shaperows, "DRAWN_COUNTS", {"train": 9, "validation": 2, "test": 3})
    shaperows._lone.cache_clear()
    rows = list(mixed(DataConfig.parse({"path": "builtin:shapes-drawn"})))
    shaperows._lone.cache_clear()
    assert Counter(row.split for row in rows) == {"train": 9, "validation": 2, "test": 3}
    for row in rows:
        split, number = row.split, int(row.where.rsplit("/")[-1])
        scene = Scene(scenes(split, 9, cells=1)[number].things, cells=1)
        assert row.parts == (("text", caption(scene)),)
        assert (row.target, row.labels, row.image) == (None, (), row.where)
        assert np.array_equal(shape_pixels(row.image), draw(scene, 16))


def test_a_judge_is_told_every_kind_on_other_pictures(monkeypatch):
    monkeypatch.setattr(shaperows, "DRAWN_COUNTS", {"train": 400, "validation": 20, "test": 40})
    shaperows._lone.cache_clear()
    told = pictures(DataConfig.parse({"path": "builtin:shapes-drawn"}))
    assert Counter(one.split for one in told) == {"train": 400, "validation": 20, "test": 40}
    trained = [one for one in told if one.split == "train"]
    assert Counter(split_of(one.labels) for one in trained) == {
        "train": 300,
        "validation": 40,
        "test": 60,
    }
    targets = {
        shape_pixels(row.image).tobytes()
        for row in mixed(DataConfig.parse({"path": "builtin:shapes-drawn"}))
    }
    pixels = [one.pixels().tobytes() for one in told]
    assert len(set(pixels)) == len(pixels)
    assert not targets & set(pixels)
    shaperows._lone.cache_clear()
