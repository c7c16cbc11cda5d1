"""The part of `report.html` about classes: what is taken for what, how far probabilities are true,
what is hardest."""

from collections.abc import Callable, Sequence
from pathlib import PurePath
from typing import Any

from glassformer.training.report_tables import cell, safe, table, table_of

STYLE = """
.confusion{width:auto;font-size:.85rem}.confusion th{font-size:.85rem}
.confusion caption{text-align:start;color:var(--soft)}
.confusion td{text-align:end;padding:.3rem .45rem;border:1px solid var(--line)}
.confusion th{white-space:nowrap}.confusion thead th{text-align:center;padding:.3rem .45rem}
.confusion .sideways{writing-mode:vertical-rl;text-align:end;margin-inline:auto}
.confusion .right{font-weight:700;outline:2px solid var(--ink);outline-offset:-2px}
.cell,.bar{fill:var(--a)}.bar{fill-opacity:.35}.even{stroke:var(--soft);stroke-dasharray:5 4}
.rim{fill:none;stroke:var(--line)}.worst td{min-width:6rem;white-space:pre-wrap;overflow-wrap:anywhere}
.worst td:first-child{width:45%;min-width:14rem}@media(max-width:600px){.tally{display:none}}
.hardest{display:grid;gap:.8rem;grid-template-columns:repeat(auto-fill,minmax(8.5rem,1fr))}
.hardest figure{margin:0;padding:.7rem}.hardest figcaption{margin:.5rem 0 0;font-size:.8rem;overflow-wrap:anywhere}
.hardest img{width:100%;height:6rem;object-fit:contain;image-rendering:pixelated;display:block}
.hardest b{color:var(--ink)}
"""
FULL = 20
"""The most classes whose confusion is a table of numbers."""
DEEPEST = 45
"""Per cent of colour in a cell that holds a whole row: its number must stay readable."""
PICTURES = 20
"""The most examples that are shown as pictures."""
CELLS = 4000
"""The most cells of a picture of confusion, the most frequent ones: a page must open quickly."""
LETTERS, NAME = 400, 24
"""Where the texts of the worst examples are cut, and names at the sides of a table."""

Line = dict[str, Any]


def confusion(metrics: Sequence[Line]) -> str:
    """Gold against predicted classes at the last validation that counted them; "" if none did.

    Up to 20 classes are a table of numbers, more a picture and the 20 most frequent confusions.
    """
    line = _newest(metrics, "validation_confusion")
    if line is None:
        return ""
    names, counts = line["validation_confusion"]["names"], line["validation_confusion"]["counts"]
    body = (
        _matrix(names, counts)
        if len(names) <= FULL
        else _picture(names, counts) + _most_frequent(names, counts)
    )
    return f"<h2>Confusion of classes at step {line['step']:,}</h2>{body}"


def reliability(metrics: Sequence[Line]) -> str:
    """How often predictions of a probability were right, at the last validation that counted it; ""
    if none did."""
    line = _newest(metrics, "validation_reliability")
    if line is None:
        return ""
    bins = [b for b in line["validation_reliability"] if b["n"]]
    error = (
        f"; expected calibration error {line['validation_ece']:.4f}"
        if "validation_ece" in line
        else ""
    )
    rows = [
        {
            "probability": _range(b),
            "n": b["n"],
            "mean probability": b["confidence"],
            "share true": b["accuracy"],
        }
        for b in bins
    ]
    caption = (
        "How often a prediction was true (bars) against its probability (dots: the mean in a "
        "bar); where it is true as "
        f"often as it is probable, dots are on the dashed line{error}"
    )
    return (
        f"<h2>Reliability at step "
        f"{line['step']:,}</h2><figure><figcaption>{caption}</figcaption>{_diagram(bins)}"
        f"</figure><details><summary>the bars as a table</summary>{table_of(rows)}</details>"
    )


