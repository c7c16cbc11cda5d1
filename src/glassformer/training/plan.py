"""What a recipe will cost on this machine, found out before training: matrices, operations, memory,
disk, time."""

import time
from dataclasses import dataclass
from itertools import groupby
from typing import Any

import torch

from glassformer.batch import Batch
from glassformer.data.pairs import pairs
from glassformer.data.split import texts_for_tokenizer
from glassformer.losses import cross_entropy
from glassformer.models.config import ModelConfig
from glassformer.models.cost import Matrix, forward_flops, matrices, training_bytes, training_flops
from glassformer.models.transformer import Transformer
from glassformer.recipe.recipe import Recipe
from glassformer.tasks.media_classification import PerceptionTask
from glassformer.tasks.multimodal_generation import AnswerTask
from glassformer.tasks.text_to_image import DepictionTask
from glassformer.tasks.text_to_text import TransductionTask, make_tokenizers
from glassformer.tokenizers.train import train_tokenizer
from glassformer.training.device import choose_machine
from glassformer.training.init_from import with_start
from glassformer.training.memory import keep_freed_memory
from glassformer.training.optimizer import Optimizer
from glassformer.training.parallel import hands
from glassformer.training.progress import clock
from glassformer.training.run_folder import AnyTask, task_of, temporary_task
from glassformer.training.step import training_step

MOST_CHARACTERS, MOST_PAIRS = 20_000_000, 20_000
ELEMENTS = {
    "token": ("a token", "tokens"),
    "patch": ("a patch", "patches"),
    "element": ("an element", "elements"),
}
"""What a sequence is made of, one and several."""


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
    """Elements in a step, whatever they are."""
    step: str
    """The same in words."""
    element: str
    """What one is called."""
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
                f"operations {self.forward_flops / 1e6:,.2f} MFLOP {ELEMENTS[self.element][0]} "
                f"forward, "
                f"{self.training_flops / 1e6:,.2f} in training",
                f"memory     about {_size(total)}: {parts}",
                f"disk       about {_size(self.disk)} for checkpoints and the model",
                f"time       {self.seconds_per_step * 1e3:,.0f} ms a step of {self.step} "
                f"({self.tokens_per_step / self.seconds_per_step:,.0f} "
                f"{ELEMENTS[self.element][1]}/s"
                f"{f', {self.share_of_peak:.0%} of peak' if self.share_of_peak <= 1 else ''})",
                f"           {clock(self.seconds)} for all steps{epochs}, without evaluations",
            ]
        )


