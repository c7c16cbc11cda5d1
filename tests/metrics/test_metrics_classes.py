"""Scores of classes: those of scikit-learn, in however many batches; calibration as its definition
says."""

import json
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from glassformer.metrics.classes import Calibration, ClassScore, MultiLabelScore, TagScore

oracle = pytest.importorskip("sklearn.metrics")
seeds = st.integers(0, 2**32 - 1)
NAMES = ["a", "b", "c", "d", "e"]


def close(a):
    return pytest.approx(a, abs=1e-12)


@st.composite
def batches(draw):
    """Gold classes and probabilities of several batches: some classes rare, many probabilities
    alike, some 0 or 1."""
    rng, n_classes = np.random.default_rng(draw(seeds)), draw(st.integers(1, 5))
    made = []
    for size in draw(st.lists(st.integers(0, 9), max_size=4)):
        gold = rng.integers(draw(st.sampled_from([-1, 0])), draw(st.integers(1, n_classes)), size)
        weights = rng.integers(0, 4, (size, n_classes)) + (
            rng.random((size, 1)) < 0.5
        ) * rng.random((size, n_classes))
        weights[:, 0] += weights.sum(1) == 0
        probabilities = (weights / weights.sum(1, keepdims=True)).astype(
            draw(st.sampled_from(["float32", "float64"]))
        )
        made.append((gold, probabilities))
    return NAMES[:n_classes], made


def joined(parts, empty):
    return np.concatenate(parts) if parts else empty


def expected_error(probabilities, so):
    """ECE straight from its definition: each bin is looked through on its own."""
    total = 0.0
    for i in range(15):
        low, high = i / 15, (i + 1) / 15
        inside = [
            j
            for j, p in enumerate(probabilities)
            if (low < p <= high) or (i == 0 and p == 0) or (p > 1 and i == 14)
        ]
        if inside:
            confidence = sum(float(probabilities[j]) for j in inside) / len(inside)
            accuracy = sum(bool(so[j]) for j in inside) / len(inside)
            total += len(inside) / len(probabilities) * abs(accuracy - confidence)
    return total


def check_table(rows, names, gold, predicted):
    """The rows are scikit-learn's, one for each class that occurs."""
    present = sorted({*gold.tolist(), *predicted.tolist()} - {-1})
    assert [row["class"] for row in rows] == [names[i] for i in present]
    if present:
        theirs = oracle.precision_recall_fscore_support(
            gold, predicted, labels=present, zero_division=0
        )
        ours = [[row[key] for row in rows] for key in ("precision", "recall", "f1", "n")]
        assert np.allclose(ours, theirs, rtol=0, atol=1e-12)
        return oracle.f1_score(gold, predicted, labels=present, average="macro", zero_division=0)
    return 0.0


@given(batches())
def test_one_class_each_is_scored_as_scikit_learn_does(made):
    names, parts = made
    score = ClassScore(names)
    for part in parts:
        score.add(*part)
    gold = joined([g for g, _ in parts], np.zeros(0, int))
    probabilities = joined([p for _, p in parts], np.zeros((0, len(names))))
    predicted = probabilities.argmax(1)
    result = score.result()
    assert result["examples"] == len(gold)
    assert result["unseen"] == (gold == -1).sum()
    assert result["macro_f1"] == close(check_table(score.table(), names, gold, predicted))
    if len(gold):
        assert result["accuracy"] == close(oracle.accuracy_score(gold, predicted))
        assert result["micro_f1"] == close(oracle.f1_score(gold, predicted, average="micro"))
        confidence = np.array(
            [p.max() for p in probabilities], dtype=float
        )  # parts may differ in precision
        assert result["ece"] == close(expected_error(confidence, predicted == gold))
    else:
        assert set(result.values()) == {0}
    labels = range(len(names))
    counted = [[int(((gold == g) & (predicted == p)).sum()) for p in labels] for g in labels]
    assert score.confusion() == counted
    json.dumps(
        [result, score.table(), score.confusion(), score.calibration.bins()], allow_nan=False
    )


@given(batches())
def test_tags_are_scored_as_scikit_learn_does(made):
    names, parts = made
    score, classes = TagScore(names), ClassScore(names)
    for gold, probabilities in parts:
        score.add(gold, probabilities.argmax(1))
        classes.add(gold, probabilities)
    gold = joined([g for g, _ in parts], np.zeros(0, int))
    predicted = joined([p.argmax(1) for _, p in parts], np.zeros(0, int))
    result = score.result()
    assert result["tokens"] == len(gold)
    assert result["unseen"] == (gold == -1).sum()
    assert result["accuracy"] == close(oracle.accuracy_score(gold, predicted) if len(gold) else 0)
    assert result["macro_f1"] == close(check_table(score.table(), names, gold, predicted))
    assert score.confusion() == classes.confusion()
    json.dumps([result, score.table(), score.confusion()], allow_nan=False)


