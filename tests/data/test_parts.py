"""Rows of parts from every form in which people keep them; each mistake is one sentence that names
its place."""

import csv
import gzip
import io
import json
import zipfile
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from glassformer.core.errors import ConfigError, DataError
from glassformer.data.formats.records import fill_template
from glassformer.data.records.parts import Mixed, read_parts
from small_runs import data_config

ROWS = [["What is it?", "a dog", 1], ["Is it red?", "yes", 0], ["Is it blue?", "no", 1]]
TEMPLATES = ({"image": "images.zip/train/{3}.png"}, {"text": "{1}"})
HELD = {"validation.fraction": 0.0}


@pytest.fixture
def folder(tmp_path):
    with zipfile.ZipFile(tmp_path / "images.zip", "w") as archive:
        for name in ("train/0.png", "train/1.png", "test/7.png"):
            archive.writestr(name, b"pixels")
    (tmp_path / "photos").mkdir()
    (tmp_path / "photos" / "a.png").write_bytes(b"pixels")
    (tmp_path / "a.wav").write_bytes(b"sound")
    return tmp_path


def read(folder: Path, name: str, content: str | bytes | None = None, **changes) -> list[Mixed]:
    if content is not None:
        (folder / name).write_bytes(content.encode() if isinstance(content, str) else content)
    return list(
        read_parts(data_config({"train.path": name, "root": str(folder), **HELD, **changes}))
    )


def table(rows, delimiter=",", header=None):
    out = io.StringIO()
    csv.writer(out, delimiter=delimiter, lineterminator="\n").writerows(
        [header, *rows] if header else rows
    )
    return out.getvalue()


NAMED = {
    "train.parts": ({"image": "images.zip/train/{id}.png"}, {"text": "{ask}"}),
    "target": "{answer}",
}
NUMBERED = {"train.parts": TEMPLATES, "target": "{2}"}
HEADER = ["ask", "answer", "id"]
OBJECTS = [dict(zip(HEADER, row, strict=True)) for row in ROWS]
FORMS = {
    "an array of arrays": ("rows.json", json.dumps(ROWS), NUMBERED, "row 2"),
    "an array of objects": ("rows.json", json.dumps(OBJECTS, indent=1), NAMED, "row 2"),
    "a compressed array": (
        "rows.json.gz",
        gzip.compress(json.dumps(ROWS).encode()),
        NUMBERED,
        "row 2",
    ),
    "JSON lines of arrays": ("rows.jsonl", "\n".join(map(json.dumps, ROWS)), NUMBERED, "line 2"),
    "JSON lines of objects": ("rows.jsonl", "\n".join(map(json.dumps, OBJECTS)), NAMED, "line 2"),
    "CSV with a header": ("rows.csv", table(ROWS, header=HEADER), NAMED, "line 3"),
    "CSV without one": ("rows.csv", table(ROWS), NUMBERED, "line 2"),
    "TSV by name and number": (
        "rows.tsv",
        table(ROWS, "\t", HEADER),
        NUMBERED | {"target": "{answer}"},
        "line 3",
    ),
}


@pytest.mark.parametrize("form", FORMS)
def test_every_form_of_a_table_gives_the_same_rows(folder, form):
    name, content, changes, place = FORMS[form]
    got = read(folder, name, content, **changes)
    assert [one.target for one in got] == ["a dog", "yes", "no"]
    for one, (question, _, number) in zip(got, ROWS, strict=True):
        assert one.parts == (
            ("image", f"{folder}/images.zip/train/{number}.png"),
            ("text", question),
        )
        assert (one.split, one.labels) == ("train", ())
    assert got[1].where == f"{folder / name}, {place}"


