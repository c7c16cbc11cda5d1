"""`glassformer train`, `glassformer demo` and `glassformer sweep`."""

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from typer import Argument

from glassformer.cli.options import Index, Json, NewRun, OptionalCount, Overrides
from glassformer.cli.terminal import first_process, print_json
from glassformer.core.errors import ConfigError, amount, suggest

if TYPE_CHECKING:
    from glassformer.training.loop.trainer import Result

DEMO = "Which demo: lm, translate, tag, classify, vision, vqa, audio."


def demo(
    name: Annotated[str, Argument(help=DEMO)] = "lm",
    run: NewRun = None,
    steps: OptionalCount = None,
    json: Json = False,
) -> None:
    """Train a small demo model in a few minutes and show its results.

    run: Run folder; default runs/demo-NAME.
    steps: Number of training steps; default: that of the demo.
    """
    from glassformer.core.progress import clock
    from glassformer.demos.catalog import DEMOS, SHOW, train_demo
    from glassformer.run import load

    if name not in DEMOS:
        raise ConfigError(f"There is no demo {name!r}; {suggest(name, DEMOS)}")
    chosen, folder = DEMOS[name], run or Path("runs") / f"demo-{name}"
    sys.stderr.write(f"{chosen.about}\n")
    result = train_demo(name, folder, steps)
    _check_end(result)
    shown = SHOW[name](load(folder))
    if json:
        print_json({"run": str(folder), "steps": result.steps, **shown.values})
        return
    print(f"\ntrained {amount(result.steps, 'step')} in {clock(result.seconds)}")
    print("\n".join(shown.lines))
    print(f"curves, samples, scores: {folder / 'report.html'} (open it in a browser)")
    commands = (*chosen.commands, "glassformer inspect {run}")
    print("\n  ".join(["try next:", *(command.format(run=folder) for command in commands)]))


def train(
    recipe: Annotated[
        str | None,
        Argument(help="A name of `recipe list`, or a YAML file.", metavar="RECIPE"),
    ] = None,
    overrides: Overrides = None,
    run: NewRun = None,
    resume: bool = False,
    checkpoint: OptionalCount = None,
    processes: OptionalCount = None,
    max_restarts: Index = 0,
    json: Json = False,
) -> None:
    """Train a model from a recipe.

    run: Run folder; default: runs/ and the recipe's name.
    resume: Resume from the newest checkpoint.
    checkpoint: With --resume, go on from the checkpoint of this step; what came after it goes.
    processes: Train in so many processes of this machine, as torchrun would start them.
    max_restarts: How often they are started again after one of them failed.
    """
    changes = overrides or []
    if recipe is not None and "=" in recipe:
        changes, recipe = [recipe, *changes], None
    folder = run or Path("runs") / (Path(recipe).stem if recipe else "last")
    recipe = _find_recipe(recipe, changes, folder, resume)
    if processes is not None:
        from glassformer.core.distributed.launching import launch
        from glassformer.recipe.reading import read_recipe
        from glassformer.training.folder.run_folder import check_folder

        read_recipe(recipe, changes).for_processes(processes)
        check_folder(folder, resume, checkpoint)
        given = [*filter(None, [recipe]), *changes, "--run", str(folder)]
        given += ["--resume"] * resume + ["--json"] * json + ["--debug"] * ("--debug" in sys.argv)
        given += [] if checkpoint is None else ["--checkpoint", str(checkpoint)]
        sys.exit(launch(["train", *given], processes, max_restarts))
    if first_process():  # before PyTorch, which takes two seconds to load
        sys.stderr.write(f"run folder: {folder}\n")
    from glassformer.recipe.reading import read_recipe
    from glassformer.training import train as train_recipe

    result = train_recipe(read_recipe(recipe, changes), folder, resume, checkpoint=checkpoint)
    _check_end(result)
    if first_process():
        _tell(result, json)


def _find_recipe(recipe: str | None, changes: list[str], folder: Path, resume: bool) -> str | None:
    """The recipe to train by, that of the run if it is resumed without one (None: overrides alone);
    ConfigError: there is nothing to train by."""
    if recipe is None and resume:
        if not (folder / "recipe.yaml").is_file():
            raise ConfigError(f"{folder} holds no run to resume; name its folder with --run.")
        return str(folder / "recipe.yaml")
    if recipe is None and not changes:
        raise ConfigError(
            "There is nothing to train by; give a recipe (see `glassformer recipe list`) or "
            "overrides like data.train.path=FILE."
        )
    if recipe is not None and Path(recipe).is_dir():
        raise ConfigError(
            f"{recipe} is a folder, not a recipe; give a YAML file, or resume the run in it with "
            f"`glassformer train --resume --run {recipe}`."
        )
    return recipe


def _tell(result: "Result", json: bool) -> None:
    """Print how a run ended."""
    from glassformer.core.progress import clock

    if json:
        scores = {"steps": result.steps, f"best_{result.metric}": result.best}
        seconds = round(result.seconds, 2)
        found = {"baselines": result.baselines} if result.baselines else {}
        print_json({"run": str(result.run), **scores, "seconds": seconds, **result.scores, **found})
        return
    best = f", best validation {result.metric} {result.best:.4f}" if result.best is not None else ""
    print(f"trained {amount(result.steps, 'step')} in {clock(result.seconds)}{best}")
    print(f"curves and samples: {result.run / 'report.html'}")
    print(f"next: {result.use}")


def _check_end(result: "Result") -> None:
    """Exit with the signal's code, and the command that resumes, after an interrupted run."""
    if result.interrupted is not None:
        if first_process():
            sys.stderr.write(
                f"stopped at step {result.steps}; go on with: glassformer train --resume --run "
                f"{result.run}\n"
            )
        sys.exit(128 + result.interrupted)


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
    keep_all: Train all trials to the end, also those that are worse than the median of the others.
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