@dataclass(frozen=True)
class Text:
    """What a recipe's data are like: (target) length, source length of pairs, and (target) tokens
    if they are known."""

    recipe: Recipe
    length: int
    source_length: int
    tokens: int | None
    task: AnyTask | None = None
    """If its real batches are what is measured."""

    @property
    def element(self) -> str:
        """What an element of a sequence is called."""
        if self.recipe.model.elements == "patches":
            return "patch"
        return "element" if self.recipe.model.parts else "token"

    @property
    def step(self) -> str:
        """How much is in a step, in words."""
        elements = f"{self.rows * self.length:,} {ELEMENTS[self.element][1]}"
        return (
            f"{self.rows:,} {self.task.senses.noun}s, {elements}"
            if isinstance(self.task, PerceptionTask)
            else elements
        )

    @property
    def rows(self) -> int:
        """Sequences or pairs in a step."""
        tokens = self.recipe.train.batch_tokens
        return (
            self.recipe.train.batch_size
            if tokens is None
            else max(1, tokens // max(self.length, self.source_length))
        )


def make_plan(recipe: Recipe) -> Plan:
    """Measure three real steps of the recipe's model on random tokens, and count the rest."""
    recipe, text = _with_text(recipe)
    config, train, length, n_tokens = recipe.model, recipe.train, text.length, text.tokens
    per_step = text.rows * length
    keep_freed_memory()
    machine = choose_machine(train.device, train.precision)
    seconds = step_seconds(recipe, text, machine.device, machine.precision)
    listed = matrices(config)
    n, flops = sum(m.numbers for m in listed), training_flops(config, length, recipe.asked)
    share = flops * per_step / seconds / machine.peak
    if share > 1:
        machine = machine.again()
        share = flops * per_step / seconds / machine.peak
    parallel_micro_batches = train.parallel_micro_batches if machine.device.type == "cpu" else 1
    memory = training_bytes(
        config,
        max(1, text.rows // train.micro_batches),
        length,
        train.optimizer,
        parallel_micro_batches,
    )
    kept = (train.keep_last + 1) * (memory["weights"] + memory["optimizer"]) + memory["weights"]
    return Plan(
        listed,
        n,
        forward_flops(config, length, recipe.asked),
        flops,
        memory,
        kept,
        per_step,
        text.step,
        text.element,
        seconds,
        seconds * train.steps,
        share,
        machine.reason,
        None if n_tokens is None else train.steps * per_step / max(1, n_tokens),
    )


def step_seconds(recipe: Recipe, text: Text, device: torch.device, precision: torch.dtype) -> float:
    """The median time of three training steps on random tokens, after one to warm up."""
    train = recipe.train
    model = Transformer(recipe.model, train.seed, device)
    optimizer, times = Optimizer(model, train), []
    parameters = optimizer.parameters
    rows = max(1, text.rows // train.micro_batches)
    with hands(train.parallel_micro_batches, device) as threads:
        for step in range(4):
            own = text.task
            parts = (
                own.batches(step)
                if own
                else [_random_batch(recipe.model, rows, text, step)] * train.micro_batches
            )
            loss = own.loss if own else cross_entropy
            begin = time.perf_counter()
            training_step(
                model,
                parameters,
                optimizer,
                parts,
                seed=0,
                step=step,
                factor=1e-6,
                precision=precision,
                max_grad_norm=train.max_grad_norm,
                loss=loss,
                hands=threads,
            )
            times.append(time.perf_counter() - begin)
    return sorted(times[1:])[1]


def _random_batch(model: ModelConfig, rows: int, text: Text, seed: int) -> Batch:
    random = torch.Generator().manual_seed(seed)
    tokens = torch.randint(model.vocab_size, (rows, text.length + 1), generator=random)
    source = None
    if model.architecture == "encoder_decoder":
        vocabulary = model.source_vocab_size or model.vocab_size
        source = Batch(torch.randint(vocabulary, (rows, text.source_length), generator=random))
    if model.head == "masked_lm":
        at = torch.arange(0, rows * text.length, round(1 / text.recipe.train.mask_fraction))
        return Batch(tokens[:, :-1], targets=tokens[:, 1:].flatten()[at], at=at)
    return Batch(tokens[:, :-1], targets=tokens[:, 1:], source=source)


def _with_text(recipe: Recipe) -> tuple[Recipe, Text]:
    """The recipe with its vocabulary, and what its data are like."""
    recipe = with_start(recipe)
    kind = task_of(recipe)
    if recipe.model.head in ("tag", "classify") or kind in (AnswerTask, DepictionTask):
        return _with_task(recipe)
    length = recipe.train.length or recipe.model.max_length
    if recipe.data.path is None:
        if not recipe.model.vocab_size:
            recipe = recipe.with_vocabulary(recipe.tokenizer.vocab_size or 8192)
        return recipe, Text(recipe, length, length, None)
    if kind is TransductionTask:
        return _with_pairs(recipe)
    tokenizer = train_tokenizer(recipe.tokenizer, texts_for_tokenizer(recipe.data))
    characters = tokens = counted = 0
    for text in texts_for_tokenizer(recipe.data):
        characters += len(text)
        if counted < MOST_CHARACTERS:
            tokens += len(tokenizer.encode(text))
            counted += len(text)
    recipe = recipe.with_vocabulary(tokenizer.vocab_size)
    return recipe, Text(recipe, length, length, round(tokens * characters / max(1, counted)))


def _with_task(recipe: Recipe) -> tuple[Recipe, Text]:
    """The same of what is small enough to be read whole: its own batches are measured."""
    with temporary_task(recipe) as task:
        return task.recipe, Text(task.recipe, task.length, task.length, task.elements, task)


def _with_pairs(recipe: Recipe) -> tuple[Recipe, Text]:
    """The same of pairs: the mean lengths of the first of them, and how many target tokens there
    are."""
    tokenizer = make_tokenizers(recipe)
    own = None if tokenizer.shared else tokenizer.source.vocab_size
    lengths: list[tuple[int, int]] = []
    n = 0
    for pair in pairs(recipe.data):
        if pair.split == "train":
            n += 1
            if len(lengths) < MOST_PAIRS:
                lengths.append(
                    (len(tokenizer.source_ids(pair.source)), len(tokenizer.target_ids(pair.target)))
                )
    source, target = (round(sum(side) / len(lengths)) for side in zip(*lengths, strict=True))
    recipe = recipe.with_vocabulary(tokenizer.target.vocab_size, own)
    return recipe, Text(recipe, target, source, n * target)


def _grouped(listed: list[Matrix]) -> list[tuple[str, int, Matrix]]:
    """Matrices of equal blocks as one line with their number."""

    def general(matrix: Matrix) -> str:
        parts = matrix.name.split(".")
        return ".".join("*" if part.isdigit() else part for part in parts)

    ordered = sorted(listed, key=general)
    first = {general(matrix): i for i, matrix in reversed(list(enumerate(listed)))}
    groups = {name: list(group) for name, group in groupby(ordered, general)}
    return [
        (
            f"{name} ({len(groups[name])})" if len(groups[name]) > 1 else name,
            len(groups[name]),
            groups[name][0],
        )
        for name in sorted(groups, key=lambda name: first[name])
    ]


def _size(n: int | float) -> str:
    for unit in ("B", "KB", "MB"):
        if n < 1000:
            return f"{n:,.0f} {unit}"
        n /= 1000
    return f"{n:,.1f} GB"
