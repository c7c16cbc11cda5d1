"""A demo: a generator of ordinary files, an ordinary recipe, and what is shown of the trained
model.

RUN/data/...              the files, written once; their splits are train, validation, test
recipes/NAME.yaml         the recipe, which any user could write; data.root is RUN/data
tables/demos.json         one sentence about each demo, its trainings, commands to try next
"""

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from glassformer.data.config import DataConfig
from glassformer.files import locked
from glassformer.recipe import read_recipe
from glassformer.run import Run
from glassformer.training import train
from glassformer.training.given_data import write_data
from glassformer.training.loop import Result
from glassformer.training.run_folder import check_unused, check_writable

Write = Callable[[Path], None]
"""Writes the files of a data set into an empty folder."""


@dataclass(frozen=True)
class Training:
    """A model of a demo: the name of its recipe and data, and the end of its run folder's name."""

    name: str
    write: Write
    suffix: str = ""

    @property
    def recipe(self) -> Path:
        """The file of the recipe."""
        return Path(__file__).with_name("recipes") / f"{self.name}.yaml"


@dataclass(frozen=True)
class Shown:
    """Results of a demo: values for JSON, lines for a terminal."""

    values: dict[str, Any]
    lines: list[str]
    ask: tuple[str, Callable[[str], Any]] | None = None
    """A prompt for a person at the terminal, and the function that answers."""


@dataclass(frozen=True)
class Demo:
    """One sentence about a demo, its models in the order of training, and what is shown of the
    last.

    `show` takes the run and whether a person reads the lines on a terminal; `{run}` stands for the
    run folder in `commands`.
    """

    about: str
    trainings: Sequence[Training]
    show: Callable[[Run, bool], Shown]
    commands: Sequence[str]


def trained(demo: Demo, folder: Path, steps: int | None = None) -> Result:
    """Train the models of a demo, the last in FOLDER; the result of the last, or of the first that
    was interrupted.

    The data are written into RUN/data; a run that was begun is resumed.
    """
    *before, last = demo.trainings
    for training in before:
        result = _trained(training, folder, steps)
        if result.interrupted is not None:
            return result
    return _trained(last, folder, steps)


def _trained(training: Training, folder: Path, steps: int | None) -> Result:
    run = Path(f"{folder}{training.suffix}")
    begun = (run / "recipe.yaml").is_file()
    if not begun:
        check_unused(run)
        check_writable(run)
    with locked(run):  # its file says that the data are a run's
        write_data(training.write, run / "data")
    changes = [f"data.root={json.dumps(str((run / 'data').absolute()))}"]
    changes += [f"train.steps={steps}"] if steps else []
    return train(read_recipe(training.recipe, changes), run, begun)


def train_and_test(
    run: Run, read: Callable[[DataConfig], Iterable[Any]], pair: Callable[[Any], Any]
) -> Iterator[list[Any]]:
    """The training rows, then the test rows, of a run's data as `read` returns them, each as `pair`
    of it."""
    assert run.recipe is not None
    rows = list(read(run.recipe.data))
    for split in ("train", "test"):
        yield [pair(row) for row in rows if row.split == split]


def table(scores: Mapping[str, float], form: str = "7.2%") -> list[str]:
    """A line for each score."""
    return [f"  {name:34} {value:{form}}" for name, value in scores.items()]
