"""report.html: one well-formed page without scripts or network, whatever the numbers and samples are."""

import math
import re
from html.parser import HTMLParser

import pytest
from hypothesis import given
from hypothesis import strategies as st

from glassformer.train.report import curve, report, smooth, ticks
from small_runs import go, recipe

VOID = {"meta", "br", "hr", "img", "input", "link"}


class Page(HTMLParser):
    """Checks that tags close in order, and keeps what matters."""

    def __init__(self, text: str):
        super().__init__()
        self.open, self.tags, self.attributes, self.text = [], [], [], ""
        self.feed(text)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        self.attributes += attrs
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        self.tags.append(tag)
        self.attributes += attrs

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.text += data


LINES = [
    *({"step": s, "train_loss": 3.0 / s, "tokens_per_second": 10.0 * s, "learning_rate": 1e-3} for s in range(1, 30)),
    {"step": 10, "validation_loss": 2.0, "validation_perplexity": 7.4, "seconds": 3.0},
    {"step": 20, "validation_loss": 1.5, "validation_perplexity": 4.5, "validation_bits_per_byte": 1.1, "seconds": 6.0},
    {"step": 20, "sample": '<script>alert(1)</script> & "x" \x1b[31m\x00'},
]


def test_the_page_is_well_formed_and_stands_alone():
    text = report(LINES, "train:\n  sample_prompt: <b>", "<i>run</i>")
    page = Page(text)
    assert "script" not in page.tags
    assert "<script>alert(1)</script>" in page.text
    assert "<b>" in page.text
    assert "<i>run</i>" in page.text
    assert not [c for c in text if ord(c) < 32 and c != "\n"]
    assert not [
        name for name, _ in page.attributes if name in ("src", "href", "srcset", "xlink:href") or name[:2] == "on"
    ]
    assert "http" not in text
    assert "url(" not in text
    assert "@import" not in text
    assert "29 steps, training loss 0.1034, best validation loss 1.5000 at step 20." in page.text
    assert "–" in page.text, "a score that was not measured is a dash"


@pytest.mark.parametrize("lines", [[], LINES[:1], [{"step": 1, "train_loss": math.nan}], LINES[-1:]])
def test_little_or_nothing_is_also_a_page(lines):
    Page(report(lines, "", "x"))


def test_what_is_not_finite_is_left_out_and_the_rest_is_drawn():
    lines = [{"step": s, "train_loss": v} for s, v in enumerate([2.0, math.nan, 1.0, math.inf, 0.5])]
    page = Page(report(lines, "", "x"))
    drawn = next(value for name, value in page.attributes if name == "points")
    assert len(drawn.split()) == 3
    assert "nan" not in drawn
    assert "inf" not in drawn


finite = st.floats(-1e6, 1e6)


@given(
    st.lists(st.tuples(st.floats(0, 1e6), finite), max_size=60),
    st.lists(st.tuples(st.floats(0, 1e6), finite), max_size=9),
)
def test_every_finite_point_is_in_the_picture(thin, thick):
    picture = curve(thin, thick)
    if not thin and not thick:
        assert picture == ""
        return
    Page(picture)
    one, two = re.findall(r'points="([^"]*)"', picture)
    assert (len(one.split()), len(two.split())) == (len(thin), len(thick))
    assert picture.count("<circle") == len(thick)
    for pair in (*one.split(), *two.split()):
        x, y = map(float, pair.split(","))
        assert 56 <= x <= 720 - 16
        assert 14 <= y <= 260 - 34


@given(st.lists(st.tuples(finite, finite), max_size=50), st.integers(1, 20))
def test_smoothing_keeps_few_points_and_the_mean(points, most):
    made = smooth(points, most)
    assert len(made) <= most
    assert smooth(points, len(points) + 1) == points
    if points and len(points) % math.ceil(len(points) / most) == 0:
        assert sum(y for _, y in made) / len(made) == pytest.approx(sum(y for _, y in points) / len(points), abs=1e-6)


@given(st.floats(-1e6, 1e6), st.floats(1e-9, 1e6))
def test_ticks_are_a_few_round_numbers_inside(low, width):
    high = low + max(width, abs(low) * 1e-6)
    made = ticks(low, high)
    assert 2 <= len(made) <= 7
    slack = (high - low) * 1e-6 + abs(low) * 1e-11
    assert all(low - slack <= tick <= high + slack for tick in made)


def test_a_run_writes_its_report(tmp_path):
    go(recipe(tmp_path, train={"sample_tokens": 8, "sample_every": 4}), tmp_path / "x")
    page = Page((tmp_path / "x" / "report.html").read_text())
    assert "step 8" in page.text
    assert "n_layers: 2" in page.text
    assert page.tags.count("svg") == 3
