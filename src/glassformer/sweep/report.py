"""The trials of a sweep as a table and as a page with the curve of each."""

from collections.abc import Sequence
from typing import Any
from urllib.parse import quote

from glassformer.files import write_text
from glassformer.metrics.scores import SCORES
from glassformer.pages.charts import named_lines
from glassformer.pages.kit import Html, document, escape, paragraph, table
from glassformer.sweep.state import PAGE, Sweep, Trial


def write_report(sweep: Sweep) -> None:
    """Write FOLDER/sweep.html."""
    best, trials = sweep.best, sweep.trials
    curves = {trial.name: sweep.curve(trial) for trial in trials}
    caption = f"Validation {SCORES[sweep.metric].text} by step; the best trial is thick"
    head, rows = _rows(sweep)
    names = {trial.number: trial.name for trial in trials}
    linked = [[_link(names[int(row[0])], row[0]), *row[1:]] for row in rows]
    page = document(
        f"Sweep of {sweep.folder.name}",
        paragraph(_headline(sweep)),
        f'<div class="charts">{named_lines(caption, curves, best and best.name)}</div>',
        table("Trials, the best first", head, linked),
    )
    write_text(sweep.folder / PAGE, page)


def as_text(sweep: Sweep) -> str:
    """The table of trials, the best first."""
    head, rows = _rows(sweep)
    lines = [head, *rows]
    widths = [max(len(line[place]) for line in lines) for place in range(len(head))]
    padded = (
        "  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True))
        for line in lines
    )
    return "\n".join(line.rstrip() for line in padded)


def as_json(sweep: Sweep) -> dict[str, Any]:
    """The same as JSON values."""
    best = sweep.best
    return {
        "run": str(sweep.folder),
        "metric": sweep.metric,
        "best": best and str(sweep.run(best)),
        "trials": [
            {
                "run": str(sweep.run(trial)),
                "changes": trial.changes,
                "status": trial.status,
                sweep.metric: trial.score,
                "step": trial.step,
                "seconds": trial.seconds,
                **({"error": trial.said} if trial.said else {}),
            }
            for trial in _sorted(sweep)
        ],
    }


def _rows(sweep: Sweep) -> tuple[list[str], list[list[str]]]:
    fields = list(dict.fromkeys(field for trial in sweep.trials for field in trial.changes))
    form, best = SCORES[sweep.metric].table, sweep.best
    rows = []
    for trial in _sorted(sweep):
        score = "–" if trial.score is None else f"{trial.score:{form}}"
        status = "best" if best is not None and trial.number == best.number else trial.status
        values = [trial.changes.get(field, "–") for field in fields]
        seconds = f"{trial.seconds:,.0f}"
        rows.append([str(trial.number), *values, score, f"{trial.step:,}", seconds, status])
    short = [field.rpartition(".")[2] for field in fields]
    return ["trial", *short, sweep.metric, "step", "seconds", "status"], rows


def _sorted(sweep: Sweep) -> Sequence[Trial]:
    """Those with a score first, the best before the others."""
    return sorted(sweep.trials, key=lambda trial: (not trial.over, sweep.rank(trial.score)))


def _headline(sweep: Sweep) -> str:
    over, best = sum(trial.over for trial in sweep.trials), sweep.best
    text = f"{over} of {len(sweep.trials)} trials are over"
    if best is not None:
        text += f"; the best {SCORES[sweep.metric].text} is {best.score:.4f}, of {best.name}"
    return f"{text}."


def _link(name: str, number: str) -> Html:
    return Html(f'<a href="{quote(name)}/report.html">{escape(number)}</a>')
