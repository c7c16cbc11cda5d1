"""The part of report.html about classes: every count is there in words, whatever the names and
texts are."""

import re

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from glassformer.metrics.classes import ClassScore
from glassformer.pages import kit
from glassformer.pages.training_report import report_html
from pages.reading import Page, tables


def confusion_line(names, counts, step=1):
    return {"step": step, "validation_confusion": {"names": names, "counts": counts}}


def page(*lines):
    """The text of a report, well-formed."""
    text = report_html(list(lines), "", "x")
    Page(text)
    return text


def explained(names, counts):
    """What is said of every cell: gold, predicted, count, count of the row."""
    return [
        (f"\u2068{gold}\u2069 predicted as \u2068{predicted}\u2069", f"{n:,} of {sum(row):,}")
        for gold, row in zip(names, counts, strict=True)
        for predicted, n in zip(names, row, strict=True)
    ]


def said(text, pattern):
    return [tuple(words.rsplit(" (", 1)[0].split(": ")) for words in re.findall(pattern, text)]


counts_of = st.integers(1, 6).flatmap(
    lambda n: st.lists(
        st.lists(st.sampled_from([0, 1, 2, 1234]), min_size=n, max_size=n), min_size=n, max_size=n
    )
)


@given(counts_of)
def test_every_count_is_in_the_picture(counts):
    names = list("abcdef"[: len(counts)])
    text = page(confusion_line(names, counts, 20))
    assert "Confusion of classes at step 20" in text
    cells = re.findall(r'fill="var\(--s(\d+)\)"><title>(.*?)</title>', text)
    assert said("\n".join(title for _, title in cells), "(.+)") == explained(names, counts)
    shares = [n / max(1, sum(row)) for row in counts for n in row]
    assert [int(step) for step, _ in cells] == [kit.weight_steps(share) for share in shares]
    printed = re.findall(r'fill="var\(--t\d+\)"[^>]*>(.*?)<', text)
    assert printed == [f"{n:,}" for row in counts for n in row]
    assert len(re.findall(r'fill="var\(--mark\)"', text)) == len(names), "the diagonal is ringed"


@pytest.mark.parametrize("n", [21, 100])
def test_many_classes_are_a_picture_and_the_most_frequent_confusions(n):
    rng, names = np.random.default_rng(0), [f"c{i}" for i in range(n)]
    counts = (rng.integers(0, 40, (n, n)) * (rng.random((n, n)) < 0.4)).tolist()
    text = page(confusion_line(names, counts))
    (rows,) = tables(text)
    if n == 21:
        assert said(text, "<title>([^<]*)</title></rect>") == explained(names, counts)
    else:
        assert len(text) < 200_000
    wrong = sorted(
        (-n, i, j) for i, row in enumerate(counts) for j, n in enumerate(row) if i != j and n
    )
    assert rows[0] == ["gold", "predicted", "n", "share of gold"]
    assert rows[1:] == [
        [names[i], names[j], str(-n), f"{-n / sum(counts[i]):.1%}"] for n, i, j in wrong[:20]
    ]


def test_many_classes_without_a_wrong_one():
    counts = [[3 * (i == j) for j in range(30)] for i in range(30)]
    text = page(confusion_line([str(i) for i in range(30)], counts))
    assert "No class was taken for another." in text
    assert tables(text) == []


bins_of = st.lists(
    st.tuples(st.integers(0, 14), st.integers(0, 10**7), st.floats(0, 1)), unique_by=lambda b: b[0]
)


@given(bins_of)
def test_every_bin_that_holds_any_has_a_dot_and_a_row(made):
    bins = [
        {
            "low": i / 15,
            "high": (i + 1) / 15,
            "n": n,
            "confidence": (i + 0.5) / 15,
            "accuracy": share,
        }
        for i, n, share in made
    ]
    text, held = (
        page({"step": 3, "validation_reliability": bins, "validation_ece": 0.0625}),
        [b for b in bins if b["n"]],
    )
    if not bins:
        assert "Reliability" not in text
        return
    assert "expected calibration error 0.0625" in text
    for b in held:
        assert f"right, step {b['confidence']:g}: {b['accuracy']:.4f}" in text
    rows = tables(text)[-1][1:] if held else []
    assert [row[1:] for row in rows] == [
        [f"{b['n']:,}", f"{b['confidence']:.4f}", f"{b['accuracy']:.4f}"] for b in held
    ]


def test_the_worst_examples_are_rows_and_long_texts_are_cut():
    rows = [
        {
            "text": "a\nb" + "x" * 400,
            "expected": ["a", "b"],
            "predicted": [],
            "probability": 0.125,
            "loss": None,
        },
        {
            "text": "<script>\x1b[31m",
            "expected": "<b>",
            "predicted": "c",
            "probability": 1,
            "loss": 2.5,
        },
    ]
    old = {"step": 1, "validation_worst": [{"text": "old"}]}
    text = page(
        old, {"step": 1200, "validation_worst": rows}, {"step": 1300, "validation_worst": []}
    )
    assert "Largest losses at step 1,200" in text
    (shown,) = tables(text)
    assert shown == [
        ["text", "expected", "predicted", "probability", "loss"],
        ["a\nb" + "x" * 397 + "…", "a, b", "", "0.1250", "–"],
        ["&lt;script&gt;␛[31m", "&lt;b&gt;", "c", "1", "2.5000"],
    ]
    assert text.count("dir=auto") == 10


def test_a_score_is_shown_as_it_is_measured():
    rng, names = np.random.default_rng(0), ["a", "b", "c"]
    score = ClassScore(names)
    score.add(rng.integers(0, 3, 200), rng.dirichlet([1, 1, 1], 200))
    scores = score.result() | {
        "table": score.table(),
        "confusion": {"names": names, "counts": score.confusion()},
        "reliability": score.calibration.bins(),
    }
    text = page({"step": 5} | {f"validation_{name}": value for name, value in scores.items()})
    validation, by_class, confusion, bars = tables(text)
    assert validation[1][1] == f"{score.result()['accuracy']:.4f}"
    assert [row[0] for row in by_class] == ["class", *names]
    assert sum(int(row[2]) for row in confusion[1:]) < 200
    assert sum(int(row[1]) for row in bars[1:]) == 200


def test_without_classes_there_is_nothing_about_them():
    text = page({"step": 1, "train_loss": 1.0})
    for words in ("Confusion", "Reliability", "Largest losses"):
        assert words not in re.sub("<style>.*?</style>", "", text, flags=re.S)
