"""`report.html`: curves, scores and samples of a run.

metrics.jsonl  ->  curves  scores  baselines  classes  samples  recipe
"""

import math
from collections import defaultdict
from collections.abc import Callable, Sequence
from pathlib import PurePath
from typing import Any

import numpy as np

from glassformer.metrics.scores import NAMES, SCORES, verdict
from glassformer.pages.charts import Point, line_chart, matrix
from glassformer.pages.kit import Html, cut, document, render, weight_steps

Record = dict[str, Any]
FORMATS = {"seconds": ",.0f"} | {name: score.table for name, score in SCORES.items()}
SPELLED = {word.lower(): word for score in SCORES.values() for word in score.text.split()}
UNSCORED = ("step", "seconds")
MOST_LETTERS = 400
"""Most letters of a text in a table."""
MOST_CONFUSIONS = 20
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
        latest=LATEST,
        signatures=signatures,
        baselines=baselines,
        verdict=said,
        samples=metrics[::-1],
        recipe=recipe,
        thumbnail=thumbnail,
        confusion=confusion,
        reliability=reliability,
        columns=columns,
        shorten=_shorten,
        as_text=as_text,
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
    return [tuple(np.mean(curve[i : i + size], 0)) for i in range(0, len(curve), size)]


def _headline(train: Sequence[Point], validation: Sequence[Point]) -> str:
    if not train:
        return "No step was logged yet."
    text = "{:,.0f} steps, training loss {:.4f}".format(*train[-1])
    if validation:
        step, best = min(validation, key=lambda point: point[1])
        text += f", best validation loss {best:.4f} at step {step:,.0f}"
    return f"{text}."


def _scores(metrics: Sequence[Record]) -> tuple[list[Record], list[tuple[str, str]]]:
    """Return the scores of all validations, and the signatures of scores that have one."""
    validations, latest = _validations(metrics), Record()
    for line in validations:
        latest |= line
    found = [name for name in latest if is_number(latest[name]) and name not in UNSCORED]
    names = [*(name for name in SCORES if name in found), *found]
    rows = [
        {name: line.get(name) for name in ("step", *names, "seconds")}
        for line in validations
        if line.keys() & {*names}
    ]
    signatures = [(name, value) for name, value in latest.items() if isinstance(value, str)]
    return rows, signatures


def _validations(metrics: Sequence[Record]) -> list[Record]:
    """Return the scores of each validated step, which may be in several lines of metrics."""
    steps = defaultdict[int, Record](Record)
    for m in metrics:
        if own := {name[11:]: m[name] for name in m if name.startswith("validation_")}:
            steps[m["step"]] |= {name: m[name] for name in UNSCORED if name in m} | own
    return [*steps.values()]


def _baselines(metrics: Sequence[Record]) -> tuple[list[Record], str]:
    """Baselines after the best validation by their metric, and the comparison in a sentence."""
    learned = next((m["baselines"] for m in reversed(metrics) if m.get("baselines")), None)
    if learned is None:
        return [], ""
    metric = learned["metric"]
    rows = [{"of": NAMES[name], **own} for name, own in learned["scores"].items()]
    if not (scored := points(metrics, f"validation_{metric}")):
        return rows, ""
    step, best = max(scored, key=lambda point: point[1])
    model = {"of": f"the model at step {step:,.0f}", metric: best}
    return [model, *rows], verdict(learned, {metric: best})


def _shorten(rows: Sequence[Record]) -> list[Record]:
    """Rows with at most `MOST_LETTERS` of each text."""
    short = lambda value: cut(value, MOST_LETTERS) if isinstance(value, str) else value
    return [{name: short(value) for name, value in row.items()} for row in rows]


def columns(rows: Sequence[Record]) -> tuple[list[str], list[list[str]]]:
    """The names in any row, and the values of each row under them."""
    names = dict.fromkeys(name for row in rows for name in row)
    return [*map(words, names)], [[as_text(name, row.get(name)) for name in names] for row in rows]


def as_text(name: str, value: Any) -> str:
    """A value as text: a dash if there is none, elements of a list separated by commas."""
    match value:
        case list():
            return ", ".join(as_text(name, part) for part in value)
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


def confusion(
    names: Sequence[str], counts: Sequence[Sequence[int]]
) -> tuple[str, Html, list[list[str]]]:
    """Return a caption and a drawing of gold against predicted classes, and rows of the most
    frequent confusions."""
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
    return caption, scene.svg(f"Confusion of {len(names)} classes"), rows


def reliability(
    bins: Sequence[dict[str, Any]], ece: float | None = None
) -> tuple[Html, list[list[str]]]:
    """Return the share of right predictions by probability, drawn and in rows."""
    bins = [b for b in bins if b["n"]]
    error = "" if ece is None else f"; expected calibration error {ece:.4f}"
    caption = (
        "Share of right predictions against probability, a dot for each range of probabilities; "
        f"calibrated probabilities are on the thin line{error}"
    )
    lines = {"right": [(b["confidence"], b["accuracy"]) for b in bins], "even": [(0, 0), (1, 1)]}
    form = "{low:.2f} to {high:.2f}|{n:,}|{confidence:.4f}|{accuracy:.4f}"
    return line_chart(caption, lines, "right"), [form.format(**b).split("|") for b in bins]
