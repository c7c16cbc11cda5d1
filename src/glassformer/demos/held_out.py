"""What a classifier of images or audio finds in its test files, beside two baselines, and the page
that shows it."""

from collections.abc import Callable, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import torch

from glassformer.demos.baselines import majority, nearest_neighbour
from glassformer.demos.confusions import Pairs, confused, confused_values
from glassformer.errors import counted
from glassformer.files import write_text
from glassformer.inspect.class_token_attention import class_token_attention
from glassformer.pages.gallery import Group, Item, gallery_html
from glassformer.run import Run

SHOWN, PAIRS, EXAMPLES = 60, 5, 4
"""At most so many rows of a group of the page; so many pairs of classes, each with so many rows."""

Row = tuple[Any, str]
"""What the model reads, and its class."""
Draw = Callable[[int, np.ndarray], tuple[np.ndarray, np.ndarray, bytes | None]]
"""Of a row's number and the attention of its patches: a picture, that attention placed as in the
picture, a sound."""


class HeldOut:
    """The test rows of a run with the probability of every class."""

    def __init__(self, run: Run, train: Sequence[Row], test: Sequence[Row]) -> None:
        self.run, self.train = run, train
        self.things, self.gold = [thing for thing, _ in test], [label for _, label in test]
        self.probabilities = run.classified(self.things)
        self.scores: dict[str, Any] = run.evaluate("test")
        self.found = [run.classes[i] for i in self.probabilities.argmax(1).tolist()]
        self.confused: Pairs = confused(self.scores["confusion"])

    @cached_property
    def wrong(self) -> list[int]:
        """Rows with a wrong prediction, the most confident first."""
        sure = self.probabilities.max(1)
        rows = [i for i, gold in enumerate(self.gold) if gold != self.found[i]]
        return sorted(rows, key=lambda i: -sure[i])

    def accuracy(self, most_frequent: str, nearest: str) -> dict[str, float]:
        """The accuracy of two baselines by these names, and the model's."""
        labels = [label for _, label in self.train]
        train, test = (self._flat(things) for things in ([x for x, _ in self.train], self.things))
        return {
            most_frequent: majority(labels, self.gold),
            nearest: nearest_neighbour(train, labels, test, self.gold),
            "this model": self.scores["accuracy"],
        }

    def values(self, accuracy: dict[str, float]) -> dict[str, Any]:
        """The results for JSON."""
        return {"accuracy": accuracy, "confused": confused_values(self.confused)}

    def right(self, most: int) -> list[int]:
        """The first row predicted right of each class, in the order of the classes."""
        first = dict[str, int]()
        for i, (gold, found) in enumerate(zip(self.gold, self.found, strict=True)):
            if gold == found:
                first.setdefault(gold, i)
        return [first[name] for name in self.run.classes if name in first][:most]

    def taken(self, gold: str, found: str, most: int) -> list[int]:
        """Rows of one class taken for another, in order."""
        pairs = enumerate(zip(self.gold, self.found, strict=True))
        return [i for i, pair in pairs if pair == (gold, found)][:most]

    def write_page(
        self, path: Path, title: str, about: str, accuracy: dict[str, float], draw: Draw, noun: str
    ) -> None:
        """Write the page of what was found, what was not, and what was confused."""
        groups = self.groups(noun, draw)
        write_text(path, gallery_html(title, about, list(accuracy.items()), groups))

    def groups(self, noun: str, draw: Draw) -> list[Group]:
        """The groups of the page."""
        pairs = self.confused[:PAIRS]
        mixed = [i for _, gold, found in pairs for i in self.taken(gold, found, EXAMPLES)]
        named = ", ".join(
            f"{gold} taken for {found} ({counted(n, 'time')})" for n, gold, found in pairs
        )
        first = f"The first {noun} of each class that was predicted right."
        surest = f"The most confident of {len(self.wrong):,} errors."
        groups = (
            ("Found", first, self.right(SHOWN)),
            ("Not found", surest, self.wrong[:SHOWN]),
            ("Most often confused", f"{named}.", mixed),
        )
        return [Group(title, about, self.shown(rows, draw)) for title, about, rows in groups]

    def shown(self, rows: Sequence[int], draw: Draw) -> list[Item]:
        """Rows as the page shows them."""
        if not rows:
            return []
        patches = self._patches([self.things[i] for i in rows])
        found = []
        for i, looked in zip(
            rows, class_token_attention(self.run.model, patches).numpy(), strict=True
        ):
            picture, heat, sound = draw(i, looked)
            sure = float(self.probabilities[i].max())
            found.append(Item(picture, heat, self.gold[i], self.found[i], sure, sound))
        return found

    def _patches(self, things: Sequence[Any]) -> torch.Tensor:
        given = self.run.processor.given_patches
        return torch.from_numpy(np.stack([given(thing) for thing in things]))

    def _flat(self, things: Sequence[Any]) -> np.ndarray:
        """The patches of each row as one vector, [N, T * P]."""
        return self._patches(things).flatten(1).numpy()
