"""report.html: curves, scores and samples, whatever was measured."""

import math
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from glassformer.pages.charts import line_chart, ticks
from glassformer.pages.training_report import report_html, smooth
from pages.reading import Page, tables
from small_runs import go, recipe

LINES = [
    *(
        {"step": s, "train_loss": 3.0 / s, "tokens_per_second": 10.0 * s, "learning_rate": 1e-3}
        for s in range(1, 30)
    ),
    {"step": 10, "validation_loss": 2.0, "validation_perplexity": 7.4, "seconds": 3.0},
    {
        "step": 20,
        "validation_loss": 1.5,
        "validation_perplexity": 4.5,
        "validation_bits_per_byte": 1.1,
        "seconds": 6.0,
    },
    {"step": 20, "sample": '<script>alert(1)</script> & "x" \x1b[31m\x00'},
]


def test_the_page_says_how_training_went():
    page = Page(report_html(LINES, "train:\n  sample_prompt: <b>", "<i>run</i>"))
    assert "<script>alert(1)</script>" in page.text
    assert "<b>" in page.text
    assert "29 steps, training loss 0.1034, best validation loss 1.5000 at step 20." in page.text
    assert "–" in page.text, "a score that was not measured is a dash"


@pytest.mark.parametrize(
    "lines", [[], LINES[:1], [{"step": 1, "train_loss": math.nan}], LINES[-1:]]
)
def test_little_or_nothing_is_also_a_page(lines):
    Page(report_html(lines, "", "x"))


def test_whatever_score_was_measured_has_a_column_loss_first():
    lines = [
        {
            "step": 1000,
            "validation_chrf": 30.5,
            "validation_loss": 2.0,
            "validation_other": 7,
            "seconds": 3.4,
        },
        {"step": 2000, "validation_loss": 1.5, "validation_accuracy": 0.5, "seconds": 1234.5},
        {
            "step": 2000,
            "validation_exact_match": 0.25,
            "validation_bleu": 20.125,
        },  # the same step in another line
        {"step": 3000, "validation_bleu_signature": "tok:13a|<v>"},
    ]
    text = report_html([*LINES[:29], *lines], "", "x")
    (table,) = tables(text)
    assert table == [
        ["step", "loss", "accuracy", "exact match", "BLEU", "chrF", "other", "seconds"],
        ["1,000", "2.0000", "–", "–", "–", "30.50", "7", "3"],
        ["2,000", "1.5000", "0.5000", "0.2500", "20.12", "–", "–", "1,234"],
    ]
    page = Page(text)
    assert "BLEU signature: tok:13a|<v>" in page.text
    captions = [f"Validation {name}" for name in ("accuracy", "exact match", "BLEU", "chrF")]
    labels = page.values("aria-label")
    assert [label for label in labels if label in captions] == captions
    assert page.tags.count("svg") == len(labels) == 3 + len(captions)


def test_scores_of_classes_stand_in_their_order_and_have_curves():
    scores = {
        "unseen": 1,
        "ece": 0.125,
        "macro_f1": 0.25,
        "f1": 0.5,
        "recall": 0.4,
        "precision": 0.6,
        "micro_f1": 0.5,
    }
    line = {"step": 7, "seconds": 1.0} | {
        f"validation_{name}": value for name, value in scores.items()
    }
    text = report_html([line | {"validation_loss": 1.0, "validation_exact_match": 0.75}], "", "x")
    head = [
        "step",
        "loss",
        "precision",
        "recall",
        "F1",
        "micro F1",
        "macro F1",
        "ECE",
        "exact match",
        "unseen",
        "seconds",
    ]
    assert tables(text)[0][0] == head
    labels = Page(text).values("aria-label")
    assert labels[0].startswith("Loss in nats per target:")
    assert labels[1:] == ["Validation F1", "Validation macro F1", "Validation exact match"]


