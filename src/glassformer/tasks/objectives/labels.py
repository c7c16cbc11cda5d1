"""Base of objectives of classes: the classes, their weights in the loss, checks, and scores."""

import re
from abc import abstractmethod
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from functools import cached_property
from typing import Any

import numpy as np
import torch

from glassformer.core.axes import Float, Tensor
from glassformer.core.errors import ConfigError, DataError, suggest
from glassformer.data.records.labelled import Labelled
from glassformer.layers.losses import LossSum, cross_entropy
from glassformer.metrics.baselines import Scores
from glassformer.metrics.worst import Worst
from glassformer.models.transformer import Transformer
from glassformer.tasks.evaluate import Evaluation
from glassformer.tasks.objectives.examples import ExampleObjective

LARGEST_TABLE = 100
"""Classes beyond which no confusion matrix is kept."""
FEW_IDS = 10
"""Training inputs from which on almost one class for each of them is refused."""
MOST_DISTINCT = 0.8
"""Classes for each training input that are still believed."""
NUMBER = re.compile(r"[+-]?(\d+([.,]\d*)?|[.,]\d+|inf(inity)?)(e[+-]?\d+)?", re.IGNORECASE)
WHOLE = re.compile(r"[+-]?\d+")
SEPARATORS = ";,|"
"""Usual separators of several classes in a cell."""


class Classes:
    """The classes of a task and their numbers."""

    def __init__(self, names: Sequence[str]):
        self.names = tuple(names)
        self._numbers = {name: i for i, name in enumerate(names)}

    def numbers(self, labels: Iterable[str]) -> np.ndarray:
        """The number of each label, int64; -1 for an unknown class."""
        return np.array([self._numbers.get(label, -1) for label in labels], np.int64)

    def check(self, labels: Iterable[str], where: str) -> None:
        """Raise DataError for an unknown class."""
        for label in labels:
            if label not in self._numbers:
                known = suggest(label, self.names)
                raise DataError(
                    f"{where} has the class {label!r}, which model.classes lacks; {known}"
                )

    def check_some_known(self, labels: Iterable[str], split: str) -> None:
        """Raise DataError if the inputs of a split have classes, and none that the model knows."""
        if (found := set(labels)) and found.isdisjoint(self.names):
            theirs, known = (", ".join(sorted(some)[:3]) for some in (found, self.names))
            raise DataError(
                f"no class of the {split} data (such as {theirs}) is known to the model (which has "
                f"{known} and the like); check data.{split} and its fields"
            )

    def weights(
        self, counts: np.ndarray, asked: str | dict[str, float]
    ) -> Float[Tensor, "C"] | None:
        """Weight of each class in the loss, 1 on average over training targets; None: all equal.

        `balanced` is proportional to 1 / counts. ConfigError: a weight of an unknown class, or
        below 0, or none above 0.
        """
        if asked == "none":
            return None
        if isinstance(asked, dict):
            for name, weight in asked.items():
                if name not in self._numbers:
                    raise ConfigError(
                        f"train.class_weights has {name!r}, which is no class; "
                        f"{suggest(name, self.names)}"
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


class LabelObjective(ExampleObjective):
    """Classes of inputs, or of their words."""

    @abstractmethod
    def counts(self) -> np.ndarray:
        """Number of training targets of each class, int64 [C]."""
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
        """See `Objective`: targets are weighted by their class."""
        weights = None if self.weights is None else self.weights.to(logits.device)
        return cross_entropy(logits, targets, self.recipe.train.label_smoothing, weights)

    def baselines(
        self, split: str, of: Evaluation, train: Callable[[], Sequence[Any]]
    ) -> dict[str, Any]:
        """See `Objective`; compared by the score that chooses the best model, or by
        `main_metric` if that is the loss."""
        best = self.recipe.train.evaluate.best
        metric = self.main_metric if best == "loss" else best
        return {
            "metric": metric,
            "scores": self.baseline_scores(train(), self.records_to_score(split, of)),
        }

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
        """Names of the classes, in the order of the logits."""
        return self.recipe.model.class_names

    def target_name(self, index: int) -> str:
        """The name of a class."""
        return self.outcomes()[index]


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
        """The number of each label, int64; -1 for an unseen class, whose number grows."""
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


def check_sides(records: Sequence[Any], classes: int) -> None:
    """Raise DataError for many more classes than different texts: the columns are swapped."""
    texts = {(record.text, record.pair) for record in records if isinstance(record, Labelled)}
    if len(records) >= FEW_IDS and 0 < 2 * len(texts) < classes:
        raise DataError(
            f"the {len(records):,} training texts are {len(texts):,} different ones of "
            f"{classes:,} classes; swap data.text_field and data.label_field"
        )


def labels_of(record: Any) -> tuple[str, ...]:
    """The classes of a record; a row of parts without any has its target as its class."""
    target = getattr(record, "target", None)
    return record.labels or (() if target is None else (target,))


def check_labels(record: Any, multi: bool) -> None:
    """Raise DataError unless a record has one class, or may have several."""
    if (n := len(labels_of(record))) != 1 and not multi:
        raise DataError(
            f"{record.where} has {n} classes, not one; mend it or set model.multi_label=true"
        )


def check_counts(counts: Counter[str], noun: str, multi: bool) -> None:
    """Check the classes of the training inputs, with the number of each.

    DataError: only one class, almost one for each input, decimals, or several in one name.
    """
    if len(counts) < 2 and not multi:
        raise DataError(
            f"every training {noun} is of the class {', '.join(counts)!r}; give {noun}s of at "
            "least two classes"
        )
    few = ", ".join(map(repr, sorted(counts)[:3]))
    if counts.total() >= FEW_IDS and len(counts) > MOST_DISTINCT * counts.total():
        raise DataError(
            f"the {counts.total():,} training {noun}s have {len(counts):,} different classes "
            f"({few}, ...), as row numbers or texts would; set data.label_field to the classes"
        )
    if (
        len(counts) > 2
        and all(map(NUMBER.fullmatch, counts))
        and not all(map(WHOLE.fullmatch, counts))
    ):
        raise DataError(
            f"the classes are {len(counts):,} numbers with decimals ({few}, ...), which only a "
            "regression predicts; write ranges of them as words, for example low and high"
        )
    joined = ((name, mark) for name in counts for mark in SEPARATORS if mark in name)
    if multi and (found := next((j for j in joined if counts.keys() & j[0].split(j[1])), None)):
        raise DataError(
            f"the class {found[0]!r} has another class in it and a {found[1]!r}; set "
            f"data.label_separator={found[1]!r}, at which the classes of a {noun} are cut"
        )
