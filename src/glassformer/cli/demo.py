"""The demos: a model trained in minutes on data that every machine has, and its results."""

import sys
from pathlib import Path

from glassformer.cli.terminal import ask, on_terminal, print_json
from glassformer.cli.train import finish
from glassformer.demos.catalog import DEMOS
from glassformer.demos.demo import trained
from glassformer.errors import ConfigError, counted, suggest
from glassformer.run import load
from glassformer.training.progress import clock


def demo(name: str, run: Path | None, steps: int | None, as_json: bool) -> None:
    """`glassformer demo NAME`: train (or resume, or find it done), then show."""
    if name not in DEMOS:
        raise ConfigError(f"There is no demo {name!r}; {suggest(name, DEMOS)}")
    chosen, folder = DEMOS[name], run or Path("runs") / f"demo-{name}"
    sys.stderr.write(f"{chosen.about}\n")
    result = trained(chosen, folder, steps)
    if result.interrupted is not None:
        return finish(result, as_json)
    shown = chosen.show(load(folder), on_terminal())
    if as_json:
        return print_json({"run": str(folder), "steps": result.steps, **shown.values})
    print(f"\ntrained {counted(result.steps, 'step')} in {clock(result.seconds)}")
    commands = (f"  {command.format(run=folder)}" for command in chosen.commands)
    print("\n".join([*shown.lines, "try next:", *commands]))
    if shown.ask is not None:
        ask(*shown.ask)
    return None