def worst(metrics: Sequence[Line], thumbnail: Callable[[str], str | None] | None = None) -> str:
    """The examples of the largest loss at the last validation that kept them; "" if none did.

    They are a table, or pictures where there is a `thumbnail` of them.
    """
    line = _newest(metrics, "validation_worst")
    if line is None:
        return ""
    rows = [
        {
            name: _cut(value, LETTERS) if isinstance(value, str) else value
            for name, value in row.items()
        }
        for row in line["validation_worst"]
    ]
    shown = (
        table_of(rows, "worst")
        if thumbnail is None
        else _pictures(line["validation_worst"][:PICTURES], thumbnail)
    )
    return f"<h2>Largest losses at step {line['step']:,}</h2>{shown}"


def _pictures(rows: Sequence[Line], thumbnail: Callable[[str], str | None]) -> str:
    """Every example as a picture with what was found in it and what is right."""
    figures = []
    for row in rows:
        address, name = thumbnail(row["text"]), safe(PurePath(row["text"]).name)
        found = f"<b>{safe(row['predicted'])}</b> {row['probability']:.0%}"
        image = "" if address is None else f'<img src="{address}" alt="{name}">'
        figures.append(
            f'<figure title="{safe(row["text"])}">{image}<figcaption>{found}<br>is '
            f"<b>{safe(row['class'])}</b>"
            f"<br>loss {cell('loss', row['loss'])}<br><small>{name}</small></figcaption></figure>"
        )
    return f'<div class="hardest">{"".join(figures)}</div>'


def _newest(metrics: Sequence[Line], name: str) -> Line | None:
    return next((line for line in reversed(metrics) if line.get(name)), None)


def _matrix(names: Sequence[str], counts: Sequence[Sequence[int]]) -> str:
    sideways = ' class="sideways"' if len(names) > FULL // 2 or sum(map(len, names)) > 80 else ""
    shown = [safe(_cut(name, NAME)) for name in names]
    head = "".join(f'<th scope="col"><div{sideways} dir="auto">{name}</div></th>' for name in shown)
    rows = []
    for i, row in enumerate(counts):
        total = sum(row)
        cells = "".join(
            f'<td{" class=right" if i == j else ""} title="{_explained(names, i, j, n, total)}" '
            f'style="background:color-mix(in srgb,var(--a) '
            f'{DEEPEST * n / max(1, total):.0f}%,var(--card))">{n:,}</td>'
            for j, n in enumerate(row)
        )
        rows.append(f'<tr><th scope="row" dir="auto">{shown[i]}</th>{cells}</tr>')
    return (
        "<p>The stronger a colour, the larger its share of the row; what is on the framed "
        "diagonal is right.</p>"
        '<div class="wide"><table class="confusion"><caption>Gold classes in rows, predicted '
        "ones in columns</caption>"
        f'<thead><tr><th scope="col">gold \\ '
        f"predicted</th>{head}</tr></thead><tbody>{''.join(rows)}</tbody>"
        "</table></div>"
    )


def _picture(names: Sequence[str], counts: Sequence[Sequence[int]]) -> str:
    cells = [(n, i, j, sum(row)) for i, row in enumerate(counts) for j, n in enumerate(row) if n]
    cells.sort(key=lambda entry: -entry[0])
    left_out = (
        f"; only the {CELLS:,} most frequent of {len(cells):,} pairs" if len(cells) > CELLS else ""
    )
    size = len(names)
    drawn = "".join(
        f'<rect class="cell" x="{j}" y="{i}" width="1" height="1" '
        f'fill-opacity="{max(0.06, (n / total) ** 0.5):.2f}">'
        f"<title>{_explained(names, i, j, n, total)}</title></rect>"
        for n, i, j, total in cells[:CELLS]
    )
    return (
        f"<figure><figcaption>{size:,} gold classes from top to bottom, predicted ones from "
        f"left to right in the same "
        "order; what is on the diagonal is right; the stronger a colour, the larger its share "
        "of the row"
        f'{left_out}</figcaption><svg viewBox="0 0 {size} {size}" role="img" '
        f'aria-label="Confusion of {size} classes">'
        f'<rect class="rim" width="{size}" height="{size}" '
        f'stroke-width="{size / 300:.3f}"/>{drawn}</svg></figure>'
    )


