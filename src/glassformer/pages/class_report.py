"""The part of `report.html` on classes: confusion, reliability of probabilities, largest losses."""

from collections.abc import Callable
from pathlib import PurePath

import numpy as np

from glassformer.pages.charts import line_chart, matrix
from glassformer.pages.colours import weight_steps
from glassformer.pages.kit import Html, cut, escape, figure, folded, image, paragraph, table, wide
from glassformer.pages.records import Record, record_table, shown

MOST_CONFUSIONS, MOST_IMAGES, MOST_LETTERS = 20, 20, 400
"""Most listed confusions, examples as images, letters of one."""


def confusion(line: Record, step: str) -> str:
    """Return gold against predicted classes, and the most frequent confusions."""
    names, counts = line["validation_confusion"]["names"], line["validation_confusion"]["counts"]
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
    found = found if rows else paragraph("No class was taken for another.")
    return f"<h2>Confusion of classes {step}</h2>{drawing}{found}"


def reliability(line: Record, step: str) -> str:
    """Return the share of right predictions by probability."""
    bins = [b for b in line["validation_reliability"] if b["n"]]
    ece = line.get("validation_ece")
    error = "" if ece is None else f"; expected calibration error {ece:.4f}"
    caption = (
        "Share of right predictions against probability, a dot for each range of probabilities; "
        f"calibrated probabilities are on the thin line{error}"
    )
    lines = {"right": [(b["confidence"], b["accuracy"]) for b in bins], "even": [(0, 0), (1, 1)]}
    head = ["probability", "n", "mean probability", "share right"]
    rows = [
        [
            f"{b['low']:.2f} to {b['high']:.2f}",
            f"{b['n']:,}",
            f"{b['confidence']:.4f}",
            f"{b['accuracy']:.4f}",
        ]
        for b in bins
    ]
    numbers = folded("the dots as a table", table("Predictions by probability", head, rows))
    return f"<h2>Reliability {step}</h2>{line_chart(caption, lines, 'right')}{numbers}"


def largest_losses(
    line: Record, step: str, thumbnail: Callable[[str], str | None] | None = None
) -> str:
    """Examples with the largest loss: a table, or images if there is a `thumbnail`."""
    rows: list[Record] = line["validation_worst"]
    if thumbnail is not None:
        figures = (_example(row, thumbnail(row["text"])) for row in rows[:MOST_IMAGES])
        found = f'<div class="thumbnails">{"".join(figures)}</div>'
    else:
        short = lambda value: cut(value, MOST_LETTERS) if isinstance(value, str) else value
        texts = [{name: short(value) for name, value in row.items()} for row in rows]
        found = record_table("Examples with the largest loss", texts, "texts")
    return f"<h2>Largest losses {step}</h2>{found}"


def _example(row: Record, address: str | None) -> Html:
    """An example as an image with its predicted and its right class."""
    path = row["text"]
    name = PurePath(path).name
    shown_image = "" if address is None else image(name, address)
    return Html(
        f'<figure class="card" title="{escape(path)}">{shown_image}<figcaption>'
        f"<b>{escape(row['predicted'])}</b> {row['probability']:.0%}<br>is "
        f"<b>{escape(row['class'])}</b><br>loss {shown('loss', row['loss'])}<br>"
        f"<small>{escape(name)}</small></figcaption></figure>"
    )
