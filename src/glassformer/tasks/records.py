"""Tasks on single records: training batches from encoded inputs and their targets."""

from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import replace
from functools import cached_property
from typing import Any

import numpy as np

from glassformer.batch import Batch
from glassformer.data.collate import micro_batch
from glassformer.data.example import Example
from glassformer.errors import counted, plural
from glassformer.processors.inputs import Inputs, Order, Sizes
from glassformer.recipe.recipe import Recipe
from glassformer.tasks.task import Card, Task, fingerprint_of


def with_vocabulary(recipe: Recipe, processor: Any) -> Recipe:
    """The recipe with the vocabulary of its inputs; patches have none."""
    if processor.elements != "tokens":
        return recipe
    return recipe.with_vocabulary(processor.tokenizer.vocab_size)


class RecordTask(Task):
    """A task whose training data are examples in an order that is a function of (seed, step)."""

    @abstractmethod
    def target(self, record: Any, units: slice) -> dict[str, Any]:
        """What is to be predicted of a sequence that answers for these units of a record, as fields
        of an example."""
        ...

    @cached_property
    def training(self) -> Inputs:
        """The training inputs."""
        return self.split("train")

    @cached_property
    def targets(self) -> list[dict[str, Any]]:
        """The target of each training sequence."""
        return self.targets_of(self.training, range(len(self.training.owner)))

    def targets_of(self, inputs: Inputs, numbers: Sequence[int]) -> list[dict[str, Any]]:
        """The targets of some sequences."""
        owner, records = inputs.owner, inputs.records
        return [self.target(records[int(owner[i])], inputs.units(i)) for i in numbers]

    def with_targets(self, numbers: Sequence[int], step: int) -> list[Example]:
        """Training examples with their targets."""
        examples = self.training.examples(numbers, step)
        own = [self.targets[i] for i in numbers]
        return [replace(e, **t) if t else e for e, t in zip(examples, own, strict=True)]

    @cached_property
    def lengths(self) -> np.ndarray:
        """Elements of each training sequence, its answer among them."""
        return self.training.lengths

    @property
    def share_prefix(self) -> bool:
        """Whether examples with the same first elements may be read in one row."""
        return False

    @cached_property
    def order(self) -> Order:
        """Which sequences are in the batch of each step."""
        train = self.recipe.train
        longest = train.length or self.recipe.model.max_length
        sizes = Sizes(train.batch_size, train.batch_tokens, longest, train.seed, self.share_prefix)
        return self.processor.order(self.training, self.lengths, sizes)

    def collate(self, rows: Sequence[Sequence[Example]]) -> Batch:
        """The batch of these rows of examples."""
        return self.processor.collate(rows)

    def batches(self, step: int) -> list[Batch]:
        """See `Task`; a batch of fewer rows than micro-batches has fewer of them."""
        rows, parts = self.order.rows(step), self.recipe.train.micro_batches
        examples = iter(self.with_targets([i for row in rows for i in row], step))
        filled = [[next(examples) for _ in row] for row in rows]
        pieces = (micro_batch(np.arange(len(rows)), i, parts) for i in range(parts))
        return [self.collate([filled[i] for i in piece]) for piece in pieces if len(piece)]

    @property
    def length(self) -> int:
        """See `Task`: the mean."""
        return max(1, round(self.elements / len(self.lengths)))

    @property
    def elements(self) -> int:
        """See `Task`."""
        return int(self.lengths.sum())

    @property
    def sequences(self) -> int:
        """See `Task`."""
        train = self.recipe.train
        if train.batch_tokens is None:
            return train.batch_size
        return max(1, train.batch_tokens // self.length)

    @property
    def fingerprint(self) -> str:
        """See `Task`."""
        columns = (np.asarray(value) for target in self.targets for value in target.values())
        return fingerprint_of(self.training, (column.tobytes() for column in columns))

    def data_sentences(self) -> list[str]:
        """How many training sequences there are, and how often they are seen."""
        order, steps, n = self.order, self.recipe.train.steps, len(self.lengths)
        units = plural(self.processor.unit)
        padding = f" ({order.padding:.0%} padding)" if order.padding else ""
        return [
            *self.processor.description(),
            f"{n:,} training {self.processor.noun}s, {self.elements:,} {units}, "
            f"{order.batches:,} batches an epoch{padding}, {steps:,} steps = "
            f"{steps / order.batches:.1f} epochs",
            *self._skipped(),
        ]

    def _skipped(self) -> list[str]:
        return [
            f"left out: {counted(len(inputs.skipped), 'file')} of {name} that cannot be read, the "
            f"first: {inputs.skipped[0]}"
            for name, inputs in self.data.items()
            if inputs.skipped
        ]

    def card_of(self, use: str) -> Card:
        """A model card's lines."""
        train, noun = self.recipe.train, f"{self.processor.noun}s"
        size = f"{train.batch_size} {noun}"
        if train.batch_tokens is not None:
            size = f"at most {train.batch_tokens:,} {plural(self.processor.unit)}"
        read = "; ".join(self.processor.description()).removeprefix("tokenizer: ")
        reads = "Tokenizer" if self.processor.elements == "tokens" else f"{noun.capitalize()}"
        return Card(read, size, f"{use}\nglassformer evaluate {self.folder}", reads)
