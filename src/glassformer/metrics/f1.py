"""Precision, recall and F1 of classes of any sort from counts; a ratio of nothing to nothing is
0."""

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple


class Counts(NamedTuple):
    """How often a class was predicted rightly, predicted at all, and there to be found."""

    right: int
    predicted: int
    gold: int

    def ratios(self) -> dict[str, float]:
        """`precision` = right / predicted, `recall` = right / gold, and their harmonic mean `f1`,
        in [0, 1]."""
        return {
            "precision": self.right / self.predicted if self.predicted else 0.0,
            "recall": self.right / self.gold if self.gold else 0.0,
            "f1": 2 * self.right / (self.predicted + self.gold)
            if self.predicted + self.gold
            else 0.0,
        }


def micro(classes: Iterable[Counts]) -> Counts:
    """The counts of all classes together."""
    every = list(classes)
    return Counts(
        sum(c.right for c in every), sum(c.predicted for c in every), sum(c.gold for c in every)
    )


def macro_f1(classes: Iterable[Counts]) -> float:
    """The mean F1 of the classes that occur, as gold or as prediction; 0 if none does."""
    found = [c.ratios()["f1"] for c in classes if c.predicted or c.gold]
    return sum(found) / len(found) if found else 0.0


def table(classes: Mapping[str, Counts]) -> list[dict[str, Any]]:
    """A row for each class that occurs: `class`, `precision`, `recall`, `f1`, and `n`, how often it
    is gold."""
    return [
        {"class": name, **c.ratios(), "n": c.gold}
        for name, c in classes.items()
        if c.predicted or c.gold
    ]
