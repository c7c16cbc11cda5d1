"""Run folders: open one, train one by a recipe, and look into a run, a folder or a model."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from torch import nn

from glassformer.core.batch import Batch
from glassformer.core.devices import find_device
from glassformer.core.errors import CheckpointError, ConfigError, GlassformerError
from glassformer.core.files import scratch_folder
from glassformer.finetune.adapters import fold
from glassformer.finetune.peft_files import load_adapter
from glassformer.inspect import look as looks
from glassformer.inspect.look import Look
from glassformer.inspect.points import Edit
from glassformer.interop.configuration import published_keys
from glassformer.interop.opening import Opened, import_run, open_published
from glassformer.models.transformer import Transformer
from glassformer.models.weights import check_model, load_model
from glassformer.processors.processor import ids_of
from glassformer.recipe.named import recipe_file
from glassformer.recipe.reading import read_yaml, replace_value
from glassformer.recipe.recipe import Recipe
from glassformer.run.run import Run
from glassformer.runtime.prompts import check_ids
from glassformer.tasks.catalogue import kinds_of, recipe_of_folder
from glassformer.tasks.task import Task
from glassformer.training.folder.given_data import with_files
from glassformer.training.folder.history import Listener
from glassformer.training.loop.train import train as train_run


def load(
    folder: str | Path,
    device: str = "cpu",
    checkpoint: int | None = None,
    accept_changed: bool = False,
    quantize: str | None = None,
    compile: bool = False,
) -> Run:
    """Open a run folder, or the folder of a published model, for use; with `checkpoint`, as a run
    was at that step of training.

    `quantize`: fp16, bf16, int8 or int4, the format of its large matrices, on a CPU (see
    `Run.quantized`). `compile`: compile a step of decoding (see `Run.compiled`).

    CheckpointError: there is no whole model in it, or a file of it is not as it was saved (which
    `accept_changed` allows); ConfigError: a device or a checkpoint that is not there, an unknown
    format.
    """
    folder = Path(folder)
    if not folder.exists():
        raise CheckpointError(
            f"{folder} is not a folder; give the folder of a run, for example runs/demo-lm."
        )
    keys = published_keys(folder)
    if keys is not None and accept_changed:
        raise ConfigError(
            f"{folder} is a published model, whose files are recorded nowhere; leave out "
            "--accept-changed, or import it first."
        )
    if keys is not None:
        run = _open_published(open_published(folder, keys, find_device(device)))
    else:
        check_model(folder, accept_changed)
        run = _open(load_model(folder, find_device(device)), folder, folder)
        run.task.objective.check_folder()
    run = run if checkpoint is None else run.at(checkpoint)
    run = run if quantize is None else run.quantized(quantize)
    return run.compiled(compile)


def _open_published(opened: Opened) -> Run:
    """Return the run of a published model, whose files are made for it and removed again.

    Errors name the folder of the model instead of these files.
    """
    folder = opened.of.folder
    with scratch_folder() as place:
        try:
            opened.write(place)
            return _open(opened.model, place, folder)
        except GlassformerError as error:
            error.args = (str(error).replace(str(place), str(folder)),)
            raise


def _open(model: Transformer, place: Path, folder: Path) -> Run:
    """The run of a folder with its model, whose other files are in `place`."""
    file = place / "recipe.yaml"
    own = Recipe.parse(read_yaml(file)) if file.is_file() else None
    recipe = own or recipe_of_folder(model.config, place)
    kind, inputs = kinds_of(recipe)
    facts = replace(recipe, model=model.config).facts
    processor = inputs.load(place, recipe.data, model.config, facts)
    return Run(folder, model, Task(kind, recipe, processor, folder), own)


def import_published(
    folder: str | Path, run: str | Path, origin: str = "", adapter: Path | None = None
) -> Run:
    """Write a published model as a run folder, new or empty, whose card names its `origin`; returns
    it opened.

    `adapter`: folder of one that peft or `finetune.save_adapter` wrote; it is merged.
    CheckpointError: no published model, one that is not known here, or an adapter of another;
    ConfigError: the run's folder holds something.
    """
    keys = published_keys(Path(folder))
    if keys is None:
        raise CheckpointError(
            f"{folder} holds no published model, whose config.json names its model_type; give one."
        )
    opened = open_published(Path(folder), keys)
    if adapter is not None:
        load_adapter(opened.model, adapter)
        fold(opened.model)
    _open_published(opened)  # which raises before anything is written
    import_run(opened, Path(run), origin)
    return load(run)


def train(
    recipe: str | Path | Mapping[str, Any],
    changes: Mapping[str, Any] | None = None,
    run: str | Path = "runs/last",
    resume: bool = False,
    listener: Listener | None = None,
    checkpoint: int | None = None,
) -> Run:
    """Train by a recipe (a name, a YAML file or its values) with changes such as {"train.steps":
    200} in the folder `run`; returns it opened.

    In place of a path, `data.train.path` and those of the other splits take any iterable of dicts,
    such as a list or a `datasets.Dataset`, whose images and audio may be decoded. `listener` is
    called with each line of `metrics.jsonl`, such as {"step": 100, "validation_loss": 1.25}; what
    it raises ends training, and the run can be resumed. With `resume`, `checkpoint` names the step
    to go on from; what came after it goes.

    Errors: those of training and of `load`; KeyboardInterrupt after Ctrl-C, when the run is saved
    and can be resumed.
    """
    values = dict(recipe) if isinstance(recipe, Mapping) else read_yaml(recipe_file(recipe))
    for key, value in (changes or {}).items():
        values = replace_value(values, key, str(value) if isinstance(value, Path) else value)
    values, rows = with_files(values, Path(run))
    parsed, listeners = Recipe.parse(values), () if listener is None else (listener,)
    result = train_run(
        parsed, Path(run), resume, listeners=listeners, checkpoint=checkpoint, rows=rows
    )
    if result.interrupted is not None:
        raise KeyboardInterrupt(f"stopped at step {result.steps}; go on with resume=True")
    return load(run)


def look(
    what: Run | nn.Module | str | Path,
    given: Any,
    edits: Sequence[Edit] = (),
    checkpoint: int | None = None,
) -> Look:
    """One forward pass of a run (see `Run.look`), of a run folder, or of a model.

    With `checkpoint`, of the run as it was at that step; for several looks, open it once by `load`.
    A model alone reads token ids or a `Batch` of one row, and its elements and outcomes have their
    numbers as names. Errors: those of `load` and of `Run.look`.
    """
    match what:
        case Run():
            return (what if checkpoint is None else what.at(checkpoint)).look(given, edits)
        case str() | Path():
            return load(what, checkpoint=checkpoint).look(given, edits)
        case Transformer() if checkpoint is not None:
            raise ConfigError(
                f"checkpoint={checkpoint} was given, and a model alone has none; look at its run "
                "instead."
            )
        case Transformer():
            batch = given if isinstance(given, Batch) else _batch(what, given)
            return looks.look(what, batch, edits=edits)
        case _:  # a compiled model, for example, which has no points
            raise ConfigError(
                f"A look is at a run, at its folder or at a Transformer, not at "
                f"{type(what).__name__}."
            )


def _batch(model: Transformer, given: Any) -> Batch:
    ids = ids_of(given)
    if not ids:
        raise ConfigError(
            f"A model alone reads token ids or a Batch, not {given!r:.40}; look at its run instead."
        )
    check_ids(ids, model, "The input")
    return Batch(torch.tensor([ids]))
