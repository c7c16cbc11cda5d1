"""`glassformer sweep`."""

import sys
from pathlib import Path
from typing import Annotated

from typer import Argument

from glassformer.cli.options import Index, Json, NewRun, OptionalCount
from glassformer.cli.terminal import print_json


def sweep(
    recipe: Annotated[
        str, Argument(help="A name of `recipe list`, or a YAML file.", metavar="RECIPE")
    ],
    fields: Annotated[
        list[str],
        Argument(
            help="Values to try, field=a,b,c, or with --trials field=low..high; and changes for "
            "all trials, such as train.steps=500.",
            metavar="FIELD=VALUES",
        ),
    ],
    run: NewRun = None,
    trials: OptionalCount = None,
    seed: Index = 0,
    keep_all: bool = False,
    json: Json = False,
) -> None:
    """Train a recipe with different values of some fields. Each trial is a run.

    The same command continues a sweep that was stopped.

    run: Folder of the sweep; default: runs/sweep- and the recipe's name.
    trials: Number of trials that Optuna proposes; default: all combinations.
    seed: Random seed of a search.
    keep_all: Train to their end those trials too that fall behind the median of the others.
    """
    folder = run or Path("runs") / f"sweep-{Path(recipe).stem}"
    sys.stderr.write(f"sweep folder: {folder}\n")  # before PyTorch, which takes two seconds to load
    from glassformer.sweep.study import PAGE, as_json, as_text
    from glassformer.sweep.sweep import sweep as train_all

    made = train_all(recipe, fields, folder, trials, seed, keep_all)
    if made.interrupted is not None:
        sys.stderr.write("stopped; the same command continues it\n")
        sys.exit(128 + made.interrupted)
    if json:
        print_json(as_json(made))
    else:
        print(as_text(made))
        print(f"curves: {folder / PAGE}")
        if made.best is not None:
            print(f"best: {made.best.run}")
    if any(one.status == "failed" for one in made.trials):
        sys.exit(1)
