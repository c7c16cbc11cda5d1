"""What a recipe will cost on this machine, found out before training: matrices, operations, memory, disk, time.

Knows: recipes, and how fast a few real steps are here. Does not know: the text beyond its size.
"""

import time
from dataclasses import dataclass
from itertools import groupby
from typing import Any

import torch

from glassformer.batch import Batch
from glassformer.data.split import texts_for_tokenizer
from glassformer.models.cost import Matrix, forward_flops, matrices, training_bytes, training_flops
from glassformer.models.transformer import Transformer
from glassformer.tokens.train import train_tokenizer
from glassformer.train.device import choose_machine
from glassformer.train.memory import keep_freed_memory
from glassformer.train.optimizer import Optimizer
from glassformer.train.progress import clock
from glassformer.train.recipe import Recipe
from glassformer.train.step import training_step

MOST_CHARACTERS = 20_000_000


@dataclass(frozen=True)
class Plan:
    """Everything that `glassformer plan` prints."""

    matrices: list[Matrix]
    parameters: int
    forward_flops: float
    training_flops: float
    memory: dict[str, int]
    disk: int
    tokens_per_step: int
    seconds_per_step: float
    seconds: float
    share_of_peak: float
    machine: str
    epochs: float | None

    def as_json(self) -> dict[str, Any]:
        """Plain values; bytes, seconds and operations."""
        values = {name: value for name, value in vars(self).items() if name != "matrices"}
        rows = [{"name": m.name, "shape": m.shape, "numbers": m.numbers} for m in self.matrices]
        return {**values, "matrices": rows}

    def as_text(self) -> str:
        """A table of matrices (equal blocks together) and the costs."""
        lines = [f"{'matrix':48} {'shape':>16} {'numbers':>14}"]
        for name, count, matrix in _grouped(self.matrices):
            shape = " x ".join(str(side) for side in matrix.shape)
            lines.append(f"{name:48} {shape:>16} {count * matrix.numbers:>14,}")
        total = sum(self.memory.values())
        parts = ", ".join(f"{name} {_size(value)}" for name, value in self.memory.items())
        epochs = "" if self.epochs is None else f" ({self.epochs:.1f} epochs)"
        return "\n".join(
            [
                *lines,
                f"{'parameters':48} {'':>16} {self.parameters:>14,}",
                "",
                f"machine    {self.machine}",
                f"operations {self.forward_flops / 1e6:,.2f} MFLOP a token forward, "
                f"{self.training_flops / 1e6:,.2f} in training",
                f"memory     about {_size(total)}: {parts}",
                f"disk       about {_size(self.disk)} for checkpoints and the model",
                f"time       {self.seconds_per_step * 1e3:,.0f} ms a step of {self.tokens_per_step:,} tokens "
                f"({self.tokens_per_step / self.seconds_per_step:,.0f} tokens/s, {self.share_of_peak:.0%} of peak)",
                f"           {clock(self.seconds)} for all steps{epochs}, without evaluations",
            ]
        )


def make_plan(recipe: Recipe) -> Plan:
    """Measure three real steps of the recipe's model on random tokens, and count the rest."""
    recipe, n_tokens = _with_text(recipe)
    config, train = recipe.model, recipe.train
    length = train.length or config.max_length
    per_step = train.batch_size * length
    keep_freed_memory()
    machine = choose_machine(train.device, train.precision)
    seconds = step_seconds(recipe, length, machine.device, machine.precision)
    listed = matrices(config)
    n, flops = sum(m.numbers for m in listed), training_flops(config, length)
    memory = training_bytes(config, train.batch_size // train.micro_batches, length, train.optimizer)
    kept = (train.keep_last + 1) * (memory["weights"] + memory["optimizer"]) + memory["weights"]
    return Plan(
        listed,
        n,
        forward_flops(config, length),
        flops,
        memory,
        kept,
        per_step,
        seconds,
        seconds * train.steps,
        flops * per_step / seconds / machine.peak,
        machine.reason,
        None if n_tokens is None else train.steps * per_step / max(1, n_tokens),
    )


def step_seconds(recipe: Recipe, length: int, device: torch.device, precision: torch.dtype) -> float:
    """The median time of three training steps, after one to warm up."""
    train, vocabulary = recipe.train, recipe.model.vocab_size
    model = Transformer(recipe.model, train.seed, device)
    optimizer, parameters, times = Optimizer(model, train), list(model.parameters()), []
    rows = train.batch_size // train.micro_batches
    for step in range(4):
        tokens = torch.randint(vocabulary, (rows, length + 1), generator=torch.Generator().manual_seed(step))
        parts = [Batch(tokens[:, :-1], targets=tokens[:, 1:])] * train.micro_batches
        begin = time.perf_counter()
        training_step(
            model, parameters, optimizer, parts, seed=0, step=step, factor=1e-6, precision=precision, clip=train.clip
        )
        times.append(time.perf_counter() - begin)
    return sorted(times[1:])[1]


def _with_text(recipe: Recipe) -> tuple[Recipe, int | None]:
    """The recipe with its vocabulary, and the number of training tokens (counted on at most 20 million characters)."""
    if recipe.data.path is None:
        if recipe.model.vocab_size:
            return recipe, None
        return recipe.with_vocabulary(recipe.tokenizer.vocab_size or 8192), None
    tokenizer = train_tokenizer(recipe.tokenizer, texts_for_tokenizer(recipe.data))
    characters = tokens = counted = 0
    for text in texts_for_tokenizer(recipe.data):
        characters += len(text)
        if counted < MOST_CHARACTERS:
            tokens += len(tokenizer.encode(text))
            counted += len(text)
    return recipe.with_vocabulary(tokenizer.vocab_size), round(tokens * characters / max(1, counted))


def _grouped(listed: list[Matrix]) -> list[tuple[str, int, Matrix]]:
    """Matrices of equal blocks as one line with their number."""

    def general(matrix: Matrix) -> str:
        parts = matrix.name.split(".")
        return ".".join("*" if part.isdigit() else part for part in parts)

    ordered = sorted(listed, key=general)
    first = {general(matrix): i for i, matrix in reversed(list(enumerate(listed)))}
    groups = {name: list(group) for name, group in groupby(ordered, general)}
    return [
        (f"{name} ({len(groups[name])})" if len(groups[name]) > 1 else name, len(groups[name]), groups[name][0])
        for name in sorted(groups, key=lambda name: first[name])
    ]


def _size(n: int | float) -> str:
    for unit in ("B", "KB", "MB"):
        if n < 1000:
            return f"{n:,.0f} {unit}"
        n /= 1000
    return f"{n:,.1f} GB"
