"""`report.html`: curves, scores and samples of a run.

metrics.jsonl  ->  curves  scores  baselines  classes (see `class_report`)  samples  recipe
"""

import math
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import PurePath
from typing import Any

import numpy as np

from glassformer.metrics.comparison import NAMES, verdict
from glassformer.metrics.scores import SCORES
from glassformer.pages.charts import Point, line_chart
from glassformer.pages.class_report import confusion, reliability
from glassformer.pages.kit import Html, cut, document, render, table

Record = dict[str, Any]
FORMATS = {"seconds": ",.0f"} | {name: score.table for name, score in SCORES.items()}
SPELLED = {word.lower(): word for score in SCORES.values() for word in score.text.split()}
UNSCORED = ("step", "seconds")
MOST_LETTERS = 400
"""Most letters of a text in a table."""
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
    scored, signatures = _scores(metrics)
    baselines, said = _baselines(metrics)
    body = render(
        "report",
        headline=_headline(train, validation),
        curves=curves,
        scores=scored,
        signatures=signatures,
        baselines=baselines,
        verdict=said,
        samples=metrics[::-1],
        newest=partial(_newest, metrics),
        recipe=recipe,
        thumbnail=thumbnail,
        confusion=confusion,
        reliability=reliability,
        record_table=record_table,
        shorten=_shorten,
        shown=shown,
        words=words,
        base_name=lambda path: PurePath(path).name,
    )
    return document(title, body)


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


def _scores(metrics: Sequence[Record]) -> tuple[Html, list[tuple[str, str]]]:
    """The last validations as a table, and the signatures of scores that have one."""
    validations = _validations(metrics)
    latest = {name: value for line in validations for name, value in line.items()}
    found = [name for name in latest if is_number(latest[name]) and name not in UNSCORED]
    if not found:
        return Html(), []
    names = [*(name for name in SCORES if name in found), *found]
    rows = [
        {name: line.get(name) for name in ("step", *names, "seconds")}
        for line in validations
        if line.keys() & {*names}
    ]
    caption = f"Scores of the last {LATEST} validations" if len(rows) > LATEST else "Scores"
    signatures = [(name, value) for name, value in latest.items() if isinstance(value, str)]
    return record_table(caption, rows[-LATEST:]), signatures


def _baselines(metrics: Sequence[Record]) -> tuple[list[Record], str]:
    """Baselines after the best validation by their metric, and the comparison in a sentence."""
    learned = next((m["baselines"] for m in reversed(metrics) if m.get("baselines")), None)
    if learned is None:
        return [], ""
    metric = learned["metric"]
    best = max(points(metrics, f"validation_{metric}"), key=lambda point: point[1], default=None)
    rows = [{"of": NAMES[name], **own} for name, own in learned["scores"].items()]
    if best is None:
        return rows, ""
    model = {"of": f"the model at step {best[0]:,.0f}", metric: best[1]}
    return [model, *rows], verdict(learned, {metric: best[1]})


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


def _newest(metrics: Sequence[Record], name: str) -> Record | None:
    """The last validation with this result."""
    return next((line for line in reversed(metrics) if line.get(f"validation_{name}")), None)


def _shorten(rows: Sequence[Record]) -> list[Record]:
    """Rows with at most `MOST_LETTERS` of each text."""
    short = lambda value: cut(value, MOST_LETTERS) if isinstance(value, str) else value
    return [{name: short(value) for name, value in row.items()} for row in rows]


def record_table(caption: str, rows: Sequence[Record], kind: str = "rows") -> Html:
    """A table with a column for each name in any row."""
    names = list(dict.fromkeys(name for row in rows for name in row))
    values = ([shown(name, row.get(name)) for name in names] for row in rows)
    return table(caption, [*map(words, names)], values, kind)


def shown(name: str, value: Any) -> str:
    """A value as text: a dash if there is none, elements of a list separated by commas."""
    match value:
        case list():
            return ", ".join(shown(name, part) for part in value)
        case float() if math.isfinite(value):
            return format(value, FORMATS.get(name, ".4f"))
        case None | float():
            return "–"
    return f"{value:,}" if is_number(value) else str(value)


def words(name: str) -> str:
    """A name of a field as text."""
    return " ".join(SPELLED.get(word, word) for word in name.split("_"))


def is_number(value: Any) -> bool:
    """Whether a value is a number; booleans are not."""
    return isinstance(value, int | float) and not isinstance(value, bool)
