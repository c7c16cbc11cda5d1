"""The folder of a sweep: a study of Optuna, and a run for each trial.

FOLDER/sweep.db               values and scores of the trials, also for optuna-dashboard
FOLDER/sweep.html             a curve of each trial, and a table
FOLDER/learning_rate=0.003/   the run of a trial
"""

import re
import zlib
from collections.abc import Mapping
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any

from glassformer.errors import CheckpointError, ConfigError
from glassformer.files import LOCK
from glassformer.metrics.scores import SCORES
from glassformer.pages.charts import Point
from glassformer.sweep.space import as_text, optuna
from glassformer.training.history import read_metrics

FILE, PAGE = "sweep.db", "sweep.html"
LONGEST_NAME = 100
STATUS = {"COMPLETE": "done", "PRUNED": "stopped", "FAIL": "failed"}


@dataclass(frozen=True)
class Trial:
    """A trial: its values as a recipe has them, what became of it, its best score and last step."""

    params: dict[str, Any]
    changes: dict[str, str]
    status: str
    score: float | None
    step: int
    seconds: float
    error: str

    @property
    def over(self) -> bool:
        """Whether it is not trained any more."""
        return self.status in ("done", "stopped")

    @property
    def name(self) -> str:
        """Name of its folder."""
        shown = (f"{key.rpartition('.')[2]}={value}" for key, value in self.changes.items())
        text = re.sub(r"[^\w.=+-]+", "_", "-".join(shown))
        return text if len(text) <= LONGEST_NAME else f"{text[:90]}-{zlib.crc32(text.encode()):08x}"


class Sweep:
    """A sweep in its folder."""

    def __init__(self, folder: Path, metric: str, identity: str):
        self.folder, self.metric = folder, metric
        self.higher_is_better = SCORES[metric].higher_is_better
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
                direction="maximize" if self.higher_is_better else "minimize",
                pruner=library.pruners.MedianPruner(n_startup_trials=3, n_min_trials=3),
                load_if_exists=True,
            )
            known = self.study.user_attrs.setdefault("identity", identity)
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
        for one in self.study.get_trials(states=[library.trial.TrialState.RUNNING]):
            self.study.tell(one.number, state=library.trial.TrialState.FAIL)

    def trials(self) -> list[Trial]:
        """Return all trials, also the failed starts of one that was trained again."""
        return [self._trial(one) for one in self.study.trials]

    @property
    def latest(self) -> list[Trial]:
        """The trials, each as its last start left it."""
        return list({trial.name: trial for trial in self.trials()}.values())

    @property
    def best(self) -> Trial | None:
        """The trial with the best score."""
        over = [trial for trial in self.latest if trial.over]
        return min(over, key=lambda trial: self.rank(trial.score), default=None)

    @property
    def failed(self) -> list[Trial]:
        """The trials that failed."""
        return [trial for trial in self.latest if trial.status == "failed"]

    def rank(self, score: float | None) -> float:
        """Return a number that is lower for a better score."""
        return float("inf") if score is None else -score if self.higher_is_better else score

    def run(self, trial: Trial) -> Path:
        """Return the run folder of a trial."""
        return self.folder / trial.name

    def curve(self, trial: Trial) -> list[Point]:
        """Return the scores of a trial by step."""
        lines = read_metrics(self.run(trial))
        return [point for line in lines for point in points_of(line, self.metric)]

    def _trial(self, trial: Any) -> Trial:
        scores = trial.intermediate_values
        done, best = (
            trial.state.name == "COMPLETE",
            min(scores.values(), key=self.rank, default=None),
        )
        return Trial(
            trial.params,
            {field: as_text(value) for field, value in trial.params.items()},
            STATUS.get(trial.state.name, "running"),
            trial.value if done else best,
            trial.user_attrs.get("steps", max(scores, default=0)),
            trial.user_attrs.get("seconds", 0.0),
            trial.user_attrs.get("error", ""),
        )


def points_of(line: Mapping[str, Any], metric: str) -> list[Point]:
    """Return the point of a line of metrics with this score; none of a mean of checkpoints."""
    name = f"validation_{metric}"
    return [(line["step"], line[name])] if name in line and "averaged" not in line else []
