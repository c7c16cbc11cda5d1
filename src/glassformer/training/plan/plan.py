"""Cost of a recipe on this machine, before training: matrices, operations, memory, disk, time."""

import re
import time
from collections import defaultdict
from collections.abc import Callable
from dataclasses import asdict, dataclass
from functools import partial
from typing import Any

import torch

from glassformer.core.batch import Batch
from glassformer.core.cpu import keep_freed_memory, micro_batch_threads
from glassformer.core.devices import Machine, choose_machine
from glassformer.core.errors import ConfigError, plural
from glassformer.core.progress import clock, size
from glassformer.data.collate import Share
from glassformer.finetune.adapters import adapt
from glassformer.layers.losses import cross_entropy
from glassformer.models.cost import (
    Matrix,
    forward_flops,
    matrices,
    training_bytes,
)
from glassformer.models.transformer import Transformer
from glassformer.recipe.init_from import with_init_from
from glassformer.recipe.recipe import Recipe
from glassformer.training.folder.checkpoints import to_keep
from glassformer.training.loop.optimizer import Optimizer
from glassformer.training.loop.prepare import temporary_task
from glassformer.training.loop.step import Loss, TrainingStep, flops
from glassformer.training.parallel.division import UNDIVIDED

Batches = Callable[[int], list[Batch]]


@dataclass(frozen=True)
class Plan:
    """Content of `glassformer plan`."""

    parameters: int
    forward_flops: float
    training_flops: float
    memory: dict[str, int]
    disk: int
    tokens_per_step: int
    """Elements in a step: tokens, patches or the like."""
    step: str
    """Size of a step in words."""
    element: str
    """Name of an element."""
    seconds_per_step: float
    seconds: float
    share_of_peak: float
    machine: str
    epochs: float | None
    matrices: list[Matrix]

    def as_json(self) -> dict[str, Any]:
        """Return plain values; bytes, seconds and operations."""
        return asdict(self)

    def as_text(self) -> str:
        """Return a table of matrices (equal blocks together) and the costs."""
        lines = [f"{'matrix':48} {'shape':>16} {'numbers':>14}"]
        alike: dict[str, list[Matrix]] = defaultdict(list)
        for matrix in self.matrices:
            alike[re.sub(r"\.\d+(?=\.)", ".*", matrix.name)].append(matrix)
        for name, own in alike.items():
            shape = " x ".join(map(str, own[0].shape))
            name += f" ({len(own)})" * (len(own) > 1)
            lines.append(f"{name:48} {shape:>16} {len(own) * own[0].numbers:>14,}")
        total = sum(self.memory.values())
        parts = ", ".join(f"{name} {size(value)}" for name, value in self.memory.items())
        epochs = "" if self.epochs is None else f" ({self.epochs:.1f} epochs)"
        return "\n".join(
            [
                *lines,
                f"{'parameters':48} {'':>16} {self.parameters:>14,}",
                "",
                f"machine    {self.machine}",
                f"operations {self.forward_flops / 1e6:,.2f} MFLOP per {self.element} "
                f"forward, {self.training_flops / 1e6:,.2f} in training",
                f"memory     about {size(total)}: {parts}",
                f"disk       about {size(self.disk)} for checkpoints and the model",
                f"time       {self.seconds_per_step * 1e3:,.0f} ms a step of {self.step} "
                f"({self.tokens_per_step / self.seconds_per_step:,.0f} "
                f"{plural(self.element)}/s"
                f"{f', {self.share_of_peak:.0%} of peak' if self.share_of_peak <= 1 else ''})",
                f"           {clock(self.seconds)} for all steps{epochs}, without evaluations",
            ]
        )


def make_plan(recipe: Recipe) -> Plan:
    """Measure three real training steps, and count the rest."""
    with temporary_task(recipe) as task:
        rows, unit = task.feed.sequences, task.processor.unit
        step = f"{rows * task.feed.length:,} {plural(unit)}"
        if task.processor.elements != "tokens":
            step = f"{rows:,} {task.processor.noun}s, {step}"
        train, threads = recipe.train, torch.get_num_threads()
        machine = choose_machine(train.device, train.precision, threads)
        seconds = step_seconds(task.recipe, machine, task.feed.batches, task.objective.loss)
        sizes = task.feed.length, rows, unit, step, task.feed.elements
        return _plan(task.recipe, machine, seconds, *sizes)


