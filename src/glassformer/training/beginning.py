"""How a run begins or goes on: by the first process, then by the others.

    first    folder checked and locked ─> processor, data ─> inputs written ─> where it stands
    others   ..................................................the same, read from the folder

So one process alone fits a tokenizer, encodes data and writes into the run folder.
"""

from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import torch

from glassformer.errors import ConfigError, counted
from glassformer.processes import Processes
from glassformer.recipe.recipe import Recipe
from glassformer.tasks.task import Task
from glassformer.torchrun import is_repeated_start
from glassformer.training.checkpoint import Checkpoints, State
from glassformer.training.machine import Machine, choose_machine, platform
from glassformer.training.memory import keep_freed_memory
from glassformer.training.model_files import save_inputs
from glassformer.training.parallel import cpu_threads
from glassformer.training.run_folder import held, prepare, unchanged


@dataclass(frozen=True)
class Begun:
    """The task with its data, where the run stands, and the machine that computes."""

    task: Task
    state: State
    machine: Machine


def begin(
    recipe: Recipe,
    run: Path,
    resume: bool,
    processes: Processes,
    say: Callable[[str], None],
    training: ExitStack,
    beginning: ExitStack,
    checkpoint: int | None = None,
) -> Begun:
    """Begin in the folder `run`, or go on there (from the step `checkpoint`); the lock is held,
    and threads are set, until `training` closes, and what is refused until `beginning` closes
    leaves the folder as it was.

    Errors: see `prepare`; ConfigError for a number of processes that the recipe does not allow.
    """
    begun: list[Begun] = []

    def first() -> dict[str, Any]:
        own = shared(recipe, processes.count)
        named = None if is_repeated_start() else checkpoint
        if named is not None:
            check_named(named, resume, own.train.steps)
        training.enter_context(held(run, resume))
        beginning.enter_context(unchanged(run))
        task, machine = _opened(own, run, resume, say, training)
        checkpoints = Checkpoints(run)
        checkpoints.sweep()
        state = checkpoints.first(resume, task.fingerprint, say, named)
        if state.step < task.recipe.train.steps:
            save_inputs(task, run, task.recipe.yaml(), platform(machine.device))
        begun.append(Begun(task, state, machine))
        return asdict(state)

    state = State(**processes.from_first(first))

    def others() -> None:
        if not begun:
            own = shared(recipe, processes.count)
            task, machine = _opened(own, run, True, lambda text: None, training)
            begun.append(Begun(task, state, machine))

    processes.each(others)
    return begun[0]


def check_named(checkpoint: int, resume: bool, steps: int) -> None:
    """Raise ConfigError for a step from which a run cannot go on."""
    told = f"checkpoint={checkpoint} is the step to go on from"
    if not resume:
        raise ConfigError(f"{told}; add --resume (in Python resume=True).")
    if checkpoint >= steps:
        raise ConfigError(f"{told}, and train.steps={steps} end there; give more of them.")


def shared(recipe: Recipe, processes: int) -> Recipe:
    """The recipe with a micro-batch for each process that reads rows of its own; ConfigError: their
    number does not go with it."""
    train, of = recipe.train, recipe.train.distributed
    if processes % (of.shard * of.tensor):
        raise ConfigError(
            f"train.distributed.shard={of.shard} times tensor={of.tensor} does not divide the "
            f"{counted(processes, 'process')}; choose numbers whose product divides them, or start "
            "more by torchrun or --processes."
        )
    readers = processes // of.tensor
    parts = -(-train.micro_batches // readers) * readers
    if of.deterministic and (parts != train.micro_batches or parts & (parts - 1)):
        raise ConfigError(
            f"train.distributed.deterministic adds gradients by a tree, so "
            f"train.micro_batches={train.micro_batches} with {counted(processes, 'process')} "
            "cannot be; make it a power of two that the number of processes divides."
        )
    if train.batch_tokens is None and parts > train.batch_size:
        raise ConfigError(
            f"train.batch_size={train.batch_size} cannot be divided among {processes} processes; "
            "make it larger, or use fewer processes."
        )
    threads = max(1, train.parallel_micro_batches // processes)
    update = {"micro_batches": parts, "parallel_micro_batches": threads}
    return replace(recipe, train=train.model_copy(update=update)) if processes > 1 else recipe


def _opened(
    recipe: Recipe, run: Path, resume: bool, say: Callable[[str], None], training: ExitStack
) -> tuple[Task, Machine]:
    """The task with its data, its recipe resolved for this machine."""
    prepared = prepare(recipe, run, resume, say)
    training.enter_context(cpu_threads(prepared.recipe.train.threads))
    task = prepared.task()
    keep_freed_memory()
    machine = choose_machine(prepared.recipe.train.device, prepared.recipe.train.precision)
    task.recipe = task.recipe.with_machine(machine.precision_name, torch.get_num_threads())
    return task, machine
