"""Precision, recall and F1 of classes from counts; 0 where nothing is counted."""

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple


class Counts(NamedTuple):
    """How often a class was predicted rightly, was predicted, and was gold."""

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
    return sum(found) / len(found) if found else 0.0


def table(classes: Mapping[str, Counts]) -> list[dict[str, Any]]:
    """A row for each class that occurs: `class`, `precision`, `recall`, `f1`, and `n`, how often it
    is gold."""
    return [
        {"class": name, **c.ratios(), "n": c.gold}
        for name, c in classes.items()
        if c.predicted or c.gold
    ]
