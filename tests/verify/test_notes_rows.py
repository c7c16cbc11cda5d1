"""Every equation and reading of the notes holds in float64."""

import re
from itertools import combinations

import pytest
import torch

from glassformer.models.config import ModelConfig
from glassformer.verify.row import TOLERANCES, claims, rows_of
from glassformer.verify.rows_notes import (
    TINY,
    batch_for,
    cases,
    generation,
    make_model,
    offsets,
    scores,
)
from verify.models import noted


@pytest.fixture(scope="module")
def rows():
    return noted()


def test_every_row_passes(rows):
    assert [row for row in rows if not row.passed] == []


def test_equations_1_to_19_are_all_there(rows):
    numbers = {number for row in rows for number in re.findall(r"\d+", row.equation)}
    assert numbers == {str(number) for number in range(1, 20)}


def test_every_disagreement_is_reached(rows):
    points = {
        row.equation.removeprefix("reading: ")
        for row in rows
        if row.equation.startswith("reading: ")
    }
    assert points == {
        "scale",
        "bias placement",
        "sinusoid exponent",
        "position index",
        "norm placement",
        "FFN width",
        "head",
        "classification",
        "position combination",
        "residual connections",
    }


def test_every_claim_has_a_row_but_those_that_no_small_model_has(rows):
    shown = {(row.equation, row.formula) for row in rows}
    lines = claims().items()
    missing = {name for name, line in lines if (line["equation"], line["formula"]) not in shown}
    assert missing <= {"attention.scores.buckets.inside", "attention.scores.alibi.inside"}


def test_choices_of_one_point_differ():
    """A choice that both sides ignored would pass."""
    outputs = {}
    for name, fields in cases().items():
        model = make_model(ModelConfig.parse(TINY | fields)).double()
        shapes = tuple((key, value.shape) for key, value in model.state_dict().items())
        with torch.no_grad():
            logits = model(batch_for(model.config), all_positions=True).logits
        outputs.setdefault((claims()[name]["equation"], shapes), []).append(logits)
    assert sum(len(found) > 1 for found in outputs.values()) > 5
    for found in outputs.values():
        for one, other in combinations(found, 2):
            assert not torch.allclose(one, other, atol=1e-4)


def test_tolerances_are_tight():
    assert {line["tolerance"] for line in claims().values()} == set(TOLERANCES)
    assert max(TOLERANCES.values()) == 1e-10


def test_the_same_numbers_every_time(rows):
    again = set(rows_of(gap for group in (scores, generation, offsets) for gap in group()))
    assert again < set(rows)
