"""The part of `report.html` on classes: confusion, and reliability of probabilities."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from glassformer.pages.charts import line_chart, matrix
from glassformer.pages.colours import weight_steps
from glassformer.pages.kit import Html, figure, folded, paragraph, table, wide

MOST_CONFUSIONS = 20


def confusion(names: Sequence[str], counts: Sequence[Sequence[int]]) -> Html:
    """Return gold against predicted classes, and the most frequent confusions."""
    shares = np.array(counts) / np.maximum(1, np.sum(counts, 1, keepdims=True))

    def about(i: int, j: int) -> tuple[str, str]:
        gold, predicted = (f"\u2068{names[k]}\u2069" for k in (i, j))
        n, share = f"{counts[i][j]:,}", f"{sum(counts[i]):,} ({shares[i, j]:.1%})"
        return n, f"{gold} predicted as {predicted}: {n} of {share}"

    right = [(i, i) for i in range(len(names))]
    scene = matrix(names, names, weight_steps(shares), about=about, marked=right)
    caption = (
        f"{len(names):,} gold classes from top to bottom, predicted ones from left to right in the "
        "same order; the diagonal is right; stronger colours are larger shares of a row"
    )
    cells = ((n, i, j) for i, row in enumerate(counts) for j, n in enumerate(row) if n and i != j)
    rows = [
        [names[i], names[j], f"{n:,}", f"{shares[i, j]:.1%}"]
        for n, i, j in sorted(cells, key=lambda cell: -cell[0])[:MOST_CONFUSIONS]
    ]
    head = ["gold", "predicted", "n", "share of gold"]
    found = folded("the most frequent confusions", table("Most frequent confusions", head, rows))
    drawing = figure(caption, wide(scene.svg(f"Confusion of {len(names)} classes")))
    return drawing + (found if rows else paragraph("No class was taken for another."))


def reliability(bins: Sequence[dict[str, Any]], ece: float | None = None) -> Html:
    """Return the share of right predictions by probability."""
    bins = [b for b in bins if b["n"]]
    error = "" if ece is None else f"; expected calibration error {ece:.4f}"
    caption = (
        "Share of right predictions against probability, a dot for each range of probabilities; "
        f"calibrated probabilities are on the thin line{error}"
    )
    lines = {"right": [(b["confidence"], b["accuracy"]) for b in bins], "even": [(0, 0), (1, 1)]}
    head = ["probability", "n", "mean probability", "share right"]
    form = "{low:.2f} to {high:.2f}|{n:,}|{confidence:.4f}|{accuracy:.4f}"
    rows = [form.format(**b).split("|") for b in bins]
    numbers = folded("the dots as a table", table("Predictions by probability", head, rows))
    return line_chart(caption, lines, "right") + numbers
