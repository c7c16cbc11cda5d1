"""The folder of a sweep: its trials, what became of them, and which sweep it is.

FOLDER/sweep.json                          see `Trial`
FOLDER/sweep.html                          a curve of each trial, and a table
FOLDER/trial-003-learning_rate=0.003/      an ordinary run
"""

import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Literal

from glassformer.errors import CheckpointError, ConfigError
from glassformer.files import LOCK, read_json, write_json
from glassformer.pages.charts import Point
from glassformer.sweep.space import Changes
from glassformer.training.history import read_metrics

FILE, PAGE, FORMAT = "sweep.json", "sweep.html", 1
LONGEST_NAME = 120
Status = Literal["running", "done", "stopped", "failed"]


@dataclass(frozen=True)
class Trial:
    """A run of a sweep.

    `status`: running (or interrupted), done, stopped (it fell behind), failed (`said` is why).
    """

    number: int
    changes: Changes
    status: Status = "running"
    score: float | None = None
    """The best so far."""
    step: int = 0
    seconds: float = 0.0
    said: str = ""

    @property
    def over(self) -> bool:
        """Whether it is not trained any more."""
        return self.status in ("done", "stopped")

    @property
    def name(self) -> str:
        """The name of its folder."""
        shown = (f"{key.rpartition('.')[2]}={value}" for key, value in self.changes.items())
        text = re.sub(r"[^\w.=+-]+", "_", "-".join(shown))
        return f"trial-{self.number:03}-{text}"[:LONGEST_NAME].rstrip(".")


@dataclass
class Sweep:
    """A sweep in its folder."""

    folder: Path
    metric: str
    higher_is_better: bool
    identity: dict[str, Any]
    trials: list[Trial] = field(default_factory=list)
    interrupted: int | None = None
    """The signal that ended it before its end."""

    @property
    def best(self) -> Trial | None:
        """The trial with the best score."""
        scored = [trial for trial in self.trials if trial.over and trial.score is not None]
        return min(scored, key=lambda trial: self.rank(trial.score), default=None)

    @property
    def failed(self) -> list[Trial]:
        """The trials that failed."""
        return [trial for trial in self.trials if trial.status == "failed"]

    def rank(self, score: float | None) -> float:
        """A number that is lower for a better score."""
        return float("inf") if score is None else -score if self.higher_is_better else score

    def run(self, trial: Trial) -> Path:
        """The run folder of a trial."""
        return self.folder / trial.name

    def curve(self, trial: Trial) -> list[Point]:
        """The scores of a trial by step."""
        name = f"validation_{self.metric}"
        return [point for line in read_metrics(self.run(trial)) for point in scored(line, name)]

    def keep(self, trial: Trial) -> None:
        """Set what became of a trial."""
        self.trials[trial.number :] = [trial, *self.trials[trial.number + 1 :]]
        values = {"format": FORMAT, "sweep": self.identity}
        write_json(self.folder / FILE, values | {"trials": [asdict(one) for one in self.trials]})

    def restore(self) -> None:
        """Take over the trials of an earlier start; ConfigError: of another sweep, or the folder
        holds something else; CheckpointError: damaged."""
        path = self.folder / FILE
        if not path.is_file():
            others = sorted(one.name for one in self.folder.iterdir() if one.name != LOCK)
            if others:
                raise ConfigError(
                    f"{self.folder} already holds {others[0]}, and a sweep has a folder of its "
                    "own; choose another --run."
                )
            return
        try:
            values = read_json(path, 1 << 28)
            same = values["format"] == FORMAT and values["sweep"] == self.identity
            trials = [Trial(**one) for one in values["trials"]]
        except (OSError, ValueError, TypeError, KeyError) as problem:
            raise CheckpointError(
                f"{path} cannot be read ({problem}); choose another --run."
            ) from None
        if not same:
            raise ConfigError(
                f"{self.folder} holds a sweep of another recipe or of other fields; give the same, "
                "or choose another --run."
            )
        self.trials = trials


def scored(line: Mapping[str, Any], name: str) -> list[Point]:
    """The point of a line of metrics with this score; none of a mean of checkpoints."""
    return [(line["step"], line[name])] if name in line and "averaged" not in line else []
