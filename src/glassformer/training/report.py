"""`report.html`: curves, scores and samples of a run on one page that opens from disk, without
scripts or network."""

import html
import math
from collections.abc import Callable, Sequence
from typing import Any

from glassformer.training.report_classes import STYLE as STYLE_OF_CLASSES
from glassformer.training.report_classes import confusion, reliability, worst
from glassformer.training.report_tables import cell, is_number, safe, table, table_of, words

WIDTH, HEIGHT, LEFT, BOTTOM, TOP, RIGHT = 720, 270, 56, 42, 14, 16
CURVES = ("accuracy", "f1", "macro_f1", "exact_match", "bleu", "chrf")
SCORES = (
    *(
        "loss",
        "perplexity",
        "bits_per_byte",
        "accuracy",
        "precision",
        "recall",
        "f1",
        "micro_f1",
        "macro_f1",
        "ece",
    ),
    *("exact_match", "bleu", "chrf"),
)
"""The order of validation scores; one that is not named here comes after them."""
FOLDED = 40
"""A table of more groups is there to open."""

STYLE = """
:root{color-scheme:light dark;--ink:light-dark(#1c2430,#e6e9ee);--soft:light-dark(#5b6675,#9aa4b2);
--line:light-dark(#d9dee5,#333b47);--page:light-dark(#fbfbf9,#14181e);--card:light-dark(#fff,#1b2028);
--a:light-dark(#0072b2,#4db3ee);--b:light-dark(#b26b00,#f0ad3d)}
body{font:16px/1.5 system-ui,sans-serif;color:var(--ink);background:var(--page);max-width:820px;
margin:2.5rem auto;padding:0 1rem}
h1{font-size:1.6rem;margin:0 0 .2rem;overflow-wrap:anywhere}
h2{font-size:1.1rem;margin:2rem 0 .6rem}p{margin:.3rem 0;color:var(--soft)}
figure{margin:1rem 0;background:var(--card);border:1px solid var(--line);border-radius:10px;padding:1rem}
figcaption{font-size:.9rem;color:var(--soft);margin-bottom:.5rem}
svg{width:100%;height:auto;display:block;overflow:visible}svg text{font:12px system-ui,sans-serif;fill:var(--soft)}
@media(max-width:600px){svg text{font-size:21px}}.grid{stroke:var(--line)}
.a{stroke:var(--a);fill:none;stroke-width:1.6}.b{stroke:var(--b);fill:none;stroke-width:2.2}.dot{fill:var(--b)}
.wide{overflow-x:auto;margin:1rem 0 .4rem}.small{font-size:.8rem;overflow-wrap:anywhere}
table{border-collapse:collapse;width:100%;font-variant-numeric:tabular-nums}
td,th{text-align:start;vertical-align:top;padding:.3rem .8rem .3rem 0;border-bottom:1px solid var(--line)}
th{vertical-align:bottom;font-size:.9rem;font-weight:600;color:var(--soft)}
.texts td{width:33%;min-width:7rem;white-space:pre-wrap;overflow-wrap:anywhere}
pre{background:var(--card);border:1px solid var(--line);border-radius:10px;padding:.9rem;white-space:pre-wrap;
overflow-wrap:anywhere;font:13.5px/1.45 ui-monospace,monospace}details summary{cursor:pointer}
"""

Point = tuple[float, float]


def report(
    metrics: Sequence[dict[str, Any]],
    recipe: str,
    title: str,
    thumbnail: Callable[[str], str | None] | None = None,
) -> str:
    """The page for the lines of `metrics.jsonl` so far and the resolved recipe.

    `thumbnail`: what an example looks like, as the address of a small picture, where examples are
    no texts.
    """
    train, validation = points(metrics, "train_loss"), points(metrics, "validation_loss")
    speed, rates = points(metrics, "tokens_per_second"), points(metrics, "learning_rate")
    samples = [m for m in metrics if "sample" in m]
    body = [
        f"<h1>{html.escape(title)}</h1>",
        f"<p>{_headline(train, validation)}</p>",
        _figure(
            "Loss in nats per target: training (thin), validation (thick with dots)",
            smooth(train),
            validation,
        ),
        *(
            _figure(f"Validation {words(name)}", [], points(metrics, f"validation_{name}"))
            for name in CURVES
        ),
        _scores(metrics),
        _groups(metrics),
        confusion(metrics),
        reliability(metrics),
        worst(metrics, thumbnail),
        _figure("Tokens per second", smooth(speed), []),
        _figure("Learning rate", smooth(rates), []),
        _pairs(metrics),
        "<h2>Samples while training</h2>" if samples else "",
        *(f"<p>step {m['step']:,}</p><pre>{safe(m['sample'])}</pre>" for m in reversed(samples)),
        f"<h2>Recipe</h2><details><summary>every "
        f"field</summary><pre>{html.escape(recipe)}</pre></details>",
    ]
    return (
        '<!doctype html><html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1"><title>'
        f"{html.escape(title)}</title><style>{STYLE}{STYLE_OF_CLASSES}</style></head><body>{''.join(body)}</body></html>\n"
    )


def points(metrics: Sequence[dict[str, Any]], name: str) -> list[Point]:
    """(step, value) of every line that has a finite value of that name."""
    return [
        (float(m["step"]), float(m[name]))
        for m in metrics
        if is_number(m.get(name)) and math.isfinite(m[name])
    ]


def smooth(curve: Sequence[Point], most: int = 400) -> list[Point]:
    """At most `most` points: means of equal groups of neighbours."""
    size = max(1, math.ceil(len(curve) / most))
    groups = [curve[i : i + size] for i in range(0, len(curve), size)]
    return [(sum(x for x, _ in g) / len(g), sum(y for _, y in g) / len(g)) for g in groups]


