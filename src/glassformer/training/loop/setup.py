"""Set-up of a run, from top to bottom: recipe, data, state, model, optimizer.

Only one process fits a tokenizer, encodes data and writes into the run folder; the others read it.
"""

from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path

import torch
from torch import nn

from glassformer.core.devices import Machine, platform
from glassformer.core.distributed.processes import Processes
from glassformer.core.errors import ConfigError
from glassformer.core.manifest import digest
from glassformer.finetune.adapters import adapt
from glassformer.layers.lora import plain_parameters
from glassformer.models.transformer import Transformer
from glassformer.models.weights import WEIGHTS, load_trunk, save_weights
from glassformer.recipe.recipe import Recipe
from glassformer.recipe.train import TrainConfig
from glassformer.tasks.task import Task
from glassformer.training.folder.checkpoints import Checkpoints, State
from glassformer.training.folder.model_files import BASE, save_inputs
from glassformer.training.folder.models import fill, fill_optimizer, model_to_fill
from glassformer.training.loop.optimizer import Optimizer
from glassformer.training.loop.prepare import prepare
from glassformer.training.parallel.division import Division, division_of


@dataclass(frozen=True)
class SetUp:
    """Task, machine, model and optimizer of a run at its first step, or at that of a checkpoint."""

    task: Task
    machine: Machine
    state: State
    division: Division
    model: Transformer
    optimizer: Optimizer
    processes: Processes


def set_up(
    recipe: Recipe,
    run: Path,
    resume: bool,
    checkpoint: int | None,
    processes: Processes,
    say: Callable[[str], None],
) -> SetUp:
    """Begin in the folder `run`, or continue there (from the step `checkpoint`); threads are set.

    Errors: see `prepare` and `first_model`.
    """
    state, checkpoints = State(0, ""), Checkpoints(run)
    with processes.in_turn():  # the first reads, encodes and writes; then the others read that
        if checkpoint is not None and checkpoint >= recipe.train.steps:
            raise ConfigError(
                f"checkpoint={checkpoint} is the step to go on from, and "
                f"train.steps={recipe.train.steps} end there; give more of them."
            )
        prepared = prepare(recipe, run, resume or not processes.first, processes.count, say)
        task, machine = prepared.open(say), prepared.machine
        if processes.first:
            checkpoints.sweep()
            state = checkpoints.first(resume, task.feed.fingerprint, say, checkpoint)
            if state.step < task.recipe.train.steps:
                save_inputs(task, run, platform(machine.device))
    state = State(**processes.from_first(lambda: asdict(state)))
    train = task.recipe.train
    division = division_of(processes, train, machine.device)
    if state.step:
        make = partial(model_to_fill, task.recipe, run, state.base)
        model = division.build(make, None, machine.device)
        optimizer = Optimizer(model, train.optimizer, division.copies)
        fill(checkpoints, state.step, model)
        fill_optimizer(checkpoints, state.step, optimizer.blank)
        say(f"resuming at step {state.step}")
    else:
        base = run / BASE if processes.first and train.finetune.partial else None
        model = division.build(partial(first_model, task, base), train.seed, machine.device)
        optimizer = Optimizer(model, train.optimizer, division.copies)
        state = replace(state, base=processes.from_first(lambda: base and digest(base)))
        if train.init_from is not None:
            say(_describe_start(train, model))
    return SetUp(task, machine, state, division, model, optimizer, processes)


def first_model(task: Task, base: Path | None, device: torch.device) -> Transformer:
    """Return the model before the first step, ready to be trained; on "meta" it has no weights.
    `base`: the file for those that are not trained.

    CheckpointError: a trunk that does not fit; ConfigError: see `adapt`, or new tokens that would
    not be trained.
    """
    train, own = task.recipe.train, task.recipe.processor.tokenizer.new_tokens
    model = Transformer(task.recipe.model, None if device.type == "meta" else train.seed, device)
    if train.init_from is not None:
        new = [task.processor.tokenizer.specials[symbol] for symbol in own]
        weights = Path(train.init_from) / WEIGHTS
        load_trunk(model, weights, train.finetune.keep_head, min(new, default=None))
    if base is not None:
        save_weights(model, base)
    adapt(model, train.finetune, train.seed)
    if own and not model.embed.element.get_parameter("weight").requires_grad:
        raise ConfigError(
            f"processor.tokenizer.new_tokens {', '.join(own)} would stay at the mean of the other "
            "tokens, because the embedding is not trained; add train.finetune.train_also=[embed]."
        )
    return model


def _describe_start(train: TrainConfig, model: nn.Module) -> str:
    keeps = train.finetune.keep_head
    own = any(name.startswith("head.") for name, _ in model.named_parameters())
    new = "; the head is new (see train.finetune.keep_head)" if own and not keeps else ""
    return f"beginning with the {'model' if keeps else 'trunk'} of {train.init_from}{new}"


def describe(task: Task, machine: str, model: nn.Module) -> Iterator[str]:
    """Sentences on the machine, the model and the data of a run before its first step."""
    train = task.recipe.train
    yield f"computing on {machine}"
    every = sum(value.numel() for _, value in plain_parameters(model))
    trained = sum(p.numel() for p in model.parameters() if p.requires_grad)
    some = f"; {trained:,} are trained ({trained / every:.1%})" if train.finetune.partial else ""
    yield f"{every:,} parameters{some}"
    if symbols := task.recipe.processor.tokenizer.new_tokens:
        ids = (f"{symbol} {task.processor.tokenizer.specials[symbol]}" for symbol in symbols)
        begin = "" if train.init_from is None else ", beginning at the mean of the others"
        yield f"new tokens by id: {', '.join(ids)}{begin}"
    yield from task.objective.opening()
    if train.schedule.warmup_steps >= train.steps:
        yield (
            f"the warm-up of {train.schedule.warmup_steps} steps does not end within "
            f"{train.steps} steps, so the peak learning rate is never reached; consider a smaller "
            "train.schedule.warmup_steps"
        )
