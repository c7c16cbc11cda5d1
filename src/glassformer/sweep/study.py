"""The study of a sweep: its trials in Optuna's storage and what their runs have logged, as a table,
as JSON and as a page with the curve of each."""

import re
import zlib
from collections.abc import Mapping
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any
from urllib.parse import quote

from glassformer.core.errors import CheckpointError, ConfigError
from glassformer.core.files import write_text
from glassformer.core.locks import LOCK
from glassformer.core.signals import Stop
from glassformer.metrics.scores import SCORES
from glassformer.pages.charts import Point, line_chart
from glassformer.pages.kit import Html, document, escape, render
from glassformer.sweep.space import as_text as value_text
from glassformer.sweep.space import optuna
from glassformer.training.folder.history import read_metrics

FILE, PAGE = "sweep.db", "sweep.html"
LONGEST_NAME = 100


@dataclass(frozen=True)
class Trial:
    """A trial: its run folder, values as a recipe has them, status, best score, curve, and seconds
    of training."""

    run: Path
    changes: dict[str, str]
    status: str
    score: float | None
    curve: list[Point]
    seconds: float
    error: str

    @property
    def step(self) -> float:
        """The step of the last score."""
        return self.curve[-1][0] if self.curve else 0


class Sweep:
    """A sweep in its folder."""

    def __init__(self, folder: Path, metric: str, identity: str):
        self.folder, self.metric = folder, metric
        self.stop = Stop()
        """A request during a trial, which may be complete nevertheless."""
        self.interrupted: int | None = None
        """The signal that ended it before its end."""
        others = sorted(one.name for one in folder.iterdir() if one.name != LOCK)
        if others and FILE not in others:
            raise ConfigError(
                f"{folder} already holds {others[0]}, and a sweep has a folder of its own; choose "
                "another --run."
            )
        library = optuna()
        library.logging.set_verbosity(library.logging.ERROR)
        try:
            self.study = library.create_study(
                storage=f"sqlite:///{folder / FILE}",
                study_name="sweep",
                direction="maximize" if SCORES[metric].higher_is_better else "minimize",
                pruner=library.pruners.MedianPruner(n_startup_trials=3, n_min_trials=3),
                load_if_exists=True,
            )
            known = self.study.user_attrs.get("identity", identity)
        except import_module("sqlalchemy.exc").DatabaseError as problem:
            raise CheckpointError(
                f"{folder / FILE} cannot be read ({problem.orig}); choose another --run."
            ) from None
        if known != identity:
            raise ConfigError(
                f"{folder} holds a sweep of another recipe or of other fields; give the same, or "
                "choose another --run."
            )
        self.study.set_user_attr("identity", identity)

    @property
    def trials(self) -> list[Trial]:
        """The trials that have begun, the best first."""
        begun = [self.read(one) for one in self.study.trials if one.state.name != "WAITING"]
        return sorted(begun, key=lambda one: (one.status == "failed", self._rank(one.score)))

    @property
    def best(self) -> Trial | None:
        """The trial with the best score."""
        return next((one for one in self.trials if one.status in ("done", "stopped")), None)

    def read(self, found: Any) -> Trial:
        """Return a trial of the study, with what its run has logged."""
        changes = {field: value_text(value) for field, value in found.params.items()}
        run = self.folder / _name(changes)
        lines, error = read_metrics(run), found.user_attrs.get("error", "")
        curve = [point for line in lines for point in points_of(line, self.metric)]
        best = min((score for _, score in curve), key=self._rank, default=None)
        status = "failed" if error else "running"
        return Trial(
            run,
            changes,
            {"COMPLETE": "done", "PRUNED": "stopped"}.get(found.state.name, status),
            found.value if found.state.name == "COMPLETE" else best,
            curve,
            max((line.get("seconds", 0.0) for line in lines), default=0.0),
            error,
        )

    def _rank(self, score: float | None) -> float:
        """Return a number that is lower for a better score."""
        if score is None:
            return float("inf")
        return -score if SCORES[self.metric].higher_is_better else score


def points_of(line: Mapping[str, Any], metric: str) -> list[Point]:
    """Return the point of a line of metrics with this score; none of a mean of checkpoints."""
    name = f"validation_{metric}"
    return [(line["step"], line[name])] if name in line and "averaged" not in line else []


def _name(changes: Mapping[str, str]) -> str:
    """Return the name of the folder of a trial."""
    shown = (f"{key.rpartition('.')[2]}={value}" for key, value in changes.items())
    text = re.sub(r"[^\w.=+-]+", "_", "-".join(shown))
    return text if len(text) <= LONGEST_NAME else f"{text[:90]}-{zlib.crc32(text.encode()):08x}"


def write_report(sweep: Sweep) -> None:
    """Write FOLDER/sweep.html."""
    score, best = SCORES[sweep.metric].text, sweep.best
    curves = {trial.run.name: trial.curve for trial in sweep.trials}
    thick = best and best.run.name
    head, *rows = _table(sweep)
    links = [Html(f'<a href="{quote(name)}/report.html">{escape(name)}</a>') for name in curves]
    caption = f"Validation {score} by step; the best trial is thick"
    body = render(
        "sweep",
        about=f"{len(curves)} trials; the best {score} is that of {thick}.",
        chart=line_chart(caption, curves, thick),
        head=["trial", *head],
        rows=[[link, *row] for link, row in zip(links, rows, strict=True)],
    )
    write_text(sweep.folder / PAGE, document(f"Sweep of {sweep.folder.name}", body))


def as_text(sweep: Sweep) -> str:
    """Return the table of trials, the best first."""
    rows = _table(sweep)
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    padded = (map(str.ljust, row, widths) for row in rows)
    return "\n".join("  ".join(row).rstrip() for row in padded)


def as_json(sweep: Sweep) -> dict[str, Any]:
    """Return the table as JSON values."""
    best, trials = sweep.best, list[dict[str, Any]]()
    for one in sweep.trials:
        row = {"run": str(one.run), "changes": one.changes, "status": one.status}
        row |= {sweep.metric: one.score, "step": one.step, "seconds": one.seconds}
        trials.append(row | ({"error": one.error} if one.error else {}))
    return {
        "run": str(sweep.folder),
        "metric": sweep.metric,
        "best": best and str(best.run),
        "trials": trials,
    }


def _table(sweep: Sweep) -> list[list[str]]:
    """Return the head and a row for each trial, the best first."""
    trials, best, form = sweep.trials, sweep.best, SCORES[sweep.metric].table
    fields = [*trials[0].changes] if trials else []
    names = [field.rpartition(".")[2] for field in fields]
    rows = [[*names, sweep.metric, "step", "seconds", "status"]]
    for one in trials:
        score = "–" if one.score is None else f"{one.score:{form}}"
        status = "best" if one == best else one.status
        numbers = score, f"{one.step:,}", f"{one.seconds:,.0f}", status
        rows.append([*(one.changes[field] for field in fields), *numbers])
    return rows
