"""The demos by name, the data sets that they learn from, and their training.

RUN/data/...              the files, written once; their splits are train, validation, test
recipes/NAME.yaml         the recipe, which any user could write; data.root is RUN/data
demos.json                one sentence about each demo, its trainings, commands to try next
"""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

from glassformer.core.locks import lock
from glassformer.core.signals import Stop
from glassformer.demos import audio, classify, lm, shapes, tag, translate, vision, vqa
from glassformer.demos.kit import Shown
from glassformer.recipe import read_recipe
from glassformer.run import Run
from glassformer.training import train
from glassformer.training.folder.given_data import write_data
from glassformer.training.folder.run_folder import check_unused
from glassformer.training.loop.trainer import Result

FOLDER = Path(__file__).parent
DATA: dict[str, Callable[[Path], None]] = {
    "lm": lm.write_documents,
    "translate": translate.write_dates,
    "tag": tag.write_sentences,
    "classify": classify.write_opinions,
    "vision": vision.write_digits,
    "shapes-drawn": shapes.write_drawn,
    "vqa": shapes.write_shapes,
    "audio": audio.write_tones,
    "shapes-judge": shapes.write_judged,
}
"""Writers of the files of a data set into an empty folder."""
SHOW: dict[str, Callable[[Run], Shown]] = {
    module.__name__.rpartition(".")[2]: module.show
    for module in (lm, translate, tag, classify, vision, vqa, audio)
}
"""Results of the trained model of a demo."""


class Demo(NamedTuple):
    """One sentence about a demo, its models, and commands to try next; `{run}` is the run folder.

    `trainings`: names of recipes and data, in the order of training, with the end of the name of
    the run folder; results are those of the last.
    """

    about: str
    trainings: Mapping[str, str]
    commands: Sequence[str]


_ROWS = json.loads((FOLDER / "demos.json").read_text(encoding="utf-8"))
DEMOS: dict[str, Demo] = {name: Demo(**row) for name, row in _ROWS.items()}


def recipe_of(training: str) -> Path:
    """Return the file of a recipe."""
    return FOLDER / "recipes" / f"{training}.yaml"


def train_demo(name: str, folder: Path, steps: int | None = None) -> Result:
    """Train the models of a demo, the last in FOLDER; the result of the last, or of the first that
    was interrupted.

    The data are written into RUN/data; a run that was begun is resumed.
    """
    results, stop = list[Result](), Stop()
    for training, suffix in DEMOS[name].trainings.items():
        run = Path(f"{folder}{suffix}")
        if not (begun := (run / "recipe.yaml").is_file()):
            check_unused(run)
        with lock(run):  # its file says that the data are a run's
            write_data(DATA[training], run / "data")
        changes = [f"data.root={json.dumps(str((run / 'data').absolute()))}"]
        changes += [f"train.steps={steps}"] if steps else []
        recipe = read_recipe(recipe_of(training), changes)
        results.append(train(recipe, run, begun, stop=stop))
        if stop.signal:  # perhaps after the last step of this training
            return replace(results[-1], interrupted=stop.signal)
    return results[-1]
