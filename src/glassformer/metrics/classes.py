"""Scores of predicted classes: one for each example, several, or one for each token; gathered batch
by batch.

Only counts are kept, no probabilities. A class is its index among the names. A gold index of -1
stands for a class that training never saw: nothing can predict it, so it is wrong, and it is
counted as `unseen`.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np

from glassformer.axes import Bool, Float, Int
from glassformer.metrics.f1 import Counts, macro_f1, micro, table

BINS = 15


class Confusion:
    """How often class `predicted` was given for class `gold`."""

    def __init__(self, n_classes: int):
        self._counts = np.zeros(
            (n_classes + 1, n_classes), dtype=np.int64
        )  # the last row: gold that was never seen

    def add(self, gold: Int[np.ndarray, "B"], predicted: Int[np.ndarray, "B"]) -> None:
        """Count examples; `gold` in [-1, n_classes), `predicted` in [0, n_classes)."""
        n = self._counts.shape[1]
        assert not len(gold) or (gold.min() >= -1 and gold.max() < n and predicted.min() >= 0), (
            "no index of a class"
        )
        np.add.at(self._counts, (gold, predicted), 1)

    @property
    def examples(self) -> int:
        """How many were counted."""
        return int(self._counts.sum())

    @property
    def unseen(self) -> int:
        """How many of them had a gold class that training never saw."""
        return int(self._counts[-1].sum())

    @property
    def accuracy(self) -> float:
        """The share that was right, in [0, 1]."""
        return int(np.trace(self._counts)) / max(1, self.examples)

    def classes(self, names: Sequence[str]) -> dict[str, Counts]:
        """The counts of each class by name."""
        return _named(
            names, np.diagonal(self._counts), self._counts.sum(0), self._counts[:-1].sum(1)
        )

    def rows(self) -> list[list[int]]:
        """Counts with a row for each gold class and a column for each prediction; unseen classes
        have no row."""
        return self._counts[:-1].tolist()


class Calibration:
    """How often what was given probability p was so, in equally wide bins of p (Guo et al.
    2017)."""

    def __init__(self) -> None:
        self._n, self._so = np.zeros(BINS, dtype=np.int64), np.zeros(BINS, dtype=np.int64)
        self._probability = np.zeros(BINS)

    def add(self, probabilities: Float[np.ndarray, "B"], so: Bool[np.ndarray, "B"]) -> None:
        """Count statements by their probability, and whether each was `so`."""
        bins = np.searchsorted(
            np.arange(1, BINS) / BINS, probabilities
        )  # (low, high]; 0 is in the first
        self._n += np.bincount(bins, minlength=BINS)
        self._so += np.bincount(bins[so], minlength=BINS)
        self._probability += np.bincount(bins, probabilities.astype(np.float64), minlength=BINS)

    def error(self) -> float:
        """The expected calibration error: |share that was so - mean probability|, a mean over all
        statements."""
        return float(np.abs(self._so - self._probability).sum()) / max(1, int(self._n.sum()))

    def bins(self) -> list[dict[str, float]]:
        """A row for each bin that holds any: `low`, `high`, `n`, mean probability `confidence`,
        share so `accuracy`."""
        return [
            {
                "low": i / BINS,
                "high": (i + 1) / BINS,
                "n": int(self._n[i]),
                "confidence": float(self._probability[i] / self._n[i]),
                "accuracy": float(self._so[i] / self._n[i]),
            }
            for i in np.flatnonzero(self._n).tolist()
        ]


class ClassScore:
    """Examples of one class each, predicted as the most probable one."""

    def __init__(self, names: Sequence[str]):
        self._names, self._confusion, self._calibration = (
            names,
            Confusion(len(names)),
            Calibration(),
        )

    def add(self, gold: Int[np.ndarray, "B"], probabilities: Float[np.ndarray, "B C"]) -> None:
        """Count a batch: gold classes, and the probability of every class."""
        predicted = probabilities.argmax(1)
        self._confusion.add(gold, predicted)
        self._calibration.add(probabilities.max(1), predicted == gold)

    def result(self) -> dict[str, float]:
        """`accuracy`, `micro_f1` (the same here), `macro_f1`, `ece`, all in [0, 1]; how many
        `examples` and `unseen`.

        macro_f1 is the mean over classes that are gold or predicted somewhere; ece is the expected
        calibration error of the most probable class.
        """
        accuracy = self._confusion.accuracy
        return {
            "accuracy": accuracy,
            # every wrong one is predicted once too often and found once too rarely
            "micro_f1": accuracy,
            "macro_f1": macro_f1(self._confusion.classes(self._names).values()),
            "ece": self._calibration.error(),
            "examples": self._confusion.examples,
            "unseen": self._confusion.unseen,
        }

    def table(self) -> list[dict[str, Any]]:
        """A row for each class that occurs: `class`, `precision`, `recall`, `f1`, gold examples
        `n`."""
        return table(self._confusion.classes(self._names))

    def confusion(self) -> list[list[int]]:
        """Counts: a row for each gold class, a column for each prediction."""
        return self._confusion.rows()

    def reliability(self) -> list[dict[str, float]]:
        """Bins of the probability of the most probable class; see `Calibration.bins`."""
        return self._calibration.bins()


class MultiLabelScore:
    """Examples with any number of labels, each predicted if it is probable enough."""

    def __init__(self, names: Sequence[str]):
        self._names, self._calibration = names, Calibration()
        self._right, self._predicted, self._gold = np.zeros((3, len(names)), dtype=np.int64)
        self._examples = self._all_right = self._unseen = 0

    def add(
        self,
        gold: Bool[np.ndarray, "B C"],
        probabilities: Float[np.ndarray, "B C"],
        threshold: float = 0.5,
        unseen: Int[np.ndarray, "B"] | None = None,
    ) -> None:
        """Count a batch: which labels are right, how probable each is, how probable a predicted one
        is at least.

        `unseen`: how many labels each example has besides, that training never saw.
        """
        predicted = probabilities >= threshold
        self._right += (gold & predicted).sum(0)
        self._predicted += predicted.sum(0)
        self._gold += gold.sum(0)
        whole = (gold == predicted).all(1)
        if unseen is not None:
            whole &= unseen == 0
            self._unseen += int(unseen.sum())
        self._examples += len(gold)
        self._all_right += int(whole.sum())
        self._calibration.add(probabilities.ravel(), gold.ravel())

    def result(self) -> dict[str, float]:
        """`accuracy` (all labels right), `micro_f1`, `macro_f1`, `ece`, in [0, 1]; how many
        `examples` and `unseen`.

        micro_f1 counts every label alike, those unseen as missed; macro_f1 is the mean over labels
        that are gold or predicted somewhere; ece is the expected calibration error of all labels'
        probabilities.
        """
        classes = self._classes().values()
        return {
            "accuracy": self._all_right / max(1, self._examples),
            "micro_f1": micro([*classes, Counts(0, 0, self._unseen)]).ratios()["f1"],
            "macro_f1": macro_f1(classes),
            "ece": self._calibration.error(),
            "examples": self._examples,
            "unseen": self._unseen,
        }

    def table(self) -> list[dict[str, Any]]:
        """A row for each label that occurs: `class`, `precision`, `recall`, `f1`, gold examples
        `n`."""
        return table(self._classes())

    def reliability(self) -> list[dict[str, float]]:
        """Bins of all labels' probabilities, `accuracy` being the share of them that were gold."""
        return self._calibration.bins()

    def _classes(self) -> dict[str, Counts]:
        return _named(self._names, self._right, self._predicted, self._gold)


