"""The commands that train."""

import signal
import sys
from pathlib import Path

from glassformer.cli.terminal import print_json
from glassformer.errors import ConfigError, counted
from glassformer.recipe.recipe import read_recipe
from glassformer.training import train as train_recipe
from glassformer.training.loop import Result
from glassformer.training.progress import clock


def train(
    recipe: str | None, overrides: list[str], run: Path | None, resume: bool, as_json: bool
) -> None:
    """`glassformer train`: a recipe file, overrides only, or --resume of a run by its own
    recipe."""
    if recipe is not None and "=" in recipe:
        overrides, recipe = [recipe, *overrides], None
    folder = run or Path("runs") / (Path(recipe).stem if recipe else "last")
    if recipe is None and resume:
        if not (folder / "recipe.yaml").is_file():
            raise ConfigError(f"{folder} holds no run to resume; name its folder with --run.")
        recipe = str(folder / "recipe.yaml")
    if recipe is None and not overrides:
        raise ConfigError(
            "There is nothing to train by; give a recipe (see recipes/) or overrides like "
            "data.train.path=FILE."
        )
    finish(train_recipe(read_recipe(recipe, overrides), folder, resume), as_json)


def finish(result: Result, as_json: bool) -> None:
    """Say how it ended; an interrupted run ends with the signal's exit code and says how to go
    on."""
    if result.interrupted is not None:
        sys.stderr.write(
            f"stopped at step {result.steps}; go on with: glassformer train --resume --run "
            f"{result.run}\n"
        )
        sys.exit(130 if result.interrupted == signal.SIGINT else 143)
    scores = {
        "steps": result.steps,
        f"best_{result.metric}": result.best,
        "seconds": round(result.seconds, 2),
    }
    if as_json:
        print_json({"run": str(result.run), **scores, **result.scores})
        return
    best = f", best validation {result.metric} {result.best:.4f}" if result.best is not None else ""
    print(f"trained {counted(result.steps, 'step')} in {clock(result.seconds)}{best}")
    print(f"curves and samples: {result.run / 'report.html'}")
    print(f"next: {result.use}")