def curve(thin: Sequence[Point], thick: Sequence[Point], title: str = "") -> str:
    """An SVG with one thin and one thick line on common axes; its title is for those who cannot see
    it."""
    shown = [p for p in (*thin, *thick) if math.isfinite(p[1])]
    if not shown:
        return ""
    low_x, high_x = min(p[0] for p in shown), max(p[0] for p in shown)
    low_y, high_y = min(p[1] for p in shown), max(p[1] for p in shown)
    high_x, high_y = (
        high_x if high_x > low_x else low_x + 1,
        high_y if high_y > low_y else low_y + 1,
    )
    x = lambda v: LEFT + (v - low_x) / (high_x - low_x) * (WIDTH - LEFT - RIGHT)  # noqa: E731
    y = lambda v: HEIGHT - BOTTOM - (v - low_y) / (high_y - low_y) * (HEIGHT - BOTTOM - TOP)  # noqa: E731
    path = lambda ps: " ".join(f"{x(a):.1f},{y(b):.1f}" for a, b in ps if math.isfinite(b))  # noqa: E731
    parts = [f'<svg viewBox="0 0 {WIDTH} {HEIGHT}" role="img" aria-label="{html.escape(title)}">']
    for tick in ticks(low_y, high_y):
        parts.append(
            f'<line class="grid" x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{y(tick):.1f}" '
            f'y2="{y(tick):.1f}"/>'
        )
        parts.append(
            f'<text x="{LEFT - 8}" y="{y(tick) + 4:.1f}" text-anchor="end">{tick:,.6g}</text>'
        )
    for tick in filter(float.is_integer, ticks(low_x, high_x)):  # there are no parts of steps
        parts.append(
            f'<text x="{x(tick):.1f}" y="{HEIGHT - 8}" text-anchor="middle">{tick:,.6g}</text>'
        )
    parts.append(
        f'<polyline class="a" points="{path(thin)}"/><polyline class="b" points="{path(thick)}"/>'
    )
    parts += [
        f'<circle class="dot" cx="{x(a):.1f}" cy="{y(b):.1f}" r="3"><title>step {a:g}: '
        f"{b:.4f}</title></circle>"
        for a, b in thick
        if math.isfinite(b)
    ]
    return "".join(parts) + "</svg>"


def ticks(low: float, high: float, about: int = 5) -> list[float]:
    """Round numbers between `low` and `high`, about that many."""
    raw = (high - low) / about
    power = 10.0 ** math.floor(math.log10(raw))
    size = next(power * m for m in (1, 2, 5, 10) if power * m >= raw)
    return [
        float(f"{i * size:.12g}") for i in range(math.ceil(low / size), math.floor(high / size) + 1)
    ]


def _figure(caption: str, thin: Sequence[Point], thick: Sequence[Point]) -> str:
    picture = curve(thin, thick, caption)
    return (
        f"<figure><figcaption>{html.escape(caption)}</figcaption>{picture}</figure>"
        if picture
        else ""
    )


def _headline(train: Sequence[Point], validation: Sequence[Point]) -> str:
    if not train:
        return "No step was logged yet."
    words = f"{train[-1][0]:,.0f} steps, training loss {train[-1][1]:.4f}"
    if validation:
        best = min(validation, key=lambda p: p[1])
        words += f", best validation loss {best[1]:.4f} at step {best[0]:,.0f}"
    return words + "."


def _scores(metrics: Sequence[dict[str, Any]]) -> str:
    """The last validations as a table of whatever was measured, and how: the signatures of scores
    that have one."""
    lines: dict[int, dict[str, Any]] = {}
    for m in metrics:
        measured = {
            name.removeprefix("validation_"): v
            for name, v in m.items()
            if name.startswith("validation_")
        }
        if measured:  # scores of one step may stand in several lines
            lines.setdefault(m["step"], {}).update(m | measured)
    last = {
        name: value
        for line in lines.values()
        for name, value in line.items()
        if f"validation_{name}" in line
    }
    names = [name for name, value in last.items() if is_number(value)]
    if not names:
        return ""
    names.sort(key=lambda name: SCORES.index(name) if name in SCORES else len(SCORES))
    rows = [
        [f"{step:,}", *(cell(name, line.get(name)) for name in (*names, "seconds"))]
        for step, line in lines.items()
        if any(name in line for name in names)
    ]
    how = [f"{words(name)}: {value}" for name, value in last.items() if isinstance(value, str)]
    return (
        "<h2>Validation</h2>"
        + table(["step", *map(words, names), "seconds"], rows[-12:])
        + "".join(f'<p class="small">{safe(line)}</p>' for line in how)
    )


def _groups(metrics: Sequence[dict[str, Any]]) -> str:
    """The newest scores by group or class, a row each."""
    newest = next((m for m in reversed(metrics) if m.get("validation_table")), None)
    if newest is None:
        return ""
    rows = newest["validation_table"]
    by = safe(words(next(iter(rows[0]), "group")))  # the first column says what a row is about
    shown = table_of(rows)
    if len(rows) > FOLDED:
        shown = f"<details><summary>{len(rows):,} rows</summary>{shown}</details>"
    return f"<h2>Validation by {by} at step {newest['step']:,}</h2>{shown}"


def _pairs(metrics: Sequence[dict[str, Any]]) -> str:
    """Sources, references and outputs: the newest to see, the older ones to open."""
    tables = [
        (f"step {m['step']:,}", table_of(m["samples"], "texts"))
        for m in reversed(metrics)
        if m.get("samples")
    ]
    if not tables:
        return ""
    older = "".join(
        f"<details><summary>{step}</summary>{shown}</details>" for step, shown in tables[1:]
    )
    return f"<h2>Source, reference and output</h2><p>{tables[0][0]}</p>{tables[0][1]}{older}"
