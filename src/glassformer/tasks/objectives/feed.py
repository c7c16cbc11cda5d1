"""Feeds: the encoded training data of an objective as batches, a function of (seed, step).

windows, or examples with targets ──order──> rows of a step ──cut──> micro-batches of each process
"""

import hashlib
import json
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import cached_property
from itertools import chain
from typing import Any

import numpy as np
import torch

from glassformer.core.batch import IGNORE, Batch
from glassformer.core.errors import ConfigError, amount, plural
from glassformer.data.collate import Share, evaluation_windows, micro_batches, windows
from glassformer.data.example import Example
from glassformer.data.order import WindowOrder, spread
from glassformer.data.tokens import training_order
from glassformer.processors.inputs import Order, Sizes
from glassformer.tasks.evaluate import Evaluation

READ_WHOLE = 1 << 20
"""Tokens up to which all of a split are hashed."""


class Feed(ABC):
    """The batches of an objective's training data."""

    def __init__(self, objective: Any):
        self.objective, self.recipe = objective, objective.recipe
        self.processor = objective.processor

    @property
    @abstractmethod
    def length(self) -> int:
        """Elements of a typical training sequence."""
        ...

    @property
    @abstractmethod
    def elements(self) -> int:
        """Elements of all training data (of pairs, targets)."""
        ...

    @property
    def parts(self) -> int:
        """Number of which the sequences of a step are a multiple."""
        return 1

    @property
    def sequences(self) -> int:
        """Sequences in a step, about."""
        train, parts = self.recipe.train, self.parts
        if train.batch_tokens is None:
            return train.batch_size
        return max(1, train.batch_tokens // self.length // parts) * parts

    @property
    @abstractmethod
    def fingerprint(self) -> str:
        """Hash of the training data, 16 hex digits."""
        ...

    @property
    def validated(self) -> bool:
        """Whether there is a validation split."""
        return "validation" in self.objective.data

    @property
    @abstractmethod
    def size(self) -> str:
        """Amount of training data in a step, in words."""
        ...

    def check(self) -> None:
        """Raise DataError for data that are too small or too long to train on."""
        return

    @property
    def extent(self) -> str:
        """Amount of training data, in words."""
        return f"{self.elements:,} {plural(self.processor.unit)}"

    @abstractmethod
    def opening(self) -> list[str]:
        """Sentences on the data."""
        ...

    @abstractmethod
    def share(self, step: int, rank: int = 0, count: int = 1) -> Share:
        """The micro-batches of a step that process `rank` of `count` computes, a function of (seed,
        step, rank, count); together those of all processes are the same for any `count`."""
        ...

    @abstractmethod
    def batches_to_score(self, split: str, of: Evaluation, longest: int) -> Iterator[Batch]:
        """Yield the batches of a split that an evaluation scores, for a model of this length."""

    def batches(self, step: int) -> list[Batch]:
        """All micro-batches of a step."""
        return self.share(step).batches


class WindowFeed(Feed):
    """Windows of running text."""

    @property
    def length(self) -> int:
        """See `Feed`: that of a window."""
        return self.recipe.train.length or self.recipe.model.max_length

    @property
    def elements(self) -> int:
        """See `Feed`: tokens."""
        return len(self.objective.split("train").tokens)

    @property
    def parts(self) -> int:
        """See `Feed`: micro-batches have one size."""
        return self.recipe.train.micro_batches

    @property
    def validated(self) -> bool:
        """See `Feed`: at least one token must have another before it."""
        return super().validated and len(self.objective.data["validation"].tokens) >= 2

    @property
    def size(self) -> str:
        """See `Feed`: sequences and their tokens."""
        return f"{self.sequences} x {self.length} tokens"

    def check(self) -> None:
        """Raise DataError for less text than one training sequence needs."""
        _ = self.order

    def batches_to_score(self, split: str, of: Evaluation, longest: int) -> Iterator[Batch]:
        """See `Feed`: windows."""
        rows = of.rows or max(1, 4096 // longest)
        yield from evaluation_windows(self.objective.split(split), rows, longest, of.limit)

    def n_bytes(self, split: str) -> int:
        """Return the number of UTF-8 bytes of the text of a split."""
        return self.objective.split(split).n_bytes

    @property
    def fingerprint(self) -> str:
        """See `Feed`: of tokens spread over the text."""
        data = self.objective.data
        counts = {name: len(data[name].tokens) for name in sorted(data)}
        seen = hashlib.sha256(json.dumps(counts).encode())
        for name in counts:
            tokens = data[name].tokens
            seen.update(tokens[:: len(tokens) // READ_WHOLE + 1].tobytes())
        return seen.hexdigest()[:16]

    def opening(self) -> list[str]:
        """See `Feed`: also how often the text is seen."""
        tokens, steps = self.elements, self.recipe.train.steps
        per_step = self.sequences * self.length
        return [
            *self.processor.description(),
            f"{tokens:,} training tokens, {per_step:,} per step, {steps:,} steps = "
            f"{steps * per_step / max(1, tokens):.1f} epochs",
        ]

    @cached_property
    def order(self) -> WindowOrder:
        """The first elements of the windows of each step; DataError: less text than a window."""
        seed = self.recipe.train.seed
        return training_order(self.objective.split("train"), self.length, self.sequences, seed)

    def share(self, step: int, rank: int = 0, count: int = 1) -> Share:
        """See `Feed`: windows."""
        rows, parts = self.order.rows(step), self.recipe.train.micro_batches
        pieces = micro_batches(rows, parts, rank, count)
        batches = [windows(self.objective.split("train"), own, self.length) for own in pieces.rows]
        return Share(batches, pieces.first, pieces.idle)


class ExampleFeed(Feed):
    """Examples with their targets."""

    @cached_property
    def order(self) -> Order:
        """The sequences in the batch of each step."""
        objective, train = self.objective, self.recipe.train
        longest = train.length or self.recipe.model.max_length
        sizes = Sizes(
            train.batch_size, train.batch_tokens, longest, train.seed, objective.share_prefix
        )
        return self.processor.order(objective.training, objective.lengths, sizes)

    def share(self, step: int, rank: int = 0, count: int = 1) -> Share:
        """See `Feed`: examples."""
        rows, parts = self.order.rows(step), self.recipe.train.micro_batches
        pieces = micro_batches(np.arange(len(rows)), parts, rank, count)
        own = [[rows[i] for i in piece] for piece in pieces.rows]
        numbers = [i for piece in own for row in piece for i in row]
        made = self.objective.examples(self.objective.training, numbers, step) if numbers else ()
        examples = iter(made)
        filled = [[[next(examples) for _ in row] for row in piece] for piece in own]
        return Share([self.objective.collate(piece) for piece in filled], pieces.first, pieces.idle)

    @property
    def size(self) -> str:
        """See `Feed`: inputs, or elements."""
        train = self.recipe.train
        if train.batch_tokens is None:
            return f"{train.batch_size} {self.processor.noun}s"
        return f"at most {train.batch_tokens:,} {plural(self.processor.unit)}"

    def batches_to_score(self, split: str, of: Evaluation, longest: int) -> Iterator[Batch]:
        """See `Feed`: inputs of like length together."""
        inputs = self.objective.split(split)
        groups = inputs.groups(longest)
        for number in spread(len(groups), of.limit):
            yield from self.collate_examples(self.objective.examples(inputs, groups[number]))

    def collate_examples(self, examples: Sequence[Example]) -> Iterator[Batch]:
        """Yield the batches of examples for their scores."""
        yield self.objective.collate([[one] for one in examples])

    @property
    def length(self) -> int:
        """See `Feed`: the mean."""
        return max(1, round(self.elements / len(self.objective.lengths)))

    @property
    def elements(self) -> int:
        """See `Feed`: a prefix that is read once counts once."""
        objective = self.objective
        return objective.training.count(objective.lengths, objective.share_prefix)

    @property
    def fingerprint(self) -> str:
        """See `Feed`: of inputs and targets."""
        columns = (
            np.asarray(value) for target in self.objective.targets for value in target.values()
        )
        seen = hashlib.sha256()
        read = self.objective.training.fingerprint()
        for part in chain(read, (column.tobytes() for column in columns)):
            seen.update(part + b"|")
        return seen.hexdigest()[:16]

    @property
    def extent(self) -> str:
        """See `Feed`: also the number of inputs."""
        return f"{len(self.objective.lengths):,} training {self.processor.noun}s, {super().extent}"

    def opening(self) -> list[str]:
        """See `Feed`: also how often the sequences are seen, and what could not be read."""
        order, steps, data = self.order, self.recipe.train.steps, self.objective.data
        clipped = sum(of.clipped for of in data.values())
        long = f"{amount(clipped, 'recording')} longer than a clip: what is beyond it is not heard"
        return [
            *self.processor.description(),
            f"{self.extent}, {order.batches:,} batches an epoch, {steps:,} steps = "
            f"{steps / order.batches:.1f} epochs",
            *([long] if clipped else []),
            *(
                f"left out: {amount(len(of.skipped), 'file')} of {name} that cannot be read, the "
                f"first: {of.skipped[0]}"
                for name, of in data.items()
                if of.skipped
            ),
        ]


def with_next_tokens(batch: Batch, longest: int) -> Batch:
    """Return a batch with the next tokens as targets; ConfigError: it has one token, or too many
    for a model."""
    if not 2 <= (n := batch.elements.shape[1]) <= longest:
        raise ConfigError(
            f"The text has {amount(n, 'token')}; between 2 and the context of {longest} are needed."
        )
    targets = torch.nn.functional.pad(batch.elements[:, 1:], (0, 1), value=IGNORE)
    return replace(batch, targets=targets)
