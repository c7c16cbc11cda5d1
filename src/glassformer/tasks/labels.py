"""Base of tasks that predict classes: the classes, their weights in the loss, and scores."""

from abc import abstractmethod
from collections import Counter
from collections.abc import Callable, Sequence
from functools import cached_property
from typing import Any

import numpy as np
import torch

from glassformer.core.axes import Float, Tensor
from glassformer.core.errors import ConfigError, amount
from glassformer.layers.losses import LossSum, cross_entropy
from glassformer.metrics.baselines import Scores
from glassformer.metrics.worst import Worst
from glassformer.models.transformer import Transformer
from glassformer.tasks.classes import Classes
from glassformer.tasks.evaluate import Evaluation
from glassformer.tasks.records import RecordTask

LARGEST_TABLE = 100
"""Classes beyond which no confusion matrix is kept."""


class LabelTask(RecordTask):
    """Classes of inputs, or of their words."""

    @abstractmethod
    def counts(self) -> np.ndarray:
        """How often each class is a training target, int64 [C]."""
        ...

    @cached_property
    def classes(self) -> Classes:
        """The classes of the model."""
        return Classes(self.recipe.model.classes)

    @cached_property
    def weights(self) -> Float[Tensor, "C"] | None:
        """The weight of each class in the loss; None: all equal."""
        return self.classes.weights(self.counts(), self.recipe.train.class_weights)

    def loss(self, logits: torch.Tensor, targets: torch.Tensor) -> LossSum:
        """See `Task`: targets are weighted by their class."""
        weights = None if self.weights is None else self.weights.to(logits.device)
        return cross_entropy(logits, targets, self.recipe.train.label_smoothing, weights)

    def scored(self, split: str, of: Evaluation) -> list[Any]:
        """The records of a split that an evaluation scores."""
        every = self.split(split).records
        return [every[i] for i in of.records(len(every))]

    def baselines(
        self, split: str, of: Evaluation, train: Callable[[], Sequence[Any]]
    ) -> dict[str, Any]:
        """See `Task`; compared by the score that chooses the best model, or if that is the loss, by
        `main_metric`."""
        best = self.recipe.train.evaluate.best
        metric = self.main_metric if best == "loss" else best
        return {"metric": metric, "scores": self.baseline_scores(train(), self.scored(split, of))}

    @property
    @abstractmethod
    def main_metric(self) -> str:
        """The score by which models are usually compared."""
        ...

    @abstractmethod
    def baseline_scores(self, train: Sequence[Any], asked: Sequence[Any]) -> Scores:
        """The scores of baselines that learn from the first records, on the others."""
        ...

    def outcomes(self) -> tuple[str, ...]:
        """See `Task`."""
        return self.recipe.model.class_names

    def target_name(self, index: int) -> str:
        """See `Task`."""
        return self.outcomes()[index]

    def long_inputs(self) -> list[str]:
        """A sentence on inputs longer than the model, if there are any."""
        if not (long := int((np.bincount(self.training.owner) > 1).sum())):
            return []
        noun = amount(long, self.processor.noun)
        return [f"{noun} longer than the model are read by overlapping windows"]


class LabelScores:
    """Loss, unseen classes and worst inputs of a split, gathered input by input.

    ConfigError: the model has no names for its classes.
    """

    def __init__(self, model: Transformer):
        self.names = model.config.classes
        if not self.names:
            raise ConfigError(
                "The model has no names for its classes, so nothing can be held against it; train "
                "it here."
            )
        self._classes, self._worst, self._unseen = Classes(self.names), Worst(), Counter[str]()
        self._nats, self._known = 0.0, 0

    def gold(self, labels: Sequence[str]) -> np.ndarray:
        """The number of each label, int64; -1 for an unseen class, which is counted."""
        numbers = self._classes.numbers(labels)
        pairs = zip(labels, numbers.tolist(), strict=True)
        self._unseen.update(label for label, number in pairs if number < 0)
        return numbers

    def add(self, nats: float, known: int, hardness: float, shown: dict[str, Any]) -> None:
        """Add the loss of an input, summed over targets whose class is known."""
        self._nats, self._known = self._nats + nats, self._known + known
        self._worst.add(hardness, shown)

    def result(
        self,
        scores: dict[str, Any],
        table: list[dict[str, Any]],
        confusion: list[list[int]] | None,
        **others: Any,
    ) -> dict[str, Any]:
        """`loss`, scores, a table by class, confusions, the worst inputs, unseen classes."""
        few = confusion is not None and len(self.names) <= LARGEST_TABLE
        return {
            "loss": self._nats / max(1, self._known),
            **scores,
            "table": table,
            **({"confusion": {"names": list(self.names), "counts": confusion}} if few else {}),
            **others,
            "worst": self._worst.rows(),
            **({"unseen_classes": dict(self._unseen)} if self._unseen else {}),
        }
