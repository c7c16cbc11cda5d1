"""The study of a sweep: its trials in Optuna's storage, and what their runs have logged."""

import re
import zlib
from collections.abc import Mapping
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any

from glassformer.core.errors import CheckpointError, ConfigError
from glassformer.core.locks import LOCK
from glassformer.core.signals import Stop
from glassformer.metrics.scores import SCORES
from glassformer.pages.charts import Point
from glassformer.sweep.space import as_text, optuna
from glassformer.training.folder.history import read_metrics

FILE = "sweep.db"
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

    def is_over(self, number: int) -> bool:
        """Return whether the first `number` trials are over."""
        return sum(one.state.is_finished() for one in self.study.trials[:number]) == number

    def read(self, found: Any) -> Trial:
        """Return a trial of the study, with what its run has logged."""
        changes = {field: as_text(value) for field, value in found.params.items()}
        run = self.folder / _name(changes)
        lines, error = read_metrics(run), found.user_attrs.get("error", "")
        curve = [point for line in lines for point in points_of(line, self.metric)]
        best = min((score for _, score in curve), key=self._rank, default=None)
        done = found.state.name == "COMPLETE"
        status = "failed" if error else "running"
        return Trial(
            run,
            changes,
            {"COMPLETE": "done", "PRUNED": "stopped"}.get(found.state.name, status),
            found.value if done else best,
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
