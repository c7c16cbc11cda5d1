"""The part of `report.html` on classes: confusion, reliability of probabilities, largest losses."""

from collections.abc import Callable, Sequence
from pathlib import PurePath

from glassformer.pages.charts import Axes
from glassformer.pages.colours import step
from glassformer.pages.kit import (
    Html,
    cell,
    cut,
    escape,
    figure,
    folded,
    image,
    matrix,
    paragraph,
    table,
)
from glassformer.pages.records import Record, record_table, shown

FULL = 20
"""Most classes whose confusion is a table of numbers."""
MOST_CELLS, MOST_CONFUSIONS, MOST_IMAGES, MOST_LETTERS = 4000, 20, 20, 400
"""Most cells of an image of confusion, listed confusions, examples as images, letters of one."""


def confusion(line: Record, step: str) -> str:
    """Gold against predicted classes.

    Up to 20 classes are a table of numbers, more an image and the most frequent confusions.
    """
    names, counts = line["validation_confusion"]["names"], line["validation_confusion"]["counts"]
    draw = _matrix if len(names) <= FULL else _image
    return f"<h2>Confusion of classes {step}</h2>{draw(names, counts)}"


def reliability(line: Record, step: str) -> str:
    """Share of right predictions by probability."""
    bins = [b for b in line["validation_reliability"] if b["n"]]
    ece = line.get("validation_ece")
    error = "" if ece is None else f"; expected calibration error {ece:.4f}"
    caption = (
        "Share of right predictions (bars, with their number above) against probability (dots: the "
        f"mean of a bar); calibrated probabilities are on the dashed line{error}"
    )
    head = ["probability", "n", "mean probability", "share right"]
    rows = [
        [_range(b), f"{b['n']:,}", f"{b['confidence']:.4f}", f"{b['accuracy']:.4f}"] for b in bins
    ]
    return (
        f"<h2>Reliability {step}</h2>{figure(caption, _diagram(bins))}"
        f"{folded('the bars as a table', table('Predictions by probability', head, rows))}"
    )


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


def _matrix(names: Sequence[str], counts: Sequence[Sequence[int]]) -> str:
    rows = []
    for i, (name, row) in enumerate(zip(names, counts, strict=True)):
        cells = (
            cell(f"{n:,}", _step(n, row), _explained(names, i, j, row), marked=i == j)
            for j, n in enumerate(row)
        )
        rows.append((name, [*cells]))
    kind = "counts side" if len(names) > FULL // 2 or sum(map(len, names)) > 80 else "counts"
    text = "Stronger colours are larger shares of a row; the ringed diagonal is right."
    caption = "Gold classes in rows, predicted ones in columns"
    return paragraph(text) + matrix(caption, "gold \\ predicted", names, rows, kind)


def _image(names: Sequence[str], counts: Sequence[Sequence[int]]) -> str:
    cells = [(n, i, j) for i, row in enumerate(counts) for j, n in enumerate(row) if n]
    cells.sort(key=lambda cell: -cell[0])
    size, n_cells = len(names), len(cells)
    drawn = "".join(
        f'<rect class="s{_step(n, counts[i])}" x="{j}" y="{i}" width="1" height="1">'
        f"<title>{escape(_explained(names, i, j, counts[i]))}</title></rect>"
        for n, i, j in cells[:MOST_CELLS]
    )
    left_out = f"; only the {MOST_CELLS:,} most frequent of {n_cells:,} pairs"
    caption = (
        f"{size:,} gold classes from top to bottom, predicted ones from left to right in the same "
        "order; the diagonal is right; stronger colours are larger shares of a row"
        f"{left_out if n_cells > MOST_CELLS else ''}"
    )
    svg = (
        f'<svg class="confusion" viewBox="0 0 {size} {size}" role="img" '
        f'aria-label="Confusion of {size} classes"><rect class="rim" width="{size}" '
        f'height="{size}" stroke-width="{size / 300:.3f}"/>{drawn}</svg>'
    )
    rows = [
        [names[i], names[j], f"{n:,}", f"{n / sum(counts[i]):.1%}"] for n, i, j in cells if i != j
    ][:MOST_CONFUSIONS]
    if not rows:
        return figure(caption, svg) + paragraph("No class was taken for another.")
    head = ["gold", "predicted", "n", "share of gold"]
    return figure(caption, svg) + table("Most frequent confusions", head, rows)


def _step(n: int, row: Sequence[int]) -> int:
    return step(n / max(1, sum(row)))


def _explained(names: Sequence[str], i: int, j: int, row: Sequence[int]) -> str:
    """One cell in words; names of another writing direction are isolated."""
    gold, predicted = (f"\u2068{names[k]}\u2069" for k in (i, j))
    n, total = row[j], sum(row)
    return f"{gold} predicted as {predicted}: {n:,} of {total:,} ({n / max(1, total):.1%})"


def _diagram(bins: Sequence[Record]) -> Html:
    axes = Axes((0, 1), (0, 1), height=380)
    for b in bins:
        title = f"{_range(b)}: {b['n']:,}, {b['accuracy']:.1%} right, mean {b['confidence']:.1%}"
        axes.bar(b["low"], b["high"], b["accuracy"], title)
        axes.text((b["low"] + b["high"]) / 2, 1, _short(b["n"]), "tally", up=8)
    axes.text(0, 1, "n", "tally first", up=8)
    axes.line([(0, 0), (1, 1)], "even")
    axes.dots(
        [(b["confidence"], b["accuracy"]) for b in bins],
        lambda mean, right: f"mean {mean:.1%}, {right:.1%} right",
    )
    fifths = [i / 5 for i in range(6)]
    return axes.svg("Reliability diagram", [(tick, f"{tick:g}") for tick in fifths], fifths)


def _range(b: Record) -> str:
    return f"{b['low']:.2f} to {b['high']:.2f}"


def _short(n: int) -> str:
    """A count in at most four characters: 999, 1.2k, 12k, 3.0M."""
    value, unit = float(n), ""
    for larger in "kMGT":
        if value >= 999.5:
            value, unit = value / 1000, larger
    return f"{value:.1f}{unit}" if unit and value < 9.95 else f"{value:.0f}{unit}"
