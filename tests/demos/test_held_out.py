"""What a demo's page shows: which rows were found, which not, the surest first, and which classes
were confused."""

from types import SimpleNamespace

import numpy as np

from glassformer.demos.confusions import confused
from glassformer.demos.held_out import HeldOut
from glassformer.pages.gallery import Item

GOLD, FOUND, SURE = "BAABACB", "BCAACCA", (0.9, 0.5, 0.6, 0.8, 0.7, 0.95, 0.99)
CLASSES = ("A", "B", "C", "D")
ONE = Item(np.zeros((1, 1)), np.zeros((1, 1)), "A", "A", 1.0)


class Judged(HeldOut):
    """Rows that no model saw."""

    def __init__(self, probabilities: np.ndarray, counts: list[list[int]]):
        self.run = SimpleNamespace(classes=CLASSES)
        self.gold, self.probabilities = list(GOLD), probabilities
        self.found = [CLASSES[i] for i in probabilities.argmax(1)]
        self.confused = confused({"names": list(CLASSES), "counts": counts})


def held() -> Judged:
    probabilities = np.full((len(GOLD), 4), 0.001)
    for row, name, sure in zip(probabilities, FOUND, SURE, strict=True):
        row[CLASSES.index(name)] = sure
    counts = [
        [sum(p == (g, f) for p in zip(GOLD, FOUND, strict=True)) for f in CLASSES] for g in CLASSES
    ]
    return Judged(probabilities, counts)


def test_the_first_row_found_right_of_each_class_that_has_one():
    assert held().right(10) == [2, 0, 5]
    assert held().right(1) == [2]


def test_rows_found_wrong_the_surest_first():
    assert held().wrong == [6, 3, 4, 1]


def test_the_pairs_most_often_confused_and_their_rows():
    assert held().confused == [(2, "A", "C"), (2, "B", "A")]
    assert held().taken("A", "C", 5) == [1, 4]
    assert held().taken("B", "A", 1) == [3]


def test_the_page_of_a_model_that_is_never_wrong_has_nothing_but_what_it_found(monkeypatch):
    monkeypatch.setattr(HeldOut, "items", lambda self, numbers, draw: [ONE for _ in numbers])
    right = Judged(
        np.eye(4)[[CLASSES.index(name) for name in GOLD]], np.diag([3, 3, 1, 0]).tolist()
    )
    groups = right.groups("picture", lambda i, looked: (looked, looked, None))
    assert [len(group.items) for group in groups] == [3, 0, 0]