def plan_without_data(recipe: Recipe) -> Plan:
    """Plan a recipe as `make_plan`, on random tokens; ConfigError: its model reads no text."""
    if not recipe.model.predicts_words:
        raise ConfigError(
            f"A plan of task={recipe.task!r} needs data, because only models of text are planned "
            "on random tokens; add data.train.path=FILE."
        )
    recipe, length, rows = sizes_without_data(with_init_from(recipe))
    n = max(1, rows // recipe.train.micro_batches)

    def batches(step: int) -> list[Batch]:
        return [_random_batch(recipe, n, length, step)] * recipe.train.micro_batches

    keep_freed_memory()
    train, threads = recipe.train, torch.get_num_threads()
    machine = choose_machine(train.device, train.precision, threads)
    seconds = step_seconds(recipe, machine, batches, cross_entropy)
    step = f"{rows * length:,} tokens"
    return _plan(recipe, machine, seconds, length, rows, "token", step, None)


def _plan(
    recipe: Recipe,
    machine: Machine,
    seconds: float,
    length: int,
    sequences: int,
    element: str,
    step: str,
    elements: int | None,
) -> Plan:
    """Return the plan of steps that take `seconds`; `element` and `step` name an element and all of
    a step, `elements` are those of the training data."""
    config, train, save = recipe.model, recipe.train, recipe.train.save
    per_step = sequences * length
    listed, operations = matrices(config), flops(recipe, length)
    parallel = train.parallel_micro_batches if machine.device.type == "cpu" else 1
    rows = train.forward_passes * max(1, sequences // train.micro_batches)
    trained = None
    if train.finetune.partial:
        made = _model(recipe, torch.device("meta"))
        trained = sum(p.numel() for p in made.parameters() if p.requires_grad)
    memory = training_bytes(config, rows, length, train.optimizer.kind, parallel, trained)
    checkpoint = memory["optimizer"] + (memory["weights"] if trained is None else 4 * trained)
    older = len(to_keep(range(save.every, train.steps + 1, save.every), save))
    return Plan(
        parameters=sum(m.numbers for m in listed),
        forward_flops=forward_flops(config, length, recipe.predicted_fraction),
        training_flops=operations,
        memory=memory,
        disk=(max(save.keep_last, older) + 1) * checkpoint
        + memory["weights"] * (1 + train.finetune.partial),
        tokens_per_step=per_step,
        step=step,
        element=element,
        seconds_per_step=seconds,
        seconds=seconds * train.steps,
        share_of_peak=operations * per_step / seconds / machine.peak,
        machine=machine.reason,
        epochs=None if elements is None else train.steps * per_step / max(1, elements),
        matrices=listed,
    )


def sizes_without_data(recipe: Recipe) -> tuple[Recipe, int, int]:
    """Return the recipe with a vocabulary, the length of its sequences, and their number in a
    step."""
    length, tokens = recipe.train.length or recipe.model.max_length, recipe.train.batch_tokens
    if recipe.model.predicts_words and not recipe.model.vocab_size:
        recipe = recipe.with_vocabulary(recipe.processor.tokenizer.vocab_size or 8192)
    return recipe, length, recipe.train.batch_size if tokens is None else max(1, tokens // length)


def step_seconds(recipe: Recipe, machine: Machine, batches: Batches, loss: Loss) -> float:
    """Return the median time of three training steps, after one to warm up."""
    train, device = recipe.train, machine.device
    model = UNDIVIDED.build(partial(_model, recipe), None, device)
    optimizer, times = Optimizer(model, train.optimizer), []
    with micro_batch_threads(train.parallel_micro_batches, device) as threads:
        compute = TrainingStep(
            model,
            optimizer,
            precision=machine.precision,
            max_grad_norm=train.optimizer.max_grad_norm,
            loss=loss,
            consistency=train.consistency,
            outcomes=recipe.model.outcomes,
            threads=threads,
        )
        for step in range(4):
            parts = batches(step)
            begin = time.perf_counter()
            compute(Share(parts), step, factor=1e-6)
            times.append(time.perf_counter() - begin)
    return sorted(times[1:])[1]


def _model(recipe: Recipe, device: torch.device) -> Transformer:
    """Return the model with its adapters, without the weights that it begins with."""
    seed = recipe.train.seed
    model = Transformer(recipe.model, None if device.type == "meta" else seed, device)
    adapt(model, recipe.train.finetune, seed)
    return model


def _random_batch(recipe: Recipe, rows: int, length: int, seed: int) -> Batch:
    model, random = recipe.model, torch.Generator().manual_seed(seed)
    tokens = torch.randint(model.vocab_size, (rows, length + 1), generator=random)
    source = None
    if model.is_encoder_decoder:
        vocabulary = model.source_vocab_size or model.vocab_size
        source = Batch(torch.randint(vocabulary, (rows, length), generator=random))
    if recipe.predicted_fraction < 1:
        at = torch.arange(0, rows * length, round(1 / recipe.predicted_fraction))
        return Batch(tokens[:, :-1], targets=tokens[:, 1:].flatten()[at], at=at)
    return Batch(tokens[:, :-1], targets=tokens[:, 1:], source=source)
