"""The run folder: what is in it before training begins.

RUN/run.lock  stdin.txt  tokens/  metrics.jsonl  report.html  checkpoints/
RUN/recipe.yaml  tokenizer.json  model.safetensors ...     see `model_files`
"""

import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from glassformer.core.devices import find_device
from glassformer.core.distributed.torchrun import by_torchrun, is_repeated_start, processes_here
from glassformer.core.errors import ConfigError
from glassformer.core.files import SYSTEM, finished_name, scratch_folder, sweep
from glassformer.core.locks import BEFORE, LOCK, lock, unchanged_if_refused
from glassformer.data.sources import capture_stdin, is_gone
from glassformer.processors.processor import Processor
from glassformer.recipe.init_from import with_init_from
from glassformer.recipe.reading import read_yaml
from glassformer.recipe.recipe import Recipe
from glassformer.recipe.resuming import check_same, resumed
from glassformer.tasks.catalogue import kinds_of
from glassformer.tasks.task import Task
from glassformer.training.folder.checkpoints import Checkpoints
from glassformer.training.folder.model_files import (
    ADAPTER,
    BASE,
    CARD,
    INPUTS,
    MANIFEST,
    MODEL,
    check_inputs,
)

OWN = {
    *(*MODEL, *INPUTS, MANIFEST, CARD),
    *(*ADAPTER, BASE, "run.lock", "metrics.jsonl", "report.html", "tensorboard", "checkpoints"),
    *("data", "stdin.txt", "stdin.jsonl", "tokens", ".tokens.shards", "pixels", "clips"),
    "job.json",  # of earlier versions
}
"""Every file and folder that training and the demos' data write into a run folder."""
GROWING = {"run.lock", "checkpoints", "tensorboard", "data", ".tokens.shards"}
"""Those that nothing changes before training begins."""


@dataclass(frozen=True)
class Prepared:
    """A checked recipe with its processor and records; nothing is written yet."""

    recipe: Recipe
    kind: type[Task]
    processor: Processor
    records: Any
    folder: Path
    resumed: bool
    kept: Mapping[str, Any] | None = None
    """The encoded data of a run whose source is gone."""

    def task(self) -> Task:
        """The task with its data, encoded in the run folder; DataError: data of no use."""
        if not self.resumed:
            for name in (*INPUTS, MANIFEST):  # of a run that was stopped before it began
                (self.folder / name).unlink(missing_ok=True)
        task = self.kind.open(
            self.recipe, self.processor, self.records, self.folder, kept=self.kept
        )
        task.check_size()
        return task


def prepare(recipe: Recipe, run: Path, resume: bool, say: Callable[[str], None]) -> Prepared:
    """Check folder and data, and fit the processor; only a copy of standard input is written."""
    if recipe.data.train.path is None:
        raise ConfigError(
            "The recipe has no data.train.path; add data.train.path=FILE (a text file, glob, "
            "folder or -)."
        )
    saved, again = run / "recipe.yaml", resume
    if resume and not saved.is_file():
        resume = False
        say("no run has begun here; beginning one")
    find_device(recipe.train.device)
    if resume:
        check_inputs(run)
    begun = Recipe.parse(read_yaml(saved)) if resume else None
    recipe = with_init_from(recipe, begun)
    kind, inputs = kinds_of(recipe)
    data = capture_stdin(recipe.data, run, reuse=again).absolute()
    recipe = replace(recipe, data=inputs.resolve(data, begun and begun.data, say))
    records = inputs.read(recipe.data)
    if begun is None:
        processor = inputs.fit(recipe.processor, recipe.data, records, recipe.facts)
    else:
        processor = inputs.load(run, recipe.data, begun.model, begun.facts)
    recipe = recipe.with_inputs(processor.model_fields())
    recipe = kind.resolve(recipe, processor, records)
    recipe = recipe.with_length(processor.longest(records))
    processor = processor.for_training(recipe.facts, recipe.augment)
    processor.check(records)
    if begun is not None:
        check_same(recipe, begun, run)
        recipe = resumed(recipe, begun, processes_here(), say)
    recipe.check()  # again: the data and the trunk changed the model
    kept = None
    if begun is not None and is_gone(recipe.data):
        kept = processor.stored(recipe.data, run)
        if kept is not None:
            say("the data are not where they were; going on with what the run keeps of them")
    return Prepared(recipe, kind, processor, records, run, begun is not None, kept)


@contextmanager
def temporary_task(recipe: Recipe) -> Iterator[Task]:
    """A recipe's task with its data, in a folder that is removed again (maps stay readable)."""
    with scratch_folder() as folder:
        run = folder / "run"
        prepared = prepare(recipe, run, resume=False, say=lambda text: None)
        run.mkdir(exist_ok=True)
        yield prepared.task()


@contextmanager
def hold(run: Path) -> Iterator[None]:
    """Hold a folder for one trainer, without what a killed one left unfinished."""
    # the loading processes of one that was killed hold it for some seconds
    with lock(run, patience=30 if is_repeated_start() else 0):
        sweep(run, is_own)
        yield


def unchanged(run: Path) -> AbstractContextManager[None]:
    """Put back what training wrote into its folder, if it is refused before it begins."""
    return unchanged_if_refused(run, OWN - GROWING)


def check_folder(run: Path, resume: bool) -> None:
    """Raise ConfigError unless a run can begin in the folder, or be resumed there; of several
    machines, one that joins later resumes what the others began."""
    if not (resume and (run / "recipe.yaml").is_file()):
        if resume and not (run / LOCK).is_file() and not by_torchrun():
            raise ConfigError(f"{run} holds no run to resume; leave out --resume to begin one.")
        check_unused(run)


def is_own(name: str) -> bool:
    """True for the name of a file or folder that training writes into a run folder."""
    return name in OWN or name == BEFORE


def check_unused(run: Path) -> None:
    """Raise ConfigError unless a new run may have the folder: it is not there, or empty, or a run
    was stopped in it before its first checkpoint."""
    steps = Checkpoints(run).steps()
    if steps:
        raise ConfigError(
            f"{run} already holds a run at step {steps[-1]}; add --resume or choose another --run."
        )
    if (run / "model.safetensors").exists():
        raise ConfigError(f"{run} already holds a model; choose another --run.")
    for place, what in ((Path.cwd(), "the current folder"), (Path.home(), "your home folder")):
        if run.resolve() == place.resolve():
            raise ConfigError(f"{run} is {what}; choose a new folder for --run, as runs/mine.")
    begun = (run / LOCK).exists()
    for name in sorted(os.listdir(run)) if run.is_dir() else ():
        if name not in SYSTEM and not (begun and is_own(finished_name(name))):
            raise ConfigError(
                f"{run} already holds {name}, and a run has a folder of its own; choose another "
                "--run."
            )
