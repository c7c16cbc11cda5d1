"""What tasks on single examples share (tagging, classification): packed batches in an order that is
a function of the step, and which classes there are.
"""

import hashlib
from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any, Generic, Protocol, TypeVar

import numpy as np
import torch

from glassformer.axes import Float, Tensor
from glassformer.batch import Batch
from glassformer.data.collate import micro_batches, packed
from glassformer.data.example import Example
from glassformer.data.order import PackedOrder
from glassformer.errors import ConfigError, DataError, suggest
from glassformer.models.transformer import Transformer
from glassformer.recipe.recipe import Recipe
from glassformer.recipe.train import TrainConfig
from glassformer.tasks.task import Card
from glassformer.tokenizers.piece_dropout import PieceDropout
from glassformer.tokenizers.text import Tokenizer

LARGEST_TABLE = 100
"""Classes beyond which no confusion matrix is kept."""


class InSplit(Protocol):
    """Something that belongs to a split."""

    @property
    def split(self) -> str:
        """train, validation or test."""
        ...


One = TypeVar("One", bound=InSplit)


def by_split(examples: Iterable[One]) -> dict[str, list[One]]:
    """All examples, those of each split together."""
    found: dict[str, list[One]] = {}
    for example in examples:
        found.setdefault(example.split, []).append(example)
    return found


def split_of(splits: dict[str, list[One]], name: str) -> list[One]:
    """One of the splits; DataError if there is nothing in it."""
    if name not in splits and name == "train":
        raise DataError("there are no training examples; give more of them, or hold out fewer")
    if name not in splits:
        raise DataError(
            f"there are no {name} examples; set data.{name}_path or data.{name}_fraction "
            f"(there is {', '.join(splits)})"
        )
    return splits[name]


class ExampleBatches:
    """The training examples and each step's batch: at most `batch_tokens` elements, padding
    included.

    Without it they are as many as `batch_size` examples have on average, so that padding takes the
    place of some. With `cut` an example has other pieces at each step, as long as they are at most
    `longest`; how many fit into a batch is still counted by those that it has.
    """

    def __init__(
        self,
        examples: Sequence[Example],
        train: TrainConfig,
        cut: PieceDropout | None = None,
        longest: int = 0,
    ):
        self.examples, self._parts, self._cut, self._longest = (
            examples,
            train.micro_batches,
            cut,
            longest,
        )
        lengths = np.array([len(example.ids) for example in examples], np.int64)
        tokens = train.batch_tokens or max(1, round(train.batch_size * float(lengths.mean())))
        self.order = PackedOrder(lengths, tokens, train.seed)
        self.elements = int(lengths.sum())

    def batches(self, step: int) -> list[Batch]:
        """The parts of a step's batch; of fewer rows than micro-batches there are fewer parts."""
        rows = self.order.rows(step)
        examples = (
            self.examples
            if self._cut is None
            else {i: self._recut(i, step) for row in rows for i in row}
        )
        parts = micro_batches(np.arange(len(rows)), self._parts)
        return [packed(examples, [rows[i] for i in part]) for part in parts]

    def _recut(self, number: int, step: int) -> Example:
        assert self._cut is not None
        example = self.examples[number]
        new = self._cut(example.ids, step, number)
        if len(new.ids) > self._longest:
            return example
        at = None if example.at is None else new.ends(example.at)
        return Example(
            new.ids,
            example.targets,
            at,
            None if example.token_type_ids is None else new.spread(example.token_type_ids),
        )

    def described(self, steps: int, noun: str) -> str:
        """How many examples there are and how often they are seen."""
        order = self.order
        return (
            f"{len(self.examples):,} training {noun}, {self.elements:,} elements, "
            f"{order.batches:,} batches an epoch "
            f"({order.padding:.0%} padding), {steps:,} steps = {steps / order.batches:.1f} epochs"
        )

    def counts(self, n_classes: int) -> np.ndarray:
        """How often each class is a target, int64 [C]."""
        targets = np.concatenate(
            [example.targets for example in self.examples if example.targets is not None]
        )
        return np.bincount(targets, minlength=n_classes) if targets.ndim == 1 else targets.sum(0)

    def fingerprint(self) -> str:
        """What the examples are, in 16 hex digits."""
        seen = hashlib.sha256()
        for example in self.examples:
            for part in (example.ids, example.at, example.targets, example.token_type_ids):
                if part is not None:
                    seen.update(part.tobytes() + b"|")
        return seen.hexdigest()[:16]


def class_names(model: Transformer) -> tuple[str, ...]:
    """The names of a model's classes; ConfigError if it has none."""
    if not model.config.classes:
        raise ConfigError(
            "The model has no names for its classes, so nothing can be held against it; train "
            "it here."
        )
    return model.config.classes


