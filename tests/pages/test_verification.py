"""The page of a verification has every row under its note, with error, tolerance and verdict."""

import math

from glassformer import verify
from glassformer.pages.verification import verification_html
from glassformer.verify.row import Row
from pages.reading import Page

ROWS = [
    Row(
        "Notes A, B",
        "3 attention",
        "a < b & c",
        "glassformer.layers.attention.attend.attend",
        2e-16,
        1e-12,
    ),
    Row("Note C", "9 layer norm", "γ (x − μ) / σ", "layers.norm.layer_norm", math.inf, 1e-12),
    Row(
        "Published sizes", "golden: parameters", "GPT-2", "models.transformer.T", 0.0, 0.0, "exact"
    ),
]


def test_the_page_has_every_row():
    page = Page(verification_html(verify.as_json(ROWS), verify.summary(ROWS), "a <title>"))
    assert {"Note A", "Note C", "Published sizes"} <= {*page.words}
    for row in ROWS:
        for text in (row.note, row.equation, row.formula, row.function, row.detail):
            assert text in page.text  # a long name may break before a dot
    assert "1 of 3 rows failed, first 9 layer norm" in page.text
    assert [word for word in page.words if word in ("passed", "failed")] == [
        "passed",
        "failed",
        "passed",
    ]
    for numbers in ("2.0e-16 ≤ 1.0e-12", "∞ ≤ 1.0e-12", "0 ≤ 0"):
        assert numbers in page.text


def test_bars_stand_on_a_scale_of_powers_of_ten():
    errors = [0.0, 1e-18, 10**-8.5, 10.0, 1e9, math.inf, math.nan]
    rows = [Row("Note A", "1", "x", "f", error, 1e-18) for error in errors]
    page = Page(verification_html(verify.as_json(rows), "", "x"))
    assert page.values("style", "i") == [
        f"width:{width}%" for width in ("0.0", "0.0", "50.0", "100.0", "100.0", "100.0", "100.0")
    ]
    assert page.values("style", "b") == ["left:0.0%"] * len(rows)