def test_a_row_may_list_its_parts_as_chats_do(folder):
    rows = [
        {
            "input": [{"image": "photos/a.png"}, {"text": "What?"}, {"audio": "a.wav"}],
            "target": "a dog",
        },
        {
            "input": [
                {"type": "text", "text": "What?"},
                {"type": "image", "image": "photos/a.png"},
            ],
            "target": 7,
        },
        {"input": "What?", "target": "nothing"},
        {"input": ["What?", {"image": "images.zip/train/1.png"}], "label": ["red", "dog", "red"]},
    ]
    got = read(folder, "rows.jsonl", "\n".join(map(json.dumps, rows)))
    image, question = ("image", f"{folder}/photos/a.png"), ("text", "What?")
    assert [one.parts for one in got] == [
        (image, question, ("audio", f"{folder}/a.wav")),
        (question, image),
        (question,),
        (question, ("image", f"{folder}/images.zip/train/1.png")),
    ]
    assert [one.target for one in got] == ["a dog", "7", "nothing", None]
    assert [one.labels for one in got] == [(), (), (), ("red", "dog")]


def test_listed_files_lie_beside_their_row_wherever_that_is(folder):
    """A folder or an archive can be moved as a whole."""
    row = json.dumps({"parts": [{"image": "a.png"}], "target": "x"})
    (folder / "photos" / "rows.jsonl").write_text(row)
    (one,) = read(folder, "photos/rows.jsonl", input_field="parts")
    assert one.parts == (("image", f"{folder}/photos/a.png"),)
    with zipfile.ZipFile(folder / "all.zip", "w") as archive:
        archive.writestr("in/rows.jsonl", row)
        archive.writestr("in/a.png", b"pixels")
    (one,) = read(folder, "all.zip/in/rows.jsonl", input_field="parts")
    assert one.parts == (("image", f"{folder}/all.zip/in/a.png"),)


def test_each_split_may_have_templates_of_its_own(folder):
    (folder / "test.json").write_text(json.dumps([["What?", "a cat", 7]]))
    got = read(
        folder, "rows.json", json.dumps(ROWS), **NUMBERED, test_path="test.json",
        test_parts=[{"text": "Look: {1}"}, {"image": "images.zip/test/{3}.png"}],
    )  # fmt: skip
    assert [one.split for one in got] == ["train"] * 3 + ["test"]
    assert got[-1].parts == (("text", "Look: What?"), ("image", f"{folder}/images.zip/test/7.png"))
    drawn = read(folder, "rows.json", **NUMBERED, validation_fraction=0.34)
    assert sorted(one.split for one in drawn) == ["train", "train", "validation"]
    assert {one.target for one in drawn} == {"a dog", "yes", "no"}
    with pytest.raises(
        ConfigError, match=r"data\.test\.parts is set but data\.test\.path is not; set both"
    ):
        read(folder, "rows.json", **NUMBERED, test_parts=[{"text": "{1}"}])
    for own, setting in ([{"text": "{9}"}], "test"), ([], "train"):
        parts = {"train_parts": [{"text": "{1}" if own else "{9}"}], "test_parts": own}
        with pytest.raises(DataError, match=rf"none is '9'; set data\.{setting}\.parts"):
            read(folder, "rows.json", target="{2}", test_path="test.json", **parts)


def test_classes_are_read_as_elsewhere(folder):
    text = ({"text": "{1}"},)
    got = read(
        folder, "rows.csv", "a,DESC:how|LOC\nb,LOC\n", train_parts=text, label_field="2",
        label_separator="|", label_delimiter=":",
    )  # fmt: skip
    assert [one.labels for one in got] == [("DESC", "LOC"), ("LOC",)]
    assert {one.target for one in got} == {None}
    (one,) = read(
        folder,
        "rows.json",
        '[{"t": "a", "label": 1}]',
        train_parts=({"text": "{t}"},),
        class_names=("no", "yes"),
    )
    assert one.labels == ("yes",)
    (one,) = read(
        folder,
        "rows.json",
        '[{"t": "a", "c": true}]',
        train_parts=({"text": "{t}"},),
        label_field="c",
    )
    assert one.labels == ("true",)