class Classes:
    """The classes of a task and their numbers."""

    def __init__(self, names: Sequence[str]):
        self.names = tuple(names)
        self._numbers = {name: i for i, name in enumerate(names)}

    def numbers(self, labels: Iterable[str]) -> np.ndarray:
        """The number of each label, int64; -1 for one that is none of the classes."""
        return np.array([self._numbers.get(label, -1) for label in labels], np.int64)

    def check(self, labels: Iterable[str], where: str) -> None:
        """Raise DataError for a label that is none of the classes."""
        for label in labels:
            if label not in self._numbers:
                raise DataError(
                    f"{where} has the class {label!r}, which model.classes lacks; "
                    f"{self.like(label)}"
                )

    def like(self, label: str) -> str:
        """The tail of a sentence: which classes are spelled alike."""
        return suggest(label, self.names)

    def weights(
        self, counts: np.ndarray, asked: str | dict[str, float]
    ) -> Float[Tensor, "C"] | None:
        """The weight of each class in the loss, 1 on average over the training targets; None: all
        alike.

        `balanced` is in proportion to 1 / counts. ConfigError: a weight for something that is no
        class, or below 0, or none above 0.
        """
        if asked == "none":
            return None
        if isinstance(asked, dict):
            for name, weight in asked.items():
                if name not in self._numbers:
                    raise ConfigError(
                        f"train.class_weights has {name!r}, which is no class; {self.like(name)}"
                    )
                if weight < 0:
                    raise ConfigError(
                        f"train.class_weights has {weight} for {name!r}; give 0 or more."
                    )
            weights = np.array([asked.get(name, 1.0) for name in self.names], np.float64)
        else:
            weights = 1 / np.maximum(counts, 1)
        if not weights @ counts:
            raise ConfigError(
                "train.class_weights are 0 for every class that occurs; give one of them more."
            )
        return torch.tensor(weights * counts.sum() / (weights @ counts), dtype=torch.float32)


class ExampleTask(ABC, Generic[One]):
    """What tagging and classification have in common: their data are single examples with classes
    (see `Task`)."""

    recipe: Recipe
    tokenizer: Tokenizer
    classes: Classes
    _run: Path
    _splits: dict[str, list[One]]

    def split(self, name: str) -> list[One]:
        """What belongs to a split; DataError if there is nothing."""
        return split_of(self._splits, name)

    @abstractmethod
    def _examples(self) -> list[Example]:
        """The training split as it is fed."""
        ...

    @abstractmethod
    def split_scores(
        self, model: Transformer, split: str, precision: torch.dtype = torch.float32
    ) -> dict[str, Any]:
        """Scores of a whole split by its name."""
        ...

    @cached_property
    def _batches(self) -> ExampleBatches:
        train = self.recipe.train
        cut = (
            PieceDropout(self.tokenizer, train.piece_dropout, train.seed)
            if train.piece_dropout
            else None
        )
        return ExampleBatches(
            self._examples(), train, cut, train.length or self.recipe.model.max_length
        )

    @cached_property
    def _weights(self) -> Float[Tensor, "C"] | None:
        return self.classes.weights(
            self._batches.counts(len(self.classes.names)), self.recipe.train.class_weights
        )

    def weights(self, device: torch.device) -> Float[Tensor, "C"] | None:
        """The weight of each class in the loss, on a device; None: all alike."""
        return None if self._weights is None else self._weights.to(device)

    @property
    def length(self) -> int:
        """See `Task`: the mean example's."""
        return max(1, round(self._batches.elements / len(self._batches.examples)))

    @property
    def elements(self) -> int:
        """See `Task`."""
        return self._batches.elements

    @property
    def fingerprint(self) -> str:
        """See `Task`."""
        return self._batches.fingerprint()

    @property
    def validated(self) -> bool:
        """See `Task`."""
        return "validation" in self._splits

    def batches(self, step: int) -> list[Batch]:
        """See `Task`."""
        return self._batches.batches(step)

    def scores(self, model: Transformer, precision: torch.dtype) -> dict[str, Any] | None:
        """See `Task`."""
        return self.split_scores(model, "validation", precision) if self.validated else None

    def excerpt(self, batch: Batch) -> str:
        """See `Task`."""
        return self.tokenizer.decode(batch.elements[0, :24].tolist())

    def card_of(self, pipeline_tag: str, noun: str, use: str) -> Card:
        """What the model card says of a task on examples of this noun."""
        train = self.recipe.train
        step = (
            f"{train.batch_size} {noun}"
            if train.batch_tokens is None
            else f"{train.batch_tokens:,} elements"
        )
        return Card(
            pipeline_tag, f"{self.tokenizer.kind}, {self.tokenizer.vocab_size:,} tokens", step, use
        )
