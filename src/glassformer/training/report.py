"""The report of a run, `report.html`."""

from pathlib import Path
from typing import Any

from glassformer.files import write_text
from glassformer.pages import images
from glassformer.pages.training_report import report_html
from glassformer.tasks.task import Task


def write_report(run: Path, task: Task, lines: list[dict[str, Any]], recipe: str) -> None:
    """Write the page of these lines of `metrics.jsonl` and this recipe."""

    def thumbnail(where: str) -> str | None:
        picture = task.thumbnail(where)
        return None if picture is None else images.small(picture)

    page = report_html(lines, recipe, run.name, thumbnail if task.pictured else None)
    write_text(run / "report.html", page)