TEXT = ({"text": "{1}"},)
WRONG = {
    "an unknown type": (
        '[{"input": [{"text": "a"}, {"clip": "b"}], "target": "c"}]',
        {},
        r"rows\.json, row 1, part 2 is of type 'clip', which is none; known are audio, image, text",
    ),
    "a misspelt type": (
        '[{"input": [{"type": "imgae", "image": "b"}], "target": "c"}]',
        {},
        r"part 1 is of type 'imgae', which is none; did you mean 'image'\?",
    ),
    "a type without its value": (
        '[{"input": [{"type": "image", "file": "b"}], "target": "c"}]',
        {},
        r"part 1 has no field 'image'; known are file, type",
    ),
    "two parts in one": (
        '[{"input": [{"image": "b", "text": "c"}]}]',
        {},
        "part 1 is both text and image",
    ),
    "a part that is none": (
        '[{"input": [7], "target": "c"}]',
        {},
        "part 1 is no part but 7; write",
    ),
    "no list of parts": (
        '[{"inputs": [], "target": "c"}]',
        {},
        r"no field 'input'; did you mean 'inputs'\?.*input_field",
    ),
    "no parts": ('[{"input": [], "target": "c"}]', {}, "row 1 has no parts; give at least one"),
    "a missing field": (
        '[{"t": "a"}]',
        {"train.parts": ({"text": "{u}"},)},
        r"no field 'u'; known are t \(set data\.train\.parts\)",
    ),
    "a number too high": (
        '[["a", "b"]]',
        {"train.parts": ({"text": "{3}"},)},
        r"row 1 has 2 columns and none is '3'.*1 to 2",
    ),
    "a value that is no text": (
        '[[["a"], "b"]]',
        {"train.parts": TEXT, "target": "{2}"},
        r"'1' that is not a string but \['a'\]",
    ),
    "no value": (
        '[[null, "b"]]',
        {"train.parts": TEXT, "target": "{2}"},
        r"'1' that is not a string but None",
    ),
    "nothing to learn": (
        '[["a", "b"]]',
        {"train.parts": TEXT},
        r"has neither a target nor a class nor tags; set data\.target to a temp",
    ),
    "an empty target": (
        '[["a", " "]]',
        {"train.parts": TEXT, "target": "{2}"},
        "row 1 has an empty target",
    ),
    "an empty class": (
        '[["a", " "]]',
        {"train.parts": TEXT, "label_field": "2"},
        "row 1 has no class, or an empty one",
    ),
    "a missing file": (
        '[["1.pgn", "b"]]',
        {"train.parts": ({"image": "images.zip/train/{1}"},), "target": "{2}"},
        r"row 1 names the image file .*/images\.zip/train/1\.pgn, which is not there; "
        r"did you mean 'train/1\.png'",
    ),
    "a missing folder": (
        '[["1.png", "b"]]',
        {"train.parts": ({"image": "elsewhere/{1}"},), "target": "{2}"},
        r"elsewhere/1\.png, which is not there; check the path",
    ),
    "a folder for a file": (
        '[["photos", "b"]]',
        {"train.parts": ({"image": "{1}"},), "target": "{2}"},
        r"the image file .*/photos, which is not there",
    ),
    "no file at all": (
        '[["", "b"]]',
        {"train.parts": ({"audio": "{1}"},), "target": "{2}"},
        "names no audio file, but ''",
    ),
    "no array": (
        '{"a": 1}',
        {"train.parts": TEXT},
        r"is not a JSON array but '\{.*; give an array of rows",
    ),
    "no JSON": (
        '[["a"',
        {"train.parts": TEXT},
        r"rows\.json is not JSON \(.*; set data\.format=jsonl if each line is",
    ),
    "no rows": ("[]", {"train.parts": TEXT}, r"there are no rows in rows\.json"),
    "half a character": (
        r'[["\ud800", "b"]]',
        {"train.parts": TEXT, "target": "{2}"},
        "unpaired surrogate",
    ),
}


