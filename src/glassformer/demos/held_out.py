"""Predictions of a classifier of images or audio on its test files, beside two baselines, and the
page that shows them."""

from collections.abc import Callable, Iterable, Sequence
from functools import cached_property
from typing import Any

import numpy as np
import torch

from glassformer.data.config import DataConfig
from glassformer.demos.baselines import nearest_neighbour
from glassformer.demos.confusions import Pairs, confused, confused_lines, confused_values
from glassformer.demos.demo import Shown, table, train_and_test
from glassformer.demos.tables import constants
from glassformer.errors import counted
from glassformer.files import write_text
from glassformer.inspect.class_token_attention import class_token_attention
from glassformer.pages.gallery import Group, Item, gallery_html
from glassformer.run import Run

SHOWN, PAIRS, EXAMPLES = 60, 5, 4
"""At most so many rows of a group of the page; so many pairs of classes, each with so many rows."""

Draw = Callable[[Any, np.ndarray], tuple[np.ndarray, np.ndarray, bytes | None]]
"""Of an input and the attention of its patches: an image, that attention placed as in the image,
a sound."""


class HeldOut:
    """The test rows of a run with the probability of every class.

    `read` returns the rows of the data, and `given` the model's input of a row.
    """

    def __init__(
        self, run: Run, read: Callable[[DataConfig], Iterable[Any]], given: Callable[[Any], Any]
    ) -> None:
        self.run = run
        train, test = train_and_test(run, read, lambda row: (given(row), row.labels[0]))
        (train_inputs, labels), (self.inputs, self.gold) = (
            zip(*rows, strict=True) for rows in (train, test)
        )
        self.probabilities = run.classified(self.inputs)
        self.scores: dict[str, Any] = run.evaluate("test")
        self.found = [run.classes[i] for i in self.probabilities.argmax(1).tolist()]
        self.confused: Pairs = confused(self.scores["confusion"])
        flat = (self._patches(inputs).flatten(1).numpy() for inputs in (train_inputs, self.inputs))
        self.baselines = (
            self.scores["baselines"]["scores"]["majority_class"]["accuracy"],
            nearest_neighbour(next(flat), labels, next(flat), self.gold),
        )

    @cached_property
    def wrong(self) -> list[int]:
        """Rows with a wrong prediction, the most confident first."""
        sure = self.probabilities.max(1)
        rows = [i for i, gold in enumerate(self.gold) if gold != self.found[i]]
        return sorted(rows, key=lambda i: -sure[i])

    def right(self, most: int) -> list[int]:
        """The first row predicted right of each class, in the order of the classes."""
        rows = (self.taken(name, name, 1) for name in self.run.classes)
        return [row for found in rows for row in found][:most]

    def taken(self, gold: str, found: str, most: int) -> list[int]:
        """Rows of one class predicted as another, in order."""
        pairs = enumerate(zip(self.gold, self.found, strict=True))
        return [i for i, pair in pairs if pair == (gold, found)][:most]

    def show(
        self, demo: str, draw: Draw, before: Sequence[str] = (), after: Sequence[str] = ()
    ) -> Shown:
        """Write the page, and show accuracy and confusions with lines before and after the
        confusions; the sentences are those of the demo in tables/demos.json."""
        folder, forms = self.run.folder, constants("demos")[demo]["texts"]
        classes = counted(len(self.run.classes), forms["class"])
        texts: dict[str, str] = {
            name: form.format(run=folder.name, n=f"{len(self.gold):,}", classes=classes)
            for name, form in forms.items()
        }
        values = (*self.baselines, self.scores["accuracy"])
        names = (texts["frequent"], texts["nearest"], "this model")
        accuracy = dict(zip(names, values, strict=True))
        groups, page = self.groups(texts["row"], draw), folder / texts["page"]
        scores = list(accuracy.items())
        write_text(page, gallery_html(texts["title"], texts["about"], scores, groups))
        lines = [
            texts["accuracy"],
            *table(accuracy),
            *before,
            *confused_lines(self.confused),
            *after,
            f"\n{texts['see']}: {page} (open it in a browser)",
            f"curves, confusions, calibration: {folder / 'report.html'}",
        ]
        return Shown({"accuracy": accuracy, "confused": confused_values(self.confused)}, lines)

    def groups(self, noun: str, draw: Draw) -> list[Group]:
        """The groups of the page."""
        pairs = self.confused[:PAIRS]
        mixed = [i for _, gold, found in pairs for i in self.taken(gold, found, EXAMPLES)]
        named = (f"{gold} taken for {found} ({counted(n, 'time')})" for n, gold, found in pairs)
        first = f"The first {noun} of each class that was predicted right."
        surest = f"The most confident of {len(self.wrong):,} errors."
        groups = (
            ("Found", first, self.right(SHOWN)),
            ("Not found", surest, self.wrong[:SHOWN]),
            ("Most often confused", f"{', '.join(named)}.", mixed),
        )
        return [Group(title, about, self.items(rows, draw)) for title, about, rows in groups]

    def items(self, rows: Sequence[int], draw: Draw) -> list[Item]:
        """Rows as items of the page."""
        if not rows:
            return []
        found, patches = [], self._patches([self.inputs[i] for i in rows])
        looked_at = class_token_attention(self.run.model, patches).numpy()
        for i, looked in zip(rows, looked_at, strict=True):
            image, heat, sound = draw(self.inputs[i], looked)
            sure = float(self.probabilities[i].max())
            found.append(Item(image, heat, self.gold[i], self.found[i], sure, sound))
        return found

    def _patches(self, inputs: Sequence[Any]) -> torch.Tensor:
        given = self.run.processor.given_patches
        return torch.from_numpy(np.stack([given(one) for one in inputs]))
