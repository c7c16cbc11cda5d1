"""The trials of a sweep as a table, as JSON and as a page with the curve of each."""

from typing import Any
from urllib.parse import quote

from glassformer.core.files import write_text
from glassformer.metrics.scores import SCORES
from glassformer.pages.charts import line_chart
from glassformer.pages.kit import Html, document, escape, paragraph, table
from glassformer.sweep.study import Sweep

PAGE = "sweep.html"


def write_report(sweep: Sweep) -> None:
    """Write FOLDER/sweep.html."""
    score, best = SCORES[sweep.metric].text, sweep.best
    curves = {trial.run.name: trial.curve for trial in sweep.trials}
    thick = None if best is None else best.run.name
    head, *rows = _table(sweep)
    links = [Html(f'<a href="{quote(name)}/report.html">{escape(name)}</a>') for name in curves]
    linked = [[link, *row] for link, row in zip(links, rows, strict=True)]
    caption = f"Validation {score} by step; the best trial is thick"
    page = document(
        f"Sweep of {sweep.folder.name}",
        paragraph(f"{len(curves)} trials; the best {score} is that of {thick}."),
        f'<div class="charts">{line_chart(caption, curves, thick)}</div>',
        table("Trials, the best first", ["trial", *head], linked),
    )
    write_text(sweep.folder / PAGE, page)


def as_text(sweep: Sweep) -> str:
    """Return the table of trials, the best first."""
    rows = _table(sweep)
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    padded = (map(str.ljust, row, widths) for row in rows)
    return "\n".join("  ".join(row).rstrip() for row in padded)


def as_json(sweep: Sweep) -> dict[str, Any]:
    """Return the table as JSON values."""
    best, trials = sweep.best, []
    for one in sweep.trials:
        values = {"run": str(one.run), "changes": one.changes, "status": one.status}
        values |= {sweep.metric: one.score, "step": one.step, "seconds": one.seconds}
        trials.append(values | ({"error": one.error} if one.error else {}))
    return {
        "run": str(sweep.folder),
        "metric": sweep.metric,
        "best": None if best is None else str(best.run),
        "trials": trials,
    }


def _table(sweep: Sweep) -> list[list[str]]:
    """Return the head and a row for each trial, the best first."""
    trials, best, form = sweep.trials, sweep.best, SCORES[sweep.metric].table
    fields = list(trials[0].changes) if trials else []
    rows = [[*(field.rpartition(".")[2] for field in fields)]]
    rows[0] += [sweep.metric, "step", "seconds", "status"]
    for one in trials:
        score = "–" if one.score is None else f"{one.score:{form}}"
        status = "best" if one == best else one.status
        numbers = score, f"{one.step:,}", f"{one.seconds:,.0f}", status
        rows.append([*(one.changes[field] for field in fields), *numbers])
    return rows