@pytest.mark.parametrize("case", WRONG)
def test_a_bad_row_is_one_sentence(folder, case):
    content, changes, sentence = WRONG[case]
    with pytest.raises(DataError, match=sentence) as caught:
        read(folder, "rows.json", content, **changes)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("name", "content", "changes", "sentence"),
    [
        (
            "r.csv",
            "q,a\nx,y\n",
            {"train.parts": ({"text": "{question}"},)},
            r"r\.csv has no column 'question' in its first row; ",
        ),
        (
            "r.csv",
            "q,a\nx,y\n",
            {"train.parts": ({"text": "{q}"},), "target": "{b}"},
            r"no column 'b'.*set data\.target",
        ),
        (
            "r.csv",
            "q,a\nx\n",
            {"train.parts": ({"text": "{q}"},)},
            r"r\.csv, line 2 has neither a target nor a class",
        ),
        (
            "r.csv",
            'q,a\n"x,y\n',
            {"train.parts": ({"text": "{q}"},)},
            r"r\.csv, line \d is no ',' table",
        ),
        ("r.csv", "q,a\nx,y\n", {}, r"no column 'input' in its first row.*set data\.input_field"),
        (
            "r.txt",
            "x\n",
            {"train.parts": TEXT},
            r"r\.txt is read as text, which has no fields; give \.jsonl",
        ),
        ("r.jsonl", "{\n", {"train.parts": TEXT}, r"r\.jsonl, line 1 is not JSON"),
    ],
)
def test_a_bad_table_is_one_sentence(folder, name, content, changes, sentence):
    with pytest.raises(DataError, match=sentence):
        read(folder, name, content, **changes)


def test_a_template_of_no_known_type_is_a_mistake_of_the_recipe(folder):
    with pytest.raises(
        ConfigError,
        match=r"data\.train\.parts, part 2 is of type 'picture', which is none; known are",
    ):
        read(folder, "rows.json", "[]", train_parts=({"text": "{1}"}, {"picture": "{2}"}))


def test_files_are_not_looked_for_where_bad_ones_are_left_out(folder):
    """Whoever reads them counts them."""
    (one,) = read(
        folder,
        "rows.json",
        '[["x.png", "b"]]',
        train_parts=({"image": "{1}"},),
        target="{2}",
        bad_files="skip",
    )
    assert one.parts == (("image", f"{folder}/x.png"),)


def test_an_archive_is_listed_once(folder, monkeypatch):
    listed = []
    real = zipfile.ZipFile.namelist
    monkeypatch.setattr(zipfile.ZipFile, "namelist", lambda self: listed.append(1) or real(self))
    assert len(read(folder, "rows.json", json.dumps(ROWS * 50), **NUMBERED)) == 150
    assert len(listed) <= 1


@given(st.text("ab {}:1"), st.text(max_size=5))
def test_a_template_is_filled_once_and_nothing_else_changes(literal, value):
    """What a value looks like is never taken for a field."""
    plain = literal.replace("{", "").replace("}", "")
    assert (
        fill_template(plain + "{x}" + plain, {"x": value + "{x}"}, "here", "parts")
        == plain + value + "{x}" + plain
    )
    assert fill_template(plain, {}, "here", "parts") == plain


def test_a_target_may_be_a_picture_by_a_template_or_beside_its_row(folder):
    rows = [["a dog", 1], ["a cat", 0]]
    got = read(
        folder, "rows.csv", table(rows), train_parts=[{"text": "{1}"}],
        target_image="images.zip/train/{2}.png",
    )  # fmt: skip
    assert [(one.parts, one.target, one.image) for one in got] == [
        ((("text", name),), None, f"{folder}/images.zip/train/{number}.png")
        for name, number in rows
    ]
    row = json.dumps({"input": "a dog", "target": {"image": "a.png"}})
    (one,) = read(folder, "photos/rows.jsonl", row)
    assert (one.target, one.image) == (None, f"{folder}/photos/a.png")


@pytest.mark.parametrize(
    ("target", "said"),
    [
        ({"image": "b.png"}, "not there; did you mean 'a.png'"),
        ({"audio": "a.wav"}, "of type audio"),
        ({}, "is no part"),
    ],
)
def test_a_target_that_cannot_be_drawn(folder, target, said):
    row = json.dumps({"input": "a dog", "target": target})
    with pytest.raises(DataError, match=said):
        read(folder, "photos/rows.jsonl", row)
