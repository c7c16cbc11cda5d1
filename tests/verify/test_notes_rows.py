"""Every equation, reading and printed number of the notes holds in float64."""

import pytest

from glassformer.verify import rows_attention, rows_task
from verify.models import noted


@pytest.fixture(scope="module")
def rows():
    return noted()


def test_every_row_passes(rows):
    assert [row for row in rows if not row.passed] == []
    assert len(rows) > 200  # as README.md says


def test_equations_1_to_19_are_all_there(rows):
    numbers = {row.equation.split()[0] for row in rows}
    assert {str(number) for number in range(1, 20)} <= numbers


def test_every_disagreement_is_reached(rows):
    points = {
        row.equation.removeprefix("reading: ")
        for row in rows
        if row.equation.startswith("reading: ")
    }
    assert points == {
        "scale",
        "mask placement",
        "bias placement",
        "W_O",
        "sinusoid exponent",
        "position index",
        "frequency",
        "norm placement",
        "FFN width",
        "head",
        "classification",
        "future scores",
        "E_pos",
        "position combination",
        "residual connections",
    }


def test_the_golden_numbers_are_there(rows):
    text = " ".join(row.formula for row in rows if row.equation.startswith("golden: "))
    for number in (
        "58.890",
        "57.158",
        ".84967",
        ".15033",
        "768",
        "124,439,808",
        "109,482,240",
        "86,567,656",
    ):
        assert number in text
    assert "60,506,624" in text
    assert (
        sum("p_" in row.formula for row in rows if row.equation == "golden: position vectors") == 5
    )


def test_tolerances_are_tight_except_for_printed_digits(rows):
    loose = {row.equation for row in rows if row.tolerance > 1e-10}
    assert loose <= {
        "golden: worked example",
        "golden: position vectors",
        "golden: temperature",
        "golden: scaling",
        "reading: sinusoid exponent",
        "16 generation",  # a sampled chain, in standard deviations
    }


def test_the_same_numbers_every_time(rows):
    again = {row for group in (*rows_attention.GROUPS, rows_task.sampling) for row in group()}
    assert again < set(rows)
    assert len(again) > 20
