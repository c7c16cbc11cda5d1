"""A recipe with its files and this machine: what a run computes, before anything is written."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch

from glassformer.core.cpu import cpu_threads, keep_freed_memory
from glassformer.core.devices import Machine, choose_machine
from glassformer.core.distributed.torchrun import processes_here
from glassformer.core.errors import ConfigError
from glassformer.core.files import scratch_folder
from glassformer.data.sources import capture_stdin, is_gone
from glassformer.processors.processor import Processor
from glassformer.recipe.init_from import with_init_from
from glassformer.recipe.recipe import Recipe
from glassformer.recipe.resuming import check_same, with_machine_of
from glassformer.tasks.catalogue import kinds_of
from glassformer.tasks.task import Kind, Task
from glassformer.training.folder.model_files import INPUTS, MANIFEST
from glassformer.training.folder.run_folder import saved_recipe


def silent(text: str) -> None:
    """Say nothing."""


@dataclass(frozen=True)
class Prepared:
    """A resolved recipe with its processor, records and machine."""

    recipe: Recipe
    kind: Kind
    processor: Processor
    records: Any
    machine: Machine
    folder: Path
    resumed: bool
    gone: bool
    """Whether files that a run was trained on are not there any more."""

    def open(self, say: Callable[[str], None] = silent) -> Task:
        """Return the task with its data, encoded in the run folder, or as it keeps those that are
        gone; DataError: data of no use."""
        kept = self.processor.load_stored(self.recipe.data, self.folder) if self.gone else None
        if kept is not None:
            say("the data are not where they were; going on with what the run keeps of them")
        if not self.resumed:
            for name in (*INPUTS, MANIFEST):  # of a run that was stopped before it began
                (self.folder / name).unlink(missing_ok=True)
        task = self.kind.open(self.recipe, self.processor, self.records, self.folder, kept=kept)
        task.objective.check_size()
        return task


def prepare(
    recipe: Recipe, run: Path, resume: bool, processes: int, say: Callable[[str], None]
) -> Prepared:
    """Check recipe, folder and data, fit the processor, and choose where to compute; threads are
    set, and only a copy of standard input is written."""
    if recipe.data.train.path is None:
        raise ConfigError(
            "The recipe has no data.train.path; add data.train.path=FILE (a text file, glob, "
            "folder or -)."
        )
    begun = saved_recipe(run, resume)
    if resume and begun is None:
        say("no run has begun here; beginning one")
    kind, inputs = kinds_of(recipe)
    recipe = with_init_from(recipe.for_processes(processes), begun)
    if begun is not None:
        recipe = with_machine_of(recipe, begun, run, processes_here(), say)
    if recipe.train.threads is not None:
        torch.set_num_threads(recipe.train.threads)
    keep_freed_memory()
    threads = torch.get_num_threads()
    machine = choose_machine(recipe.train.device, recipe.train.precision, threads)
    recipe = recipe.with_machine(machine.precision_name, threads)
    data = capture_stdin(recipe.data, run, reuse=resume).absolute()
    gone = begun is not None and is_gone(data)
    recipe = replace(recipe, data=inputs.resolve(data, begun and begun.data, say))
    records = inputs.read(recipe.data)
    if begun is None:
        processor = inputs.fit(recipe.processor, recipe.data, records, recipe.facts)
    else:
        processor = inputs.load(run, recipe.data, begun.model, begun.facts)
    recipe = recipe.with_inputs(processor.model_fields())
    recipe = kind.objective.resolve(recipe, processor, records)
    recipe = recipe.with_length(processor.longest(records))
    processor = processor.for_training(recipe.facts, recipe.augment)
    Task(kind, recipe, processor, run).objective.check(records)
    if begun is not None:
        check_same(recipe, begun, run)
    recipe.check()  # again: the data and the trunk changed the model
    return Prepared(recipe, kind, processor, records, machine, run, begun is not None, gone)


@contextmanager
def temporary_task(recipe: Recipe) -> Iterator[Task]:
    """Open a recipe's task with its data in a folder that is removed again (maps stay readable)."""
    with scratch_folder() as folder, cpu_threads():
        prepared = prepare(recipe, folder / "run", False, 1, silent)
        prepared.folder.mkdir(exist_ok=True)
        yield prepared.open()
