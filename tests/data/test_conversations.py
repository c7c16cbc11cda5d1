"""Conversations in the shapes in which they are published, in every table format."""

import csv
import json

import pytest

from glassformer.core.errors import DataError
from glassformer.data.config import DataConfig
from glassformer.data.records.conversations import Message, conversations, messages_of
from glassformer.data.usual_columns import with_usual_columns

TALK = (Message("user", "2 + 2?"), Message("assistant", "4"))
SYSTEM = (Message("system", "Count."), *TALK)
AS_OBJECTS = [{"role": one.role, "content": one.content} for one in TALK]
SHAPES = {
    "messages": ({"messages": AS_OBJECTS}, TALK),
    "parts": (
        {
            "messages": [
                {**one, "content": [{"type": "text", "text": one["content"]}]} for one in AS_OBJECTS
            ]
        },
        TALK,
    ),
    "from, value": (
        {
            "conversations": [
                {"from": "system", "value": "Count."},
                {"from": "human", "value": "2 + 2?"},
                {"from": "gpt", "value": "4"},
            ]
        },
        SYSTEM,
    ),
    "instruction": ({"instruction": "2 + 2?", "input": "", "output": "4"}, TALK),
    "instruction and input": (
        {"instruction": "Add.", "input": "2 and 2", "output": "4"},
        (Message("user", "Add.\n\n2 and 2"), TALK[1]),
    ),
    "prompt": ({"prompt": "2 + 2?", "completion": "4"}, TALK),
    "prompt with a system message": (
        {"prompt": "2 + 2?", "completion": "4", "system": "Count."},
        SYSTEM,
    ),
    "messages on both sides": ({"prompt": AS_OBJECTS[:1], "completion": AS_OBJECTS[1:]}, TALK),
}


def read(path, **changes):
    data = {"train": {"path": str(path)}, "validation": {"fraction": 0}, **changes}
    config, _ = with_usual_columns(DataConfig.parse(data), ("messages_field",))
    return [(one.split, one.messages) for one in conversations(config)]


def write(folder, row, form):
    path = folder / f"rows.{form}"
    match form:
        case "jsonl":
            path.write_text(json.dumps(row) + "\n", encoding="utf-8")
        case "json":
            path.write_text(json.dumps([row]), encoding="utf-8")
        case "csv":
            with path.open("w", encoding="utf-8", newline="") as file:
                table = csv.writer(file)
                table.writerow(row)
                table.writerow(
                    [one if isinstance(one, str) else json.dumps(one) for one in row.values()]
                )
        case "parquet":
            pyarrow = pytest.importorskip("pyarrow")
            from pyarrow.parquet import write_table

            write_table(pyarrow.Table.from_pylist([row]), path)
    return path


@pytest.mark.parametrize("form", ["jsonl", "json", "csv", "parquet"])
@pytest.mark.parametrize("shape", SHAPES)
def test_every_shape_is_read_in_every_format(shape, form, tmp_path):
    row, expected = SHAPES[shape]
    if shape == "messages on both sides" and form == "csv":
        pytest.skip("a cell of text is a text there")
    field = {"messages_field": "conversations"} if form == "json" and "conversations" in row else {}
    assert read(write(tmp_path, row, form), **field) == [("train", expected)]


def test_some_are_held_out(tmp_path):
    path = tmp_path / "rows.jsonl"
    path.write_text(
        "".join(json.dumps({"prompt": str(i), "completion": "a"}) + "\n" for i in range(20))
    )
    splits = [split for split, _ in read(path, validation={"fraction": 0.25})]
    assert (splits.count("train"), splits.count("validation")) == (15, 5)


@pytest.mark.parametrize(
    ("row", "said"),
    [
        ({"text": "a"}, r"no field 'messages', nor 'instruction' and 'output' or 'prompt'"),
        (
            {"messages": [{"role": "me", "content": "a"}]},
            "a message of the role 'me'; use system, user",
        ),
        ({"messages": [{"role": "user", "content": 3}]}, "'content' that is not a string but 3"),
        (
            {"messages": AS_OBJECTS[:1]},
            "no message of the assistant, the answer to learn; remove it",
        ),
        ({"messages": []}, "has no message; give at least one"),
        ({"messages": "no"}, "'no' in place of messages; give them as a JSON list"),
        (
            {"messages": {"role": "user"}},
            "no messages; give a list of objects with role and content",
        ),
        ({"messages": ["a"]}, "has the message 'a'; give an object with role, content"),
        (
            {"messages": [{"role": "user", "content": [{"type": "image"}]}]},
            "the part {'type': 'image'} in a message; only text is read",
        ),
        ({"instruction": "a", "input": 3, "output": "b"}, "'input' that is not a string but 3"),
        ([1], r"is not an object but \[1\]"),
    ],
)
def test_a_row_of_another_shape_is_told_with_its_place(row, said, tmp_path):
    with pytest.raises(DataError, match=rf"rows\.jsonl, line 1 .*{said}"):
        read(write(tmp_path, row, "jsonl"))


def test_a_text_is_a_message_of_the_user():
    assert messages_of("2 + 2?", "x") == TALK[:1]
    assert messages_of(TALK, "x") == messages_of(AS_OBJECTS, "x") == TALK
