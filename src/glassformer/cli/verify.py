"""`glassformer verify`: the equations of the notes, and those on the weights of a run."""

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from typer import Argument

from glassformer.cli.options import Force, Json, check_output
from glassformer.cli.terminal import print_json
from glassformer.core.errors import ConfigError

if TYPE_CHECKING:
    from glassformer.verify import Row


def verify(
    run: Annotated[
        Path | None, Argument(help="Check this run's own weights.", metavar="RUN")
    ] = None,
    text: str | None = None,
    accept_changed: bool = False,
    html: Path | None = None,
    force: Force = False,
    json: Json = False,
) -> None:
    """Check every equation of the notes against float64 NumPy.

    text: Input text for the check.
    accept_changed: Record the run's model files as they are, though they were changed.
    html: Also write the results as an HTML page.
    """
    from glassformer import verify as checks
    from glassformer.core.files import write_text
    from glassformer.pages.verification import verification_html

    check_output("--html", html, (".html",), force)
    title = "The equations of the notes"
    if run is not None:
        title, rows = f"{title} on {run.name}", _rows_on(run, text, accept_changed)
    elif accept_changed:
        raise ConfigError("--accept-changed is for the files of a RUN; give its folder.")
    elif text is not None:
        raise ConfigError(
            "--text needs a RUN whose model reads it; leave it out to check the equations alone."
        )
    else:
        rows = list(checks.notes_rows())
    if html is not None:
        write_text(html, verification_html(checks.as_json(rows), checks.summary(rows), title))
    if json:
        print_json(checks.as_json(rows))
    else:
        print(checks.table(rows))
    if not all(row.passed for row in rows):
        sys.exit(1)


def _rows_on(run: Path, text: str | None, accept_changed: bool) -> "list[Row]":
    """The equations on a run's own weights; its files are recorded if they are to be accepted."""
    from glassformer import verify as checks
    from glassformer.run import load
    from glassformer.training.folder.model_files import accept_changed as record

    opened = load(run, accept_changed=accept_changed)
    batch = opened.task.objective.batch_to_check(opened.model, text)
    if accept_changed:
        record(run)
    return list(checks.model_rows(opened.model, batch))
