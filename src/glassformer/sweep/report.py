"""The trials of a sweep as a table and as a page with the curve of each."""

from collections.abc import Sequence
from typing import Any
from urllib.parse import quote

from glassformer.files import write_text
from glassformer.metrics.scores import SCORES
from glassformer.pages.charts import line_chart
from glassformer.pages.kit import Html, document, escape, paragraph, table
from glassformer.sweep.trials import PAGE, Sweep, Trial


def write_report(sweep: Sweep) -> None:
    """Write FOLDER/sweep.html."""
    best = sweep.best
    curves = {trial.name: sweep.curve(trial) for trial in sweep.latest}
    caption = f"Validation {SCORES[sweep.metric].text} by step; the best trial is thick"
    head, rows = _rows(sweep)
    linked = [[_link(one.name), *row] for one, row in zip(_sorted(sweep), rows, strict=True)]
    page = document(
        f"Sweep of {sweep.folder.name}",
        paragraph(_headline(sweep)),
        f'<div class="charts">{line_chart(caption, curves, best and best.name)}</div>',
        table("Trials, the best first", ["trial", *head], linked),
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
    """Return the table as JSON values."""
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
                **({"error": trial.error} if trial.error else {}),
            }
            for trial in _sorted(sweep)
        ],
    }


def _rows(sweep: Sweep) -> tuple[list[str], list[list[str]]]:
    trials, best = _sorted(sweep), sweep.best
    fields = list(dict.fromkeys(field for trial in trials for field in trial.changes))
    form, rows = SCORES[sweep.metric].table, []
    for trial in trials:
        score = "–" if trial.score is None else f"{trial.score:{form}}"
        status = "best" if best is not None and trial.name == best.name else trial.status
        values = [trial.changes.get(field, "–") for field in fields]
        rows.append([*values, score, f"{trial.step:,}", f"{trial.seconds:,.0f}", status])
    short = [field.rpartition(".")[2] for field in fields]
    return [*short, sweep.metric, "step", "seconds", "status"], rows


def _sorted(sweep: Sweep) -> Sequence[Trial]:
    """Return those with a score first, the best before the others."""
    return sorted(sweep.latest, key=lambda trial: (not trial.over, sweep.rank(trial.score)))


def _headline(sweep: Sweep) -> str:
    trials, best = sweep.latest, sweep.best
    text = f"{sum(trial.over for trial in trials)} of {len(trials)} trials are over"
    if best is not None:
        text += f"; the best {SCORES[sweep.metric].text} is {best.score:.4f}, of {best.name}"
    return f"{text}."


def _link(name: str) -> Html:
    return Html(f'<a href="{quote(name)}/report.html">{escape(name)}</a>')
