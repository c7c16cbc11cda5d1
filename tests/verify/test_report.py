"""Rows as JSON, as a table and as a page."""

import json

import pytest

from glassformer import verify
from glassformer.verify.row import Claim, Row, max_error

GOOD = Row(
    "Notes A, B",
    "3 attention",
    "a < b & c",
    "glassformer.layers.attend.attend",
    2e-16,
    1e-12,
    "matrix form",
)
BAD = Row(
    "Note C",
    "9 layer norm",
    "γ (x − μ) / σ",
    "glassformer.layers.norm.layer_norm",
    float("inf"),
    1e-12,
)
OTHER = Row(
    "Published sizes",
    "golden: parameters",
    "GPT-2",
    "glassformer.models.transformer.Transformer",
    0.0,
    0.0,
)


def test_json_has_the_keys_and_survives_strict_json():
    values = verify.as_json([GOOD, BAD])
    assert {"note", "equation", "formula", "max_abs_error", "tolerance", "passed"} <= set(values[0])
    assert [value["passed"] for value in values] == [True, False]
    assert json.loads(json.dumps(values, allow_nan=False)) == values


def test_the_table_has_a_line_for_each_row_and_the_verdict():
    text = verify.table([GOOD, BAD])
    assert text.splitlines()[1].startswith("ok")
    assert text.splitlines()[2].startswith("FAIL")
    assert "1 of 2 rows failed, first 9 layer norm" in text
    assert verify.summary([GOOD]) == "All 1 row passed."


def test_errors_are_measured():
    assert max_error([1.0, float("-inf")], [1.5, float("-inf")]) == 0.5
    assert max_error([1.0], [1.0, 2.0]) == float("inf")
    assert max_error([float("nan")], [0.0]) == float("inf")
    assert max_error([[1.0]], [1.0]) == 0  # a batch of one
    assert max_error([[1.0], [1.0]], [1.0]) == float("inf")
    claim = Claim("Note A", "1")
    assert not claim("x", len, [1.0], [1.1]).passed
    assert not claim.at_least("x", len, 0.05, 0.1).passed
    assert claim.at_least("x", len, 0.2, 0.1).passed
    assert not claim.at_least("x", len, float("nan"), 0.1).passed


def test_a_row_cannot_be_told_that_it_passed():
    with pytest.raises(TypeError):
        Row("Note A", "1", "x", "f", 1.0, 0.0, passed=True)