def test_only_the_newest_groups_are_shown():
    old = {"step": 10, "validation_table": [{"group": "fr", "n": 1, "exact_match": 0.0}]}
    new = [{"group": "de", "n": 1200, "exact_match": 0.99}, {"group": "<en>", "n": 3, "bleu": 50.0}]
    text = report_html(
        [old, {"step": 20, "validation_loss": 1.0, "validation_table": new}], "", "x"
    )
    scores, groups = tables(text)
    assert scores == [["step", "loss", "seconds"], ["20", "1.0000", "–"]]
    assert groups == [
        ["group", "n", "exact match", "BLEU"],
        ["de", "1,200", "0.9900", "–"],
        ["&lt;en&gt;", "3", "–", "50.00"],
    ]
    assert "Validation by group at step 20" in Page(text).text


@pytest.mark.parametrize("n", [40, 41])
def test_a_long_table_of_classes_is_folded(n):
    rows = [{"class": f"c{i}", "f1": 0.5, "n": i} for i in range(n)]
    text = report_html([{"step": 20, "validation_table": rows}], "", "x")
    assert "<h2>Validation by class at step 20</h2>" in text
    assert len(tables(text)[0]) == 1 + n
    assert Page(text).tags.count("details") == 1 + (n > 40), "the recipe, and perhaps the table"


def test_sources_references_and_outputs_stand_side_by_side_the_newest_first():
    older = {"step": 10, "samples": [{"source": "ein Hund", "reference": None, "output": ""}]}
    newer = {
        "step": 20,
        "samples": [{"source": "<script>", "reference": "a dog", "output": "\x1b[31m\na cat"}],
    }
    text = report_html([older, newer, {"step": 30, "samples": []}], "", "x")
    head = ["source", "reference", "output"]
    assert tables(text) == [
        [head, ["&lt;script&gt;", "a dog", "␛[31m\na cat"]],
        [head, ["ein Hund", "–", ""]],
    ]
    page = Page(text)
    assert page.text.index("at step 20") < page.text.index("step 10")
    assert "script" not in page.tags
    assert page.tags.count("details") == 2, "the older samples and the recipe are folded"


finite = st.floats(-1e6, 1e6)


@given(
    st.lists(st.tuples(st.floats(0, 1e6), finite), max_size=60),
    st.lists(st.tuples(st.floats(0, 1e6), finite), max_size=9),
)
def test_every_finite_point_is_in_the_picture(thin, thick):
    picture = line_chart("", {"thin": thin, "thick": thick}, "thick")
    if not thin and not thick:
        assert picture == ""
        return
    Page(picture)
    lines = re.findall(r'points="([^"]*)"[^>]*><title>', picture)
    assert [len(line.split()) for line in lines] == [len(line) for line in (thin, thick) if line]
    assert picture.count("<title>thick, step") == len(thick)
    for pair in " ".join(lines).split():
        x, y = map(float, pair.split(","))
        assert 0 <= x <= 648
        assert 0 <= y <= 204


@given(st.lists(st.tuples(finite, finite), max_size=50), st.integers(1, 20))
def test_smoothing_keeps_few_points_and_the_mean(points, most):
    made = smooth(points, most)
    assert len(made) <= most
    assert smooth(points, len(points) + 1) == points
    if points and len(points) % math.ceil(len(points) / most) == 0:
        assert sum(y for _, y in made) / len(made) == pytest.approx(
            sum(y for _, y in points) / len(points), abs=1e-6
        )


@given(st.floats(-1e6, 1e6), st.floats(1e-9, 1e6))
def test_ticks_are_a_few_round_numbers_inside(low, width):
    high = low + max(width, abs(low) * 1e-6)
    made = ticks(low, high)
    assert 2 <= len(made) <= 7
    slack = (high - low) * 1e-6 + abs(low) * 1e-11
    assert all(low - slack <= tick <= high + slack for tick in made)


def test_a_run_writes_its_report(tmp_path):
    go(recipe(tmp_path, train={"sample.tokens": 8, "sample.every": 4}), tmp_path / "x")
    page = Page((tmp_path / "x" / "report.html").read_text())
    assert "step 8" in page.text
    assert "n_layers: 2" in page.text
    assert page.tags.count("svg") == 4  # losses, accuracy, tokens per second, rate
