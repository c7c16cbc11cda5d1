"""What the demos of pictures and sound show alike: held-out rows, what was found in them, and two
simple guesses."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from glassformer.axes import Float, Tensor
from glassformer.demos.classify import confused
from glassformer.errors import counted
from glassformer.generate.classify import classify_patches
from glassformer.inspect.class_token_attention import gaze
from glassformer.inspect.gallery import Group, Shown
from glassformer.run import Run
from glassformer.tasks.baselines import majority, nearest_neighbour
from glassformer.tasks.class_scores import scores_of
from glassformer.tasks.media_dataset import Kept, Senses, senses_of

ROWS = 256
SHOWN, PAIRS, EXAMPLES = 60, 5, 4
"""At most so many rows of a part of the page; so many pairs of classes, each with so many rows."""
Pairs = list[tuple[int, str, str]]
"""How often a class was taken for another, the most frequent first."""


@dataclass(frozen=True)
class HeldOut:
    """The test rows of a run, as they are and as its model takes them, with the probability of
    every class."""

    run: Run
    senses: Senses
    kept: Kept
    probabilities: np.ndarray
    scores: dict[str, Any]

    @classmethod
    def of(cls, run: Run) -> "HeldOut":
        """Score the rows that training decoded into the run folder."""
        assert run.recipe is not None
        senses = senses_of(run.recipe, run.folder, begun=True)
        senses.open(run.folder / senses.array, list(senses.splits))
        kept = senses.split("test")
        probabilities = classify_patches(run.model, _patches(senses, kept))
        judged = zip(probabilities, kept.labels, kept.where, strict=True)
        return cls(run, senses, kept, probabilities, scores_of(run.model, judged))

    @cached_property
    def gold(self) -> list[str]:
        """The right class of each row."""
        return [labels[0] for labels in self.kept.labels]

    @cached_property
    def found(self) -> list[str]:
        """The likeliest class of each row."""
        return [self.run.classes[i] for i in self.probabilities.argmax(1).tolist()]

    def guesses(self, commonest: str, nearest: str) -> dict[str, float]:
        """The accuracy of two simple guesses by these names, and the model's."""
        trained = self.senses.split("train")
        labels = [own[0] for own in trained.labels]
        rows, asked = (
            np.concatenate([patches.flatten(1).numpy() for patches in _patches(self.senses, kept)])
            for kept in (trained, self.kept)
        )
        return {
            commonest: majority(labels, self.gold),
            nearest: nearest_neighbour(rows, labels, asked, self.gold),
            "this model": self.scores["accuracy"],
        }

    def patches(self, numbers: Sequence[int]) -> Float[Tensor, "N T P"]:
        """Some of the rows as the model takes them."""
        return self.senses.plain(self.kept, np.array(numbers))

    def right(self, most: int) -> list[int]:
        """The first row found right of each class, in the order of the classes."""
        first = dict[str, int]()
        for i, (gold, found) in enumerate(zip(self.gold, self.found, strict=True)):
            if gold == found:
                first.setdefault(gold, i)
        return [first[name] for name in self.run.classes if name in first][:most]

    def wrong(self, most: int) -> list[int]:
        """Rows found wrong, the most confident first."""
        sure = self.probabilities.max(1)
        rows = [
            i
            for i, (gold, found) in enumerate(zip(self.gold, self.found, strict=True))
            if gold != found
        ]
        return sorted(rows, key=lambda i: -sure[i])[:most]

    def taken(self, gold: str, found: str, most: int) -> list[int]:
        """Rows of one class taken for another, in order."""
        pairs = enumerate(zip(self.gold, self.found, strict=True))
        return [i for i, pair in pairs if pair == (gold, found)][:most]

    def shown(self, numbers: Sequence[int], draw: "Draw") -> list[Shown]:
        """Rows as the page shows them."""
        if not numbers:
            return []
        rows = []
        for i, looked in zip(
            numbers, gaze(self.run.model, self.patches(numbers)).numpy(), strict=True
        ):
            picture, heat, sound = draw(i, looked)
            rows.append(
                Shown(
                    picture,
                    heat,
                    self.gold[i],
                    self.found[i],
                    float(self.probabilities[i].max()),
                    sound,
                )
            )
        return rows

    def groups(self, noun: str, draw: "Draw") -> list[Group]:
        """The parts of the page: what was found, what was not, and the classes most often
        confused."""
        right, wrong = self.right(SHOWN), self.wrong(SHOWN)
        pairs = self.confused[:PAIRS]
        mixed = [i for _, gold, found in pairs for i in self.taken(gold, found, EXAMPLES)]
        named = ", ".join(
            f"{gold} taken for {found} ({counted(n, 'time')})" for n, gold, found in pairs
        )
        return [
            Group(
                "Found",
                f"The first {noun} of each class that was found right.",
                self.shown(right, draw),
            ),
            Group(
                "Not found",
                f"Those of which it was surest and wrong, of {self.missed:,}.",
                self.shown(wrong, draw),
            ),
            Group("Most often confused", f"{named}.", self.shown(mixed, draw)),
        ]

    @cached_property
    def confused(self) -> Pairs:
        """Classes taken for others, the most frequent first."""
        return confused(self.scores["confusion"])

    @property
    def missed(self) -> int:
        """How many rows were found wrong."""
        return sum(n for n, _, _ in self.confused)


Draw = Callable[[int, np.ndarray], tuple[np.ndarray, np.ndarray, bytes | None]]
"""Of a row's number and the attention of its patches: a picture, that attention placed as in the
picture, a sound."""


def _patches(senses: Senses, kept: Kept) -> Iterator[Float[Tensor, "N T P"]]:
    for begin in range(0, len(kept), ROWS):
        yield senses.plain(kept, np.arange(begin, min(begin + ROWS, len(kept))))
