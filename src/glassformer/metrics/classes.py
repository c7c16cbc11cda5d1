"""Scores of predicted classes: one for each example, several, or one for each token; gathered batch
by batch.

Only counts are kept, no probabilities. A class is its index among the names. A gold index of -1
is a class that training never saw: nothing can predict it, so it is wrong, and it is counted as
`unseen`.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np

from glassformer.core.axes import Bool, Float, Int

BINS = 15


class Counts(NamedTuple):
    """Counts of a class: predicted rightly, predicted, and gold."""

    right: int
    predicted: int
    gold: int

    def ratios(self) -> dict[str, float]:
        """`precision` = right / predicted, `recall` = right / gold, and their harmonic mean `f1`,
        in [0, 1]."""
        right, predicted, gold = self  # a count of 0 has no right ones either
        return {
            "precision": right / max(1, predicted),
            "recall": right / max(1, gold),
            "f1": 2 * right / max(1, predicted + gold),
        }


def micro(classes: Iterable[Counts]) -> Counts:
    """The counts of all classes together."""
    return Counts(*map(sum, zip(Counts(0, 0, 0), *classes, strict=True)))


def macro_f1(classes: Iterable[Counts]) -> float:
    """The mean F1 of the classes that occur, as gold or as prediction; 0 if none does."""
    found = [c.ratios()["f1"] for c in classes if c.predicted or c.gold]
    return sum(found) / max(1, len(found))


class PerClass(ABC):
    """A score with counts of each class."""

    @abstractmethod
    def classes(self) -> dict[str, Counts]:
        """The counts of each class, tag or kind of spans."""

    def table(self) -> list[dict[str, Any]]:
        """A row for each class that occurs: `class`, `precision`, `recall`, `f1`, and `n`, how
        often it is gold."""
        return [
            {"class": name, **c.ratios(), "n": c.gold}
            for name, c in self.classes().items()
            if c.predicted or c.gold
        ]


class Calibration:
    """Shares of true statements by their probability, in equally wide bins (Guo et al. 2017)."""

    def __init__(self) -> None:
        self._sums = np.zeros((3, BINS))
        """Statements, true ones, and the sum of probabilities, in each bin."""

    def add(self, probabilities: Float[np.ndarray, "B"], so: Bool[np.ndarray, "B"]) -> None:
        """Count statements by their probability, and whether each was true."""
        bins = np.searchsorted(np.arange(1, BINS) / BINS, probabilities)  # (low, high]; 0 in first
        self._sums += [np.bincount(bins, weights, BINS) for weights in (None, so, probabilities)]

    def error(self) -> float:
        """The expected calibration error: |share of true ones - mean probability|, a mean over all
        statements."""
        n, so, probability = self._sums
        return float(np.abs(so - probability).sum() / max(1, n.sum()))

    def bins(self) -> list[dict[str, float]]:
        """A row for each bin that holds any: `low`, `high`, `n`, mean probability `confidence`,
        share of true ones `accuracy`."""
        return [
            {
                "low": i / BINS,
                "high": (i + 1) / BINS,
                "n": int(n),
                "confidence": p / n,
                "accuracy": so / n,
            }
            for i, (n, so, p) in enumerate(self._sums.T.tolist())
            if n
        ]


class TagScore(PerClass):
    """Tokens of one tag each: how often a tag was predicted for another."""

    def __init__(self, names: Sequence[str]):
        self._names = names
        self._counts = np.zeros((len(names) + 1, len(names)), np.int64)
        """[gold, predicted]; the last row: gold that training never saw."""

    def add(self, gold: Int[np.ndarray, "T"], predicted: Int[np.ndarray, "T"], /) -> None:
        """Count tokens; gold tags in [-1, C), `predicted` ones in [0, C)."""
        n = len(self._names)
        assert not len(gold) or (gold.min() >= -1 and gold.max() < n and predicted.min() >= 0), (
            "no index of a class"
        )
        np.add.at(self._counts, (gold, predicted), 1)

    def result(self) -> dict[str, float]:
        """`accuracy` and `macro_f1` (mean over tags that are gold or predicted somewhere), in [0,
        1]; the number of `tokens` and of those `unseen`."""
        total = int(self._counts.sum())
        return {
            "accuracy": int(np.trace(self._counts)) / max(1, total),
            "macro_f1": macro_f1(self.classes().values()),
            "tokens": total,
            "unseen": int(self._counts[-1].sum()),
        }

    def confusion(self) -> list[list[int]]:
        """Counts: a row for each gold tag that training saw, a column for each prediction."""
        return self._counts[:-1].tolist()

    def classes(self) -> dict[str, Counts]:
        """The counts of each tag."""
        counts = self._counts
        return _name(self._names, np.diagonal(counts), counts.sum(0), counts[:-1].sum(1))


class ClassScore(TagScore):
    """Examples of one class each, predicted as the most probable one."""

    def __init__(self, names: Sequence[str]):
        super().__init__(names)
        self.calibration = Calibration()
        """Of the most probable class."""

    def add(self, gold: Int[np.ndarray, "B"], probabilities: Float[np.ndarray, "B C"], /) -> None:
        """Count a batch: gold classes, and the probability of every class."""
        predicted = probabilities.argmax(1)
        super().add(gold, predicted)
        self.calibration.add(probabilities.max(1), predicted == gold)

    def result(self) -> dict[str, float]:
        """Return scores in [0, 1], and the number of `examples` and of those `unseen`.

        `accuracy` and `micro_f1` are the same here. `macro_f1` is the mean over classes that are
        gold or predicted. `ece` is the calibration error of the most probable class.
        """
        accuracy, macro, examples, unseen = super().result().values()
        return {
            "accuracy": accuracy,
            # every wrong one is predicted once too often and found once too rarely
            "micro_f1": accuracy,
            "macro_f1": macro,
            "ece": self.calibration.error(),
            "examples": examples,
            "unseen": unseen,
        }


class MultiLabelScore(PerClass):
    """Examples with any number of labels, each predicted if it is probable enough."""

    def __init__(self, names: Sequence[str]):
        self._names, self.calibration = names, Calibration()
        self._counts = np.zeros((3, len(names)), np.int64)
        """Labels that were predicted rightly, predicted, and gold."""
        self._examples = self._all_right = self._unseen = 0

    def add(
        self,
        gold: Bool[np.ndarray, "B C"],
        probabilities: Float[np.ndarray, "B C"],
        threshold: float = 0.5,
        unseen: Int[np.ndarray, "B"] | None = None,
    ) -> None:
        """Count a batch: the gold labels, their probabilities, and the least probability of a
        predicted label.

        `unseen`: number of further labels of each example, which training never saw.
        """
        predicted = probabilities >= threshold
        self._counts += [one.sum(0) for one in (gold & predicted, predicted, gold)]
        whole = (gold == predicted).all(1)
        if unseen is not None:
            whole &= unseen == 0
            self._unseen += int(unseen.sum())
        self._examples += len(gold)
        self._all_right += int(whole.sum())
        self.calibration.add(probabilities.ravel(), gold.ravel())

    def result(self) -> dict[str, float]:
        """Return scores in [0, 1], and the number of `examples` and of labels `unseen`.

        In `accuracy` all labels of an example must be right. `micro_f1` counts every label alike,
        those unseen as missed. `macro_f1` is the mean over labels that are gold or predicted. `ece`
        is the calibration error of all labels' probabilities.
        """
        classes = self.classes().values()
        return {
            "accuracy": self._all_right / max(1, self._examples),
            "micro_f1": micro([*classes, Counts(0, 0, self._unseen)]).ratios()["f1"],
            "macro_f1": macro_f1(classes),
            "ece": self.calibration.error(),
            "examples": self._examples,
            "unseen": self._unseen,
        }

    def classes(self) -> dict[str, Counts]:
        """The counts of each label."""
        return _name(self._names, *self._counts)


def _name(names: Sequence[str], *counts: np.ndarray) -> dict[str, Counts]:
    """The right, predicted and gold ones of each class."""
    return dict(zip(names, map(Counts, *(own.tolist() for own in counts)), strict=True))
