"""Run folders: one is opened, or trained by a recipe and opened."""

from pathlib import Path
from typing import Any

from glassformer.data.config import DataConfig
from glassformer.errors import CheckpointError
from glassformer.models.weights import load_model
from glassformer.processors.processor import ModelFacts
from glassformer.recipe.recipe import Recipe, changed, read_yaml
from glassformer.run.run import Run
from glassformer.tasks.catalogue import kinds_of, recipe_of_folder
from glassformer.training.device import find_device
from glassformer.training.loop import train as train_run


def load(folder: str | Path, device: str = "cpu", checkpoint: int | None = None) -> Run:
    """Open a run folder for use; with `checkpoint`, as it was at that step of training.

    CheckpointError: there is no whole model in it; ConfigError: a device or a checkpoint that is
    not there.
    """
    run = _opened(Path(folder), device)
    return run if checkpoint is None else run.at(checkpoint)


def _opened(folder: Path, device: str) -> Run:
    if not folder.is_dir():
        raise CheckpointError(
            f"{folder} is not a folder; give the folder of a run, for example runs/demo-lm."
        )
    model = load_model(folder, find_device(device))
    file = folder / "recipe.yaml"
    own = Recipe.parse(read_yaml(file)) if file.is_file() else None
    recipe = own or recipe_of_folder(model.config, folder)
    kind, inputs = kinds_of(recipe)
    data = own.data if own else DataConfig()
    facts = ModelFacts.of(model.config, recipe.train.length, recipe.data.overlap)
    processor = inputs.load(folder, data, model.config, facts)
    task = kind(recipe, processor, folder)
    task.check_folder()
    return Run(folder, model, task, own)


def train(
    recipe: str | Path,
    changes: dict[str, Any] | None = None,
    run: str | Path = "runs/last",
    resume: bool = False,
) -> Run:
    """Train by a recipe file with changes such as {"train.steps": 200} in the folder `run`; returns
    it opened.

    Errors: those of training and of `load`; KeyboardInterrupt after Ctrl-C, when the run is saved
    and can be resumed.
    """
    values = read_yaml(Path(recipe))
    for key, value in (changes or {}).items():
        values = changed(values, key, str(value) if isinstance(value, Path) else value)
    result = train_run(Recipe.parse(values), Path(run), resume)
    if result.interrupted is not None:
        raise KeyboardInterrupt(f"stopped at step {result.steps}; go on with resume=True")
    return load(run)
