"""Rows as JSON, as a table and as a page."""

import json

import numpy as np
import pytest

from glassformer import verify
from glassformer.verify.row import Gap, Row, claims, max_error, rows_of, variant

GOOD = Row(
    "Notes A, B",
    "3 attention",
    "a < b & c",
    "glassformer.layers.attention.attend.attend",
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


def test_a_row_is_its_claim_with_the_worst_gap_and_a_tolerance_that_grows():
    gaps = [
        Gap("ffn.gated", "here", np.ones(1), np.full(1, 1.5)),
        Gap("attention.q", "", [3.5], [4.0]),
        Gap("ffn.gated", "there", np.ones(1), np.full(1, 1000.0)),
    ]
    first, last = rows_of(gaps)
    text = ("Notes A, B, C, D, E", "1 projections", "q_i = x_i W_Q")
    assert first == Row(*text, "glassformer.layers.attention.multi_head.Attention", 0.5, 4e-11)
    assert not first.passed
    assert last.detail == "gated, Shazeer 2020; worst of 2: there"
    assert (last.max_abs_error, last.tolerance) == (999.0, 1e-8)
    assert list(rows_of([])) == []


def test_a_variant_is_its_own_claim_or_the_general_one():
    assert variant("head.lm", "distilled", "untied") == "head.lm.untied"
    assert variant("head.tag", "untied") == "head.tag"


def test_claims_are_complete():
    columns = ("claim", "note", "equation", "formula", "function", "tolerance")
    assert all(line[column] for line in claims().values() for column in columns)
    assert all(None not in line for line in claims().values())


def test_a_row_cannot_be_told_that_it_passed():
    with pytest.raises(TypeError):
        Row("Note A", "1", "x", "f", 1.0, 0.0, passed=True)
