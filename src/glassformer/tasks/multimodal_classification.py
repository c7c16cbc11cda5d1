"""The class of rows of parts, or several."""

from collections import Counter
from collections.abc import Iterator, Sequence
from functools import cached_property
from itertools import chain
from typing import Any

import numpy as np
import torch

from glassformer.axes import Float, Tensor
from glassformer.batch import Batch
from glassformer.data.example import Example
from glassformer.data.parts import Mixed
from glassformer.errors import DataError, counted
from glassformer.generate.classify import classify_batches
from glassformer.losses import LossSum, binary_cross_entropy, cross_entropy
from glassformer.models.transformer import Transformer
from glassformer.recipe.recipe import Recipe
from glassformer.tasks.class_scores import scores_of
from glassformer.tasks.examples import Classes
from glassformer.tasks.multimodal import SHOWN, MixtureTask, shown
from glassformer.tasks.task import Card, Sample


class ChoiceTask(MixtureTask):
    """A class for each row, or several; where rows have no classes, their targets are the
    classes."""

    classes: Classes

    def _filled(self, recipe: Recipe) -> Recipe:
        self._counts = Counter(chain.from_iterable(_labels(row) for row in self._rows["train"]))
        recipe = recipe.with_classes(list(recipe.data.class_names) or sorted(self._counts))
        self.classes = Classes(recipe.model.classes)
        return super()._filled(recipe)

    def store(self) -> None:
        """See `Task`. DataError: also a training class that `model.classes` lacks, or only one."""
        multi = self.recipe.model.multi_label
        for row in chain.from_iterable(self._rows.values()):
            labels = _labels(row)
            if row.split == "train":
                self.classes.check(labels, row.where)
            if len(labels) != 1 and not multi:
                several = counted(len(labels), "class")
                raise DataError(
                    f"{row.where} has {several}, not one; mend it or set model.multi_label=true"
                )
        if len(self._counts) < 2 and not multi:
            only = ", ".join(self._counts)
            raise DataError(
                f"every training row is of the class {only!r}; give rows of at least two classes"
            )
        _ = self._weights  # refused before anything is written
        super().store()

    def _said(self, row: Mixed, parts: Sequence[tuple[str, str | np.ndarray]]) -> Example:
        numbers = self.classes.numbers(_labels(row))
        if not self.recipe.model.multi_label:
            return self.tokenizer.example(parts, targets=numbers[:1])
        targets = np.zeros((1, len(self.classes.names)), np.int64)
        targets[0, numbers[numbers >= 0]] = 1
        return self.tokenizer.example(parts, targets=targets)

    @cached_property
    def _weights(self) -> Float[Tensor, "C"] | None:
        counts = np.array([self._counts[name] for name in self.classes.names])
        return self.classes.weights(counts, self.recipe.train.class_weights)

    def loss(self, logits: torch.Tensor, targets: torch.Tensor) -> LossSum:
        """See `Task`."""
        weights = None if self._weights is None else self._weights.to(logits.device)
        loss = binary_cross_entropy if self.recipe.model.multi_label else cross_entropy
        return loss(logits, targets, self.recipe.train.label_smoothing, weights)

    def scores(self, model: Transformer, precision: torch.dtype) -> dict[str, Any] | None:
        """See `Task`."""
        return self.split_scores(model, "validation", precision) if self.validated else None

    def split_scores(
        self, model: Transformer, split: str, precision: torch.dtype = torch.float32
    ) -> dict[str, Any]:
        """Scores of a whole split by its name."""
        numbers: list[int] = []

        def batches() -> Iterator[Batch]:
            for chosen, batch in self.plain_batches(split):
                numbers.extend(chosen)
                yield batch

        probabilities = classify_batches(model, batches(), precision)
        rows = self.rows(split, numbers)
        judged = zip(probabilities, rows, strict=True)
        return scores_of(model, ((row, _labels(of), shown(of)) for row, of in judged))

    def sample(self, model: Transformer) -> Sample | None:
        """See `Task`: the first validation (else training) rows and their classes."""
        if not self.recipe.train.sample_tokens:
            return None
        split = "validation" if self.validated else "train"
        numbers = self.readable(split)[:SHOWN]
        found = classify_batches(model, [self.batch(self.sequences(split, numbers))])
        rows = []
        for row, probabilities in zip(self.rows(split, numbers), found, strict=True):
            best = int(probabilities.argmax())
            about = {
                "predicted": self.classes.names[best],
                "probability": float(probabilities[best]),
            }
            rows.append({"text": shown(row), "class": ", ".join(_labels(row)), **about})
        lines = "\n".join(
            f"{row['predicted']} ({row['probability']:.0%})  {row['text'][:80]}" for row in rows
        )
        return Sample(lines, {"samples": rows})

    def card(self) -> Card:
        """See `Task`."""
        kinds = "-".join([*(kind for kind in ("image", "audio") if kind in self.files), "text"])
        return self.card_of(
            f"{kinds}-classification", f"glassformer classify {self._run} < rows.jsonl"
        )


def _labels(row: Mixed) -> tuple[str, ...]:
    return row.labels or (() if row.target is None else (row.target,))
