"""`report.html`: curves, scores and samples of a run.

metrics.jsonl  ->  curves  scores  baselines  classes (see `class_report`)  samples  recipe
"""

import math
from collections.abc import Callable, Sequence
from functools import partial

import numpy as np

from glassformer.metrics.comparison import NAMES, verdict
from glassformer.metrics.scores import SCORES
from glassformer.pages.charts import Point, line_chart
from glassformer.pages.class_report import confusion, largest_losses, reliability
from glassformer.pages.kit import document, escape, folded, paragraph
from glassformer.pages.records import Record, is_number, record_table, words

UNSCORED = ("step", "seconds")
FOLDED = 40
"""Rows from which a table is folded."""
LATEST = 12
"""Validations shown in the table of scores."""


def report_html(
    metrics: Sequence[Record],
    recipe: str,
    title: str,
    thumbnail: Callable[[str], str | None] | None = None,
) -> str:
    """Report of the lines of `metrics.jsonl` so far and the resolved recipe.

    `thumbnail` gives the address of a small image of an example, if examples are not texts.
    """
    train, validation = points(metrics, "train_loss"), points(metrics, "validation_loss")
    loss = f"Loss in {SCORES['loss'].unit}: training (thin), validation (thick with dots)"
    losses = {"training": smooth(train), "validation": validation}
    curves = [line_chart(loss, losses, "validation")]
    for name, score in SCORES.items():
        if score.curve:
            curve = {score.text: points(metrics, f"validation_{name}")}
            curves.append(line_chart(f"Validation {score.text}", curve, score.text))
    for name in ("tokens_per_second", "learning_rate"):
        curve = {words(name): smooth(points(metrics, name))}
        curves.append(line_chart(words(name).capitalize(), curve, None))
    return document(
        title,
        paragraph(_headline(train, validation)),
        f'<div class="charts">{"".join(curves)}</div>',
        _scores(metrics),
        _baselines(metrics),
        _newest(metrics, "table", _groups),
        _newest(metrics, "confusion", confusion),
        _newest(metrics, "reliability", reliability),
        _newest(metrics, "worst", partial(largest_losses, thumbnail=thumbnail)),
        _pairs(metrics),
        _samples(metrics),
        f"<h2>Recipe</h2>{folded('every field', f'<pre>{escape(recipe)}</pre>')}",
    )


def points(metrics: Sequence[Record], name: str) -> list[Point]:
    """(step, value) of every line with a finite value of that name."""
    return [
        (float(m["step"]), float(m[name]))
        for m in metrics
        if is_number(m.get(name)) and math.isfinite(m[name])
    ]


def smooth(curve: Sequence[Point], most: int = 400) -> list[Point]:
    """At most `most` points: means of equal groups of neighbours."""
    size = max(1, math.ceil(len(curve) / most))
    means = (np.mean(curve[i : i + size], 0).tolist() for i in range(0, len(curve), size))
    return [(x, y) for x, y in means]


def _headline(train: Sequence[Point], validation: Sequence[Point]) -> str:
    if not train:
        return "No step was logged yet."
    text = f"{train[-1][0]:,.0f} steps, training loss {train[-1][1]:.4f}"
    if validation:
        step, best = min(validation, key=lambda point: point[1])
        text += f", best validation loss {best:.4f} at step {step:,.0f}"
    return f"{text}."


def _scores(metrics: Sequence[Record]) -> str:
    """The last validations as a table, and the signatures of scores that have one."""
    validations = _validations(metrics)
    latest = {name: value for line in validations for name, value in line.items()}
    found = [name for name in latest if is_number(latest[name]) and name not in UNSCORED]
    if not found:
        return ""
    names = [*(name for name in SCORES if name in found), *found]
    rows = [
        {name: line.get(name) for name in ("step", *names, "seconds")}
        for line in validations
        if line.keys() & {*names}
    ]
    signatures = "".join(
        paragraph(f"{words(name)}: {value}", "small")
        for name, value in latest.items()
        if isinstance(value, str)
    )
    caption = f"Scores of the last {LATEST} validations" if len(rows) > LATEST else "Scores"
    return f"<h2>Validation</h2>{record_table(caption, rows[-LATEST:])}{signatures}"


def _baselines(metrics: Sequence[Record]) -> str:
    """Baselines beside the best validation by their metric; "" without any."""
    learned = next((m["baselines"] for m in reversed(metrics) if m.get("baselines")), None)
    if learned is None:
        return ""
    metric = learned["metric"]
    best = max(points(metrics, f"validation_{metric}"), key=lambda point: point[1], default=None)
    rows = [{"of": NAMES[name], **own} for name, own in learned["scores"].items()]
    said = ""
    if best is not None:
        rows.insert(0, {"of": f"the model at step {best[0]:,.0f}", metric: best[1]})
        said = paragraph(verdict(learned, {metric: best[1]}))
    return f"<h2>Baselines</h2>{record_table('Scores of simple baselines', rows)}{said}"


def _validations(metrics: Sequence[Record]) -> list[Record]:
    """A record of scores for each validated step, which may be in several lines of metrics."""
    steps: dict[int, Record] = {}
    for m in metrics:
        scores = {
            name.removeprefix("validation_"): value
            for name, value in m.items()
            if name.startswith("validation_")
        }
        if scores:
            about = {name: m[name] for name in UNSCORED if name in m}
            steps.setdefault(m["step"], {}).update(about | scores)
    return list(steps.values())


def _newest(metrics: Sequence[Record], name: str, section: Callable[[Record, str], str]) -> str:
    """A section on the last validation with this result; "" without one."""
    line = next((line for line in reversed(metrics) if line.get(f"validation_{name}")), None)
    return "" if line is None else section(line, f"at step {line['step']:,}")


def _groups(line: Record, step: str) -> str:
    """The newest scores by group or class, a row each."""
    rows = line["validation_table"]
    by = words(next(iter(rows[0]), "group"))  # the first column names a row
    scores = record_table(f"Scores by {by}", rows)
    if len(rows) > FOLDED:
        scores = folded(f"{len(rows):,} rows", scores)
    return f"<h2>Validation by {escape(by)} {step}</h2>{scores}"


def _pairs(metrics: Sequence[Record]) -> str:
    """Sources, references and outputs: the newest open, older ones folded."""
    shown = ""
    for m in reversed(metrics):
        if m.get("samples"):
            step = f"step {m['step']:,}"
            samples = record_table(f"Samples at {step}", m["samples"], "texts")
            shown += folded(step, samples) if shown else samples
    return shown and f"<h2>Source, reference and output</h2>{shown}"


def _samples(metrics: Sequence[Record]) -> str:
    samples = "".join(
        f"<p>step {m['step']:,}</p><pre>{escape(m['sample'])}</pre>"
        for m in reversed(metrics)
        if "sample" in m
    )
    return samples and f"<h2>Samples while training</h2>{samples}"
