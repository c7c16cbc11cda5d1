"""The job of torchrun that trains in a run folder, in RUN/job.json.

A process that the same job starts again goes on by itself, on whatever machine. An error that comes
from the numbers alone, and came twice, would come again.
"""

import os
import socket
from pathlib import Path
from typing import Any

from glassformer.errors import TrainingError
from glassformer.files import read_json, write_json

FILE = "job.json"
OFTEN = 2
"""Times that the same error comes before the job is not started again."""


def own_job() -> str:
    """What torchrun calls this job (--rdzv-id), or else its own process; "": there is none."""
    name = os.environ.get("TORCHELASTIC_RUN_ID", "")
    return f"process {os.getppid()} of {socket.gethostname()}" if name == "none" else name


def goes_on(run: Path) -> bool:
    """Whether this job began, or resumed, the run in a folder."""
    return bool(own_job()) and (run / "recipe.yaml").is_file() and _read(run)["job"] == own_job()


def started_again(run: Path) -> bool:
    """Whether torchrun started this process again, after one that went on with the run."""
    return goes_on(run) and os.environ.get("TORCHELASTIC_RESTART_COUNT", "0") != "0"


def take_over(run: Path) -> None:
    """Note this job in a run folder; TrainingError: it failed there by the same error again."""
    if not own_job():
        return
    before = _read(run)
    if before["job"] != own_job():
        write_json(run / FILE, {"job": own_job(), "error": None, "times": 0})
    elif before["times"] >= OFTEN:
        raise TrainingError(f"{before['error']} It came {before['times']} times; the job ends.")


def note_error(run: Path, sentence: str) -> None:
    """Note an error that ends this job's processes."""
    if not own_job():
        return
    before = _read(run)
    times = before["times"] + 1 if before["error"] == sentence else 1
    write_json(run / FILE, {"job": own_job(), "error": sentence, "times": times})


def _read(run: Path) -> dict[str, Any]:
    """What is noted in a folder; a file that is not there, or not ours, says nothing."""
    nothing = {"job": None, "error": None, "times": 0}
    try:
        found = read_json(run / FILE)
        return found if found.keys() == nothing.keys() else nothing
    except (OSError, ValueError, AttributeError):
        return nothing
