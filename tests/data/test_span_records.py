"""Texts with spans of characters become words with tags, whichever program wrote them."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from glassformer.core.errors import DataError
from glassformer.data.formats.tagged_words import span_sentence
from glassformer.data.records.tagged import read_tagged
from glassformer.metrics.spans import spans as spans_of
from small_runs import data_config

KINDS = st.sampled_from(["PER", "LOC"])


@st.composite
def annotated(draw):
    """A text of any characters with spans, and the words of each span."""
    text, found = "", []
    for _ in range(draw(st.integers(1, 6))):
        piece = draw(st.text("aé漢😀 .", max_size=6))
        kind = draw(st.none() | KINDS)
        if kind and piece.strip():
            found.append((len(text), len(text) + len(piece), kind, piece))
        text += piece
    return text, found


def units(text):
    return len(text.encode("utf-16-le")) // 2


def written(text, found):
    """The records of each program."""
    pairs = [[start, end, kind] for start, end, kind, _ in found]
    named = [{"start_offset": s, "end_offset": e, "label": kind} for s, e, kind in pairs]
    marked = [
        {"start": units(text[:s]), "end": units(text[:e]), "text": piece, "labels": [kind]}
        for s, e, kind, piece in found
    ]
    results = [{"type": "choices", "value": {"choices": ["x"]}}, *({"value": m} for m in marked)]
    done = [{"was_cancelled": True, "result": []}, {"result": results}]
    prodigy = [{"start": s, "end": e, "label": kind} for s, e, kind in pairs]
    return [
        {"id": 1, "text": text, "label": pairs[::-1]},
        {"id": 1, "text": text, "labels": pairs, "Comments": []},
        {"text": text, "entities": named, "relations": []},
        {"text": text, "label": marked},
        {"text": text, "spans": prodigy},
        {"id": 7, "data": {"body": text, "n": 3}, "annotations": done, "predictions": []},
    ]


@given(annotated())
def test_every_span_is_marked_and_no_character_is_lost(case):
    text, found = case
    answers = [span_sentence(record, "x") for record in written(text, found)]
    words, tags = answers[0]
    assert answers == [(words, tags)] * len(answers)
    assert "".join(words) == "".join(text.split())
    marked = [(one.kind, list(words[one.start : one.end])) for one in spans_of(tags)]
    assert marked == [(kind, piece.split()) for _, _, kind, piece in found]


@pytest.mark.parametrize("name", ["a.jsonl", "a.json"])
def test_files_of_spans_are_tagged_sentences(tmp_path, name):
    rows = written("Ann lives in New York.", [(0, 3, "PER", "Ann"), (13, 21, "LOC", "New York")])
    whole = json.dumps(rows) if name == "a.json" else "\n".join(map(json.dumps, rows))
    (tmp_path / name).write_text(whole)
    found = list(read_tagged(data_config({"train.path": str(tmp_path / name)})))
    assert {one.words for one in found} == {("Ann", "lives", "in", "New", "York", ".")}
    assert {one.tags for one in found} == {("B-PER", "O", "O", "B-LOC", "I-LOC", "O")}


@pytest.mark.parametrize(
    ("row", "sentence"),
    [
        ({"text": "abc", "label": [[0, 2, "X"], [1, 3, "Y"]]}, "overlap at character 1"),
        ({"text": "abc", "label": [[0, 4, "X"]]}, "from 0 to 4 in a text of 3 characters"),
        ({"text": "a  b", "label": [[1, 3, "X"]]}, "a span 'X' of spaces"),
        (
            {"text": "abc", "label": [{"start": 0, "end": 2, "text": "bc", "labels": ["X"]}]},
            "a span of 'bc' where the text is 'ab'",
        ),
        ({"data": {"text": "a"}, "annotations": []}, "has 0 annotations with a result; keep one"),
        (
            {"data": {"image": "a", "b": "c"}, "annotations": [{"result": []}]},
            "no text with spans of characters",
        ),
    ],
)
def test_spans_that_cannot_be_tags_are_said(row, sentence):
    with pytest.raises(DataError, match=sentence):
        span_sentence(row, "x.jsonl, line 1")


@pytest.mark.parametrize("row", [{"text": "a", "label": ["pos"]}, {"text": "a"}, ["a"], {"a": 1}])
def test_other_records_are_none_of_spans(row):
    assert span_sentence(row, "x") is None