def _most_frequent(names: Sequence[str], counts: Sequence[Sequence[int]], most: int = 20) -> str:
    wrong = [(n, i, j) for i, row in enumerate(counts) for j, n in enumerate(row) if n and i != j]
    wrong.sort(key=lambda entry: -entry[0])
    if not wrong:
        return "<p>No class was taken for another.</p>"
    rows = [[names[i], names[j], f"{n:,}", f"{n / sum(counts[i]):.1%}"] for n, i, j in wrong[:most]]
    return table(["gold", "predicted", "n", "share of gold"], rows)


def _explained(names: Sequence[str], i: int, j: int, n: int, total: int) -> str:
    """The words of one cell; names of another writing direction stay among themselves."""
    gold, predicted = (f"\u2068{safe(names[k])}\u2069" for k in (i, j))
    return f"{gold} predicted as {predicted}: {n:,} of {total:,} ({n / max(1, total):.1%})"


def _diagram(bins: Sequence[Line]) -> str:
    width, height, left, top = 640, 320, 56, 24
    x = lambda v: left + v * width  # noqa: E731
    y = lambda v: top + (1 - v) * height  # noqa: E731
    parts = [
        f'<svg viewBox="0 0 {width + left + 24} {height + top + 40}" role="img" '
        f'aria-label="Reliability diagram">'
    ]
    for tick in (0.0, 0.2, 0.4, 0.6, 0.8, 1.0):
        parts.append(
            f'<line class="grid" x1="{x(0)}" x2="{x(1)}" y1="{y(tick):.1f}" y2="{y(tick):.1f}"/>'
        )
        parts.append(
            f'<text x="{x(0) - 8}" y="{y(tick) + 4:.1f}" text-anchor="end">{tick:g}</text>'
        )
        parts.append(
            f'<text x="{x(tick):.1f}" y="{y(0) + 26}" text-anchor="middle">{tick:g}</text>'
        )
    for b in bins:
        words = f"{_range(b)}: {b['n']:,}, {b['accuracy']:.1%} true, mean {b['confidence']:.1%}"
        middle = x((b["low"] + b["high"]) / 2)
        parts.append(
            f'<rect class="bar" x="{x(b["low"]) + 1:.1f}" y="{y(b["accuracy"]):.1f}" '
            f'width="{(b["high"] - b["low"]) * width - 2:.1f}" '
            f'height="{b["accuracy"] * height:.1f}">'
            f"<title>{words}</title></rect>"
            f'<text class="tally" x="{middle:.1f}" y="{top - 8}" '
            f'text-anchor="middle">{_short(b["n"])}</text>'
        )
    parts.append(f'<text class="tally" x="{x(0) - 8}" y="{top - 8}" text-anchor="end">n</text>')
    parts.append(f'<line class="even" x1="{x(0)}" y1="{y(0)}" x2="{x(1)}" y2="{y(1)}"/>')
    parts += [
        f'<circle class="dot" cx="{x(b["confidence"]):.1f}" cy="{y(b["accuracy"]):.1f}" r="3"/>'
        for b in bins
    ]
    return "".join(parts) + "</svg>"


def _range(b: Line) -> str:
    return f"{b['low']:.2f} to {b['high']:.2f}"


def _cut(text: str, most: int) -> str:
    return f"{text[:most]}…" if len(text) > most else text


def _short(n: int) -> str:
    """A count in at most four characters: 999, 1.2k, 12k, 3.0M."""
    value, unit = float(n), ""
    for larger in "kMGT":
        if value >= 999.5:
            value, unit = value / 1000, larger
    return f"{value:.1f}{unit}" if unit and value < 9.95 else f"{value:.0f}{unit}"