class TagScore:
    """Tokens of one tag each."""

    def __init__(self, names: Sequence[str]):
        self._names, self._confusion = names, Confusion(len(names))

    def add(self, gold: Int[np.ndarray, "T"], predicted: Int[np.ndarray, "T"]) -> None:
        """Count tokens: their tags, and the predicted ones."""
        self._confusion.add(gold, predicted)

    def result(self) -> dict[str, float]:
        """`accuracy` and `macro_f1` (mean over tags that are gold or predicted somewhere); `tokens`
        and `unseen`."""
        return {
            "accuracy": self._confusion.accuracy,
            "macro_f1": macro_f1(self._confusion.classes(self._names).values()),
            "tokens": self._confusion.examples,
            "unseen": self._confusion.unseen,
        }

    def table(self) -> list[dict[str, Any]]:
        """A row for each tag that occurs: `class`, `precision`, `recall`, `f1`, gold tokens `n`."""
        return table(self._confusion.classes(self._names))

    def confusion(self) -> list[list[int]]:
        """Counts: a row for each gold tag, a column for each prediction."""
        return self._confusion.rows()


def _named(
    names: Sequence[str], right: np.ndarray, predicted: np.ndarray, gold: np.ndarray
) -> dict[str, Counts]:
    rows = zip(right.tolist(), predicted.tolist(), gold.tolist(), strict=True)
    return {name: Counts(*row) for name, row in zip(names, rows, strict=True)}