@given(
    seeds,
    st.integers(1, 5),
    st.lists(st.integers(0, 9), max_size=4),
    st.sampled_from([0.2, 0.5, 0.9]),
)
def test_several_labels_are_scored_as_scikit_learn_does(seed, n_labels, sizes, threshold):
    rng, names, parts = np.random.default_rng(seed), NAMES[:n_labels], []
    score = MultiLabelScore(names)
    for size in sizes:
        gold = rng.random((size, n_labels)) < rng.random(n_labels) ** 2
        probabilities = np.where(
            rng.random(gold.shape) < 0.6, gold, rng.integers(0, 11, gold.shape) / 10
        )
        parts.append((gold, probabilities.astype(np.float64)))
        score.add(*parts[-1], threshold)
    gold = joined([g for g, _ in parts], np.zeros((0, n_labels), bool))
    probabilities = joined([p for _, p in parts], np.zeros((0, n_labels)))
    predicted, result = probabilities >= threshold, score.result()
    present = np.flatnonzero(gold.any(0) | predicted.any(0))
    assert [row["class"] for row in score.table()] == [names[i] for i in present]
    assert result["examples"] == len(gold)
    assert result["unseen"] == 0
    json.dumps([result, score.table(), score.calibration.bins()], allow_nan=False)
    if not len(gold):
        assert set(result.values()) == {0}
        return
    assert result["accuracy"] == close((gold == predicted).all(1).mean())
    assert result["ece"] == close(expected_error(probabilities.ravel(), gold.ravel()))
    if n_labels == 1:  # scikit-learn takes a single column for another task
        assert result["micro_f1"] == close(
            oracle.f1_score(gold[:, 0], predicted[:, 0], zero_division=0)
        )
        return
    assert result["accuracy"] == close(oracle.accuracy_score(gold, predicted))
    assert result["micro_f1"] == close(
        oracle.f1_score(gold, predicted, average="micro", zero_division=0)
    )
    if len(present):
        theirs = oracle.precision_recall_fscore_support(
            gold, predicted, labels=present, zero_division=0
        )
        ours = [[row[key] for row in score.table()] for key in ("precision", "recall", "f1", "n")]
        assert np.allclose(ours, theirs, rtol=0, atol=1e-12)
    assert result["macro_f1"] == close(np.mean(theirs[2]) if len(present) else 0)


def test_a_label_never_seen_makes_its_example_wrong_and_is_missed():
    score = MultiLabelScore(["a", "b"])
    gold, probabilities = np.array([[True, False]] * 3), np.array([[0.9, 0.1]] * 3)
    score.add(gold, probabilities, unseen=np.array([0, 2, 0]))
    result = score.result()
    assert result["accuracy"] == close(2 / 3)
    assert result["unseen"] == 2
    assert result["micro_f1"] == close(2 * 3 / (3 + 3 + 2))
    assert result["macro_f1"] == 1


@given(
    seeds,
    st.lists(st.sampled_from([0.0, 1.0, 1 / 15, 0.2, 0.4, 0.6, 14 / 15, 0.5, 0.97]), max_size=40),
)
def test_bins_hold_everything_once_and_give_the_error(seed, probabilities):
    so = np.random.default_rng(seed).random(len(probabilities)) < 0.5
    calibration = Calibration()
    for cut in (slice(0, 3), slice(3, None)):
        calibration.add(np.array(probabilities, dtype=float)[cut], so[cut])
    bins = calibration.bins()
    assert sum(b["n"] for b in bins) == len(probabilities)
    assert all(
        b["n"] > 0 and 0 <= b["accuracy"] <= 1 and b["high"] - b["low"] == close(1 / 15)
        for b in bins
    )
    assert all(b["low"] - 1e-12 <= b["confidence"] <= b["high"] + 1e-12 for b in bins)
    assert [b["low"] for b in bins] == sorted({b["low"] for b in bins})
    total = sum(b["n"] * abs(b["accuracy"] - b["confidence"]) for b in bins) / max(
        1, len(probabilities)
    )
    assert calibration.error() == close(total) == close(expected_error(probabilities, so))


def test_a_bin_ends_with_its_upper_edge_and_rounding_above_one_is_one():
    calibration = Calibration()
    calibration.add(
        np.array([0.0, 0.2, 0.2 + 1e-12, 1.0, 1.0000001]),
        np.array([False, True, True, True, False]),
    )
    assert [(round(b["low"] * 15), b["n"], b["accuracy"]) for b in calibration.bins()] == [
        (0, 1, 0.0),
        (2, 1, 1.0),
        (3, 1, 1.0),
        (14, 2, 0.5),
    ]


def test_of_equally_probable_classes_the_first_is_predicted():
    score = ClassScore(["a", "b"])
    score.add(np.array([0, 1]), np.full((2, 2), 0.5, dtype=np.float32))
    assert score.confusion() == [[1, 0], [1, 0]]
    assert score.result()["ece"] == 0
    assert math.isclose(score.result()["macro_f1"], 1 / 3)


@pytest.mark.parametrize(("gold", "predicted"), [(2, 0), (-2, 0), (0, 2), (0, -1)])
def test_an_index_that_is_no_class_is_no_count(gold, predicted):
    with pytest.raises((AssertionError, IndexError)):
        TagScore(["a", "b"]).add(np.array([gold]), np.array([predicted]))
