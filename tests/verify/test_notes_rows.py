"""Every equation, reading and printed number of the notes holds in float64."""

import pytest
import torch

from glassformer import losses, verify
from glassformer.generate import GenerateConfig, decode
from glassformer.generate.logits import temperature


@pytest.fixture(autouse=True, scope="module")
def _one_thread():
    """Tiny tensors: a second thread only waits."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


def greedy(model, prompt, count):
    config = GenerateConfig.parse({"temperature": 0, "max_new_tokens": count})
    return [step.ids[0] for step in decode(model, [list(prompt)], config)]


@pytest.fixture(scope="module")
def rows():
    given = verify.Siblings(
        loss=losses.cross_entropy,
        temperature=temperature,
        greedy=greedy,
        greedy_name="glassformer.generate.decode.decode",
    )
    return list(verify.notes_rows(given))


def test_every_row_passes(rows):
    assert [row for row in rows if not row.passed] == []
    assert len(rows) > 150


def test_equations_1_to_19_are_all_there(rows):
    numbers = {row.equation.split()[0] for row in rows}
    assert {str(number) for number in range(1, 20)} <= numbers


def test_every_disagreement_is_reached(rows):
    points = {row.equation.removeprefix("reading: ") for row in rows if row.equation.startswith("reading: ")}
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
    }


def test_the_golden_numbers_are_there(rows):
    text = " ".join(row.formula for row in rows if row.equation.startswith("golden: "))
    for number in ("58.890", "57.158", ".84967", ".15033", "768", "124,439,808", "109,482,240", "86,567,656"):
        assert number in text
    assert "60,506,624" in text
    assert sum("p_" in row.formula for row in rows if row.equation == "golden: position vectors") == 5


def test_tolerances_are_tight_except_for_printed_digits(rows):
    loose = {row.equation for row in rows if row.tolerance > 1e-10}
    assert loose <= {
        "golden: worked example",
        "golden: position vectors",
        "golden: temperature",
        "golden: scaling",
        "reading: sinusoid exponent",
    }


def test_the_same_rows_every_time_and_without_siblings(rows):
    again = list(verify.notes_rows())
    assert all(row.passed for row in again)
    assert [row for row in again if row.equation == "1 projections"] == [
        row for row in rows if row.equation == "1 projections"
    ]
