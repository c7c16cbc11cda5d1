"""Head metrics on patterns made by hand."""

import math

import pytest
import torch

import tiny
from glassformer.core.batch import Batch
from glassformer.inspect.headmetrics import METRICS, head_metrics, measure, metric_shares
from glassformer.inspect.look import Look, look
from glassformer.processors.tokens.elements import Element

LABELS = ("[start]", "the", " cat", ",", " the", " dog", " the", "!")
IDS = (0, 5, 6, 2, 5, 7, 5, 3)
KINDS = ("special", *["token"] * 7)
ELEMENTS = tuple(Element(label, i, kind) for label, i, kind in zip(LABELS, IDS, KINDS, strict=True))
N = len(ELEMENTS)


def of(pattern: torch.Tensor, elements=ELEMENTS, keys=None) -> dict[str, float]:
    shares = metric_shares(elements, keys or elements, within=keys is None)
    return dict(zip(METRICS, measure(pattern[None], shares)[0].tolist(), strict=True))


def to(keys) -> torch.Tensor:
    """Each query looks at one key alone, or at several alike."""
    pattern = torch.zeros(N, N)
    for query, key in enumerate(keys):
        key = [key] if isinstance(key, int) else key
        pattern[query, key] = 1 / len(key)
    return pattern


def test_a_head_that_looks_one_back():
    found = of(to([0, *range(N - 1)]))
    assert found["previous"] == found["distance"] == 1
    assert found["entropy"] == found["diagonal"] == 0
    assert found["first"] == pytest.approx(1 / 7)  # query 1 alone
    assert found["special"] == pytest.approx(1 / 7)
    assert found["punctuation"] == pytest.approx(
        1 / 7
    )  # query 4 looks at the comma; nobody at the last


def test_a_head_that_looks_at_the_first_or_at_itself():
    found = of(to([0] * N))
    assert (found["first"], found["special"]) == pytest.approx((1, 1))
    assert found["distance"] == pytest.approx(sum(range(1, N)) / (N - 1))
    assert found["previous"] == pytest.approx(1 / 7)
    found = of(to(range(N)))
    assert (found["diagonal"], found["distance"], found["first"]) == pytest.approx((1, 0, 0))


def test_a_head_that_looks_evenly_has_the_entropy_of_its_choice():
    assert of(torch.full((N, N), 1 / N))["entropy"] == pytest.approx(3)
    causal = torch.ones(N, N).tril()
    found = of(causal / causal.sum(1, keepdim=True))
    assert found["entropy"] == pytest.approx(sum(math.log2(n) for n in range(2, N + 1)) / (N - 1))
    assert found["first"] == pytest.approx(sum(1 / n for n in range(2, N + 1)) / (N - 1))


def test_induction_looks_behind_earlier_occurrences_of_its_token():
    # " the" at 4 follows "the" at 1, " the" at 6 those at 1 and 4; no other token comes twice
    keys = [0, 0, 0, 0, 2, 0, [2, 5], 0]
    found = of(to(keys))
    assert found["induction"] == 1
    assert found["repeated"] == 0
    assert of(to([0, 0, 0, 0, 2, 0, 0, 0]))["induction"] == pytest.approx(1 / 2)
    found = of(to([0, 0, 0, 0, 1, 0, [1, 4], 0]))
    assert (found["repeated"], found["induction"]) == (1, 0)
    twice = tuple(
        Element("a", 1, "token") for _ in range(2)
    )  # what comes after it is the query itself
    assert math.isnan(of(torch.eye(2), twice)["induction"])


def test_what_is_not_defined_is_no_number():
    other = tuple(Element(str(i), i, "token") for i in range(N))
    found = of(torch.full((N, N), 1 / N), other)
    assert math.isnan(found["induction"])
    assert math.isnan(found["repeated"])
    patches = tuple(Element(f"patch {i}", None, "image") for i in range(N))
    assert math.isnan(of(torch.full((N, N), 1 / N), patches)["induction"])
    across = of(torch.full((N, 3), 1 / 3), keys=ELEMENTS[:3])
    assert [name for name, value in across.items() if math.isnan(value)] == [
        "distance",
        "previous",
        "diagonal",
        "induction",
        "repeated",
    ]
    assert across["first"] == across["special"] == pytest.approx(1 / 3)
    assert across["entropy"] == pytest.approx(math.log2(3))


def test_marks_are_tokens_without_letters_and_digits():
    marks = [" .", "'s", "3", " ", "\n", "—", "日", "..."]
    elements = [Element(mark, i, "token") for i, mark in enumerate(marks)]
    elements += [Element("<eos>", 9, "special"), Element("?", 10, "image")]
    shares = metric_shares(elements, elements, within=True)[[*METRICS].index("punctuation")]
    assert (shares[1] > 0).tolist() == [
        True,
        False,
        False,
        False,
        False,
        True,
        False,
        True,
        False,
        False,
    ]


def test_a_sequence_of_one():
    found = of(torch.ones(1, 1), ELEMENTS[:1])
    assert (found["first"], found["diagonal"], found["entropy"]) == (1, 1, 0)


def looked(**changes) -> Look:
    source = (
        Batch(tiny.tokens(1, 5, seed=3))
        if changes.get("architecture") == "encoder_decoder"
        else None
    )
    return look(tiny.model(**changes), Batch(tiny.tokens(1, 6), source=source))


def test_the_metrics_of_a_model_are_those_of_its_patterns():
    seen = looked(architecture="encoder_decoder", n_kv_heads=2, n_encoder_layers=3)
    for side, site in (("", "self"), ("encoder", "self"), ("", "cross")):
        found = head_metrics(seen, side=side, site=site)
        layers = 3 if side else 2
        assert all(values.shape == (layers, 4) for values in found.values())
        for layer in range(layers):
            for head in range(4):
                pattern = seen.pattern(layer, head, side=side, site=site)
                wanted = -sum(float(a * a.log2()) for row in pattern[1:] for a in row if a > 0) / (
                    len(pattern) - 1
                )
                assert float(found["entropy"][layer, head]) == pytest.approx(wanted, rel=1e-5)
                assert float(found["first"][layer, head]) == pytest.approx(
                    float(pattern[1:, 0].mean()), rel=1e-5
                )


def test_one_pattern_stands_in_memory_at_a_time(monkeypatch):
    seen, asked = looked(), []
    monkeypatch.setattr(
        Look, "pattern", lambda self, layer, head, **at: asked.append((layer, head)) or torch.eye(6)
    )
    assert head_metrics(seen)["diagonal"].tolist() == [[1] * 4] * 2
    assert asked == [(layer, head) for layer in range(2) for head in range(4)]
