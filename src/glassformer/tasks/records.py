"""Tasks on single records: training batches from encoded inputs and their targets."""

import hashlib
from collections.abc import Sequence
from dataclasses import replace
from functools import cached_property
from itertools import chain
from typing import Any

import numpy as np

from glassformer.core.batch import Batch
from glassformer.core.errors import amount, plural
from glassformer.data.collate import Share, micro_batches
from glassformer.data.example import Example
from glassformer.processors.inputs import Inputs, Order, Sizes
from glassformer.tasks.task import Card, Task


def merged(examples: Sequence[Example], targets: Sequence[dict[str, Any]]) -> list[Example]:
    """Examples with their targets."""
    return [replace(e, **t) if t else e for e, t in zip(examples, targets, strict=True)]


class RecordTask(Task):
    """A task whose training data are examples in an order that is a function of (seed, step)."""

    def target(self, record: Any, units: slice) -> dict[str, Any]:
        """Targets of a sequence with these units of a record, as fields of an example; {}: examples
        have them."""
        return {}

    share_prefix: bool = False
    """Whether examples with the same first elements may be read in one row."""

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
        return merged(self.training.examples(numbers, step), [self.targets[i] for i in numbers])

    @cached_property
    def lengths(self) -> np.ndarray:
        """Elements of each training sequence, its answer among them."""
        return self.training.lengths

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

    def share(self, step: int, rank: int = 0, count: int = 1) -> Share:
        """See `Task`."""
        rows, parts = self.order.rows(step), self.recipe.train.micro_batches
        pieces = micro_batches(np.arange(len(rows)), parts, rank, count)
        own = [[rows[i] for i in piece] for piece in pieces.rows]
        numbers = [i for piece in own for row in piece for i in row]
        examples = iter(self.with_targets(numbers, step) if numbers else ())
        filled = [[[next(examples) for _ in row] for row in piece] for piece in own]
        return Share([self.collate(piece) for piece in filled], pieces.first, pieces.idle)

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
        seen = hashlib.sha256()
        for part in chain(self.training.fingerprint(), (column.tobytes() for column in columns)):
            seen.update(part + b"|")
        return seen.hexdigest()[:16]

    @property
    def extent(self) -> str:
        """See `Task`."""
        return f"{len(self.lengths):,} training {self.processor.noun}s, {super().extent}"

    def opening(self) -> list[str]:
        """See `Task`: how many training sequences there are, and how often they are seen."""
        order, steps = self.order, self.recipe.train.steps
        clipped = sum(of.clipped for of in self.data.values())
        long = f"{amount(clipped, 'recording')} longer than a clip: what is beyond it is not heard"
        return [
            *self.processor.description(),
            f"{self.extent}, {order.batches:,} batches an epoch, {steps:,} steps = "
            f"{steps / order.batches:.1f} epochs",
            *([long] if clipped else []),
            *(
                f"left out: {amount(len(of.skipped), 'file')} of {name} that cannot be read, the "
                f"first: {of.skipped[0]}"
                for name, of in self.data.items()
                if of.skipped
            ),
        ]

    def samples(self, n: int) -> tuple[list[Any], list[Any]]:
        """The first `n` records to show, and the same as inputs of requests."""
        records = self.split(self.shown_split).records[:n]
        return records, [one for record in records for one in self.processor.request_of(record)]

    @property
    def use(self) -> str:
        """A command that uses the model."""
        return f"glassformer {self.verb} {self.folder} < lines"

    def card(self) -> Card:
        """See `Task`."""
        train, noun = self.recipe.train, f"{self.processor.noun}s"
        size = f"{train.batch_size} {noun}"
        if train.batch_tokens is not None:
            size = f"at most {train.batch_tokens:,} {plural(self.processor.unit)}"
        read = "; ".join(self.processor.description()).removeprefix("tokenizer: ")
        reads = "Tokenizer" if self.processor.elements == "tokens" else noun.capitalize()
        return Card(read, size, f"{self.use}\nglassformer evaluate {self.folder}", reads)
