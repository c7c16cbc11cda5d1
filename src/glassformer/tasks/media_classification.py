"""Perception: pictures or recordings, as sequences of patches, to a class for each, or to several
(Note D)."""

import hashlib
from collections import Counter
from collections.abc import Iterator
from functools import cached_property
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
import torch

from glassformer.axes import Float, Int, Tensor
from glassformer.batch import Batch
from glassformer.data.collate import micro_batches
from glassformer.data.order import ShuffledOrder
from glassformer.errors import ConfigError, DataError, counted
from glassformer.generate.classify import classify_patches
from glassformer.losses import LossSum, binary_cross_entropy, cross_entropy
from glassformer.models.transformer import Transformer
from glassformer.recipe.recipe import Recipe
from glassformer.tasks.class_scores import scores_of
from glassformer.tasks.examples import Classes
from glassformer.tasks.media_dataset import Kept, Senses, senses_of
from glassformer.tasks.task import WHOLE, Card, Sample

SHOWN, ROWS = 5, 256


class PerceptionTask:
    """A class for each picture or recording, or several."""

    def __init__(self, recipe: Recipe, run: Path, begun: bool):
        """`begun`: the run knows how its pictures or recordings are read; otherwise their first one
        tells."""
        self._run = run
        self.senses: Senses = senses_of(recipe, run, begun)
        train = self.senses.labels("train")
        self._counts = Counter(chain.from_iterable(train))
        known = sorted(self._counts)
        self.recipe = recipe.with_model(self.senses.model_fields()).with_classes(
            list(recipe.data.class_names) or known
        )
        self.classes = Classes(self.recipe.model.classes)

    @staticmethod
    def training_texts(recipe: Recipe) -> Iterator[str]:
        """Pictures and recordings have no tokenizer: ConfigError."""
        section = "image" if recipe.audio is None else "audio"
        raise ConfigError(
            f"model.elements='patches' has no tokenizer; how patches are made is said in "
            f"{section}, and "
            "`glassformer data show` shows them."
        )

    def store(self) -> None:
        """See `Task`. DataError: a training class that `model.classes` lacks, or only one; pictures
        of several."""
        multi = self.recipe.model.multi_label
        for name in self.senses.splits:
            for labels, where in zip(
                self.senses.labels(name), self.senses.places(name), strict=True
            ):
                if name == "train":
                    self.classes.check(labels, where)
                if len(labels) != 1 and not multi:
                    raise DataError(
                        f"{where} has {len(labels)} classes, not one; mend it or set "
                        f"model.multi_label=true"
                    )
        self._check_counts()
        self._weights_of(self._counts)  # refused before anything is written
        self.senses.store(self._run)
        self._counts = Counter(chain.from_iterable(self.training.labels))
        self._check_counts()

    def _check_counts(self) -> None:
        """Raise DataError if there is nothing to tell apart."""
        if len(self._counts) < 2 and not self.recipe.model.multi_label:
            only = ", ".join(self._counts)
            raise DataError(
                f"every training {self.senses.noun} is of the class {only!r}; give at least "
                f"two classes"
            )

    @cached_property
    def training(self) -> Kept:
        """The training rows that could be read."""
        return self.senses.split("train")

    @cached_property
    def _targets(self) -> Int[np.ndarray, "N"] | Int[np.ndarray, "N C"]:
        return self._targets_of(self.training.labels)

    def _targets_of(self, labels: list[tuple[str, ...]]) -> np.ndarray:
        if not self.recipe.model.multi_label:
            return np.array([self.classes.numbers(own)[0] for own in labels], np.int64)
        targets = np.zeros((len(labels), len(self.classes.names)), np.int64)
        for row, own in zip(targets, labels, strict=True):
            row[self.classes.numbers(own)] = 1
        return targets

    @cached_property
    def _weights(self) -> Float[Tensor, "C"] | None:
        return self._weights_of(self._counts)

    def _weights_of(self, counts: Counter[str]) -> Float[Tensor, "C"] | None:
        return self.classes.weights(
            np.array([counts[name] for name in self.classes.names]), self.recipe.train.class_weights
        )

    @property
    def rows(self) -> int:
        """Pictures or recordings in a step."""
        train = self.recipe.train
        return (
            train.batch_size
            if train.batch_tokens is None
            else max(1, train.batch_tokens // self.length)
        )

    @property
    def length(self) -> int:
        """See `Task`: the patches of each."""
        return self.recipe.model.max_length

    def pace(self, elements_per_second: float) -> str:
        """See `Paced`."""
        return (
            f"{elements_per_second / self.length:,.0f} {self.senses.noun}s/s, "
            f"{elements_per_second:,.0f} patches/s"
        )

    @property
    def elements(self) -> int:
        """See `Task`."""
        return len(self.training) * self.length

    @property
    def validated(self) -> bool:
        """See `Task`."""
        return "validation" in self.senses.splits

    @property
    def fingerprint(self) -> str:
        """See `Task`."""
        seen = hashlib.sha256(self._targets.tobytes())
        array = self.training.array
        seen.update(np.ascontiguousarray(array[:: max(1, array.size // WHOLE)]).tobytes())
        return seen.hexdigest()[:16]

    def opening(self) -> list[str]:
        """See `Task`: also what could not be read."""
        steps, n = self.recipe.train.steps, len(self.training)
        common = ", ".join(f"{name} {n:,}" for name, n in self._counts.most_common(8))
        noun = self.senses.noun
        skipped = [(name, self.senses.split(name).skipped) for name in self.senses.splits]
        return [
            *self.senses.described(),
            f"{n:,} training {noun}s of {self.length} patches, {self.rows} per step, {steps:,} "
            f"steps = "
            f"{steps * self.rows / n:.1f} epochs",
            f"{len(self.classes.names)} classes, the most frequent: {common}",
            *(
                f"left out: {counted(len(sentences), noun)} of {name} that cannot be read, the "
                f"first: {sentences[0]}"
                for name, sentences in skipped
                if sentences
            ),
        ]

    def batches(self, step: int) -> list[Batch]:
        """See `Task`: every one once an epoch; changed in ways that are functions of (seed, step,
        number)."""
        train = self.recipe.train
        numbers = self.numbers(step)
        classes = len(self.classes.names)
        patches, targets = self.senses.fed(
            self.training, numbers, self._targets[numbers], step, classes
        )
        parts = micro_batches(np.arange(len(numbers)), train.micro_batches)
        return [Batch(patches[part], targets=targets[part]) for part in parts]

    def numbers(self, step: int) -> Int[np.ndarray, "N"]:
        """Which training rows are in the batch of a step."""
        return ShuffledOrder(len(self.training), self.rows, self.recipe.train.seed).rows(step)

    def loss(self, logits: torch.Tensor, targets: torch.Tensor) -> LossSum:
        """See `Task`."""
        weights = None if self._weights is None else self._weights.to(logits.device)
        loss = binary_cross_entropy if self.recipe.model.multi_label else cross_entropy
        found = loss(logits, targets, self.recipe.train.label_smoothing, weights)
        if (
            self.recipe.model.multi_label and targets.is_floating_point()
        ):  # shares count as one target, not one a class
            return LossSum(found.total / targets.shape[1], len(targets))
        return found

    def scores(self, model: Transformer, precision: torch.dtype) -> dict[str, Any] | None:
        """See `Task`."""
        return self.split_scores(model, "validation", precision) if self.validated else None

    def split_scores(
        self, model: Transformer, split: str, precision: torch.dtype = torch.float32
    ) -> dict[str, Any]:
        """Scores of a whole split by its name; what could not be read is counted as
        `unreadable`."""
        kept = self.senses.split(split)
        probabilities = classify_patches(model, self._plain(kept), precision)
        scores = scores_of(model, zip(probabilities, kept.labels, kept.where, strict=True))
        return {**scores, **({"unreadable": len(kept.skipped)} if kept.skipped else {})}

    def _plain(self, kept: Kept, rows: int = ROWS) -> Iterator[Float[Tensor, "N T P"]]:
        for begin in range(0, len(kept), rows):
            yield self.senses.plain(kept, np.arange(begin, min(begin + rows, len(kept))))

    def sample(self, model: Transformer) -> Sample | None:
        """See `Task`: the first validation (else training) ones and their classes."""
        if not self.recipe.train.sample_tokens:
            return None
        kept = self.senses.split("validation" if self.validated else "train")
        shown = np.arange(min(SHOWN, len(kept)))
        rows = []
        for i, row in enumerate(classify_patches(model, [self.senses.plain(kept, shown)])):
            best = int(row.argmax())
            found = {"predicted": self.classes.names[best], "probability": float(row[best])}
            rows.append({"text": kept.where[i], "class": ", ".join(kept.labels[i]), **found})
        lines = "\n".join(
            f"{row['predicted']} ({row['probability']:.0%}), is {row['class']}" for row in rows
        )
        return Sample(lines, {"samples": rows})

    def thumbnail(self, where: str) -> str | None:
        """See `Depicts`."""
        i = self._held.get(where)
        return None if i is None else self.senses.thumbnail(self.senses.split("validation"), i)

    @cached_property
    def _held(self) -> dict[str, int]:
        return (
            {where: i for i, where in enumerate(self.senses.split("validation").where)}
            if self.validated
            else {}
        )

    def excerpt(self, batch: Batch) -> str:
        """See `Task`."""
        return f"{self.senses.noun}s of mean {float(batch.elements.float().mean()):.3g}"

    def card(self) -> Card:
        """See `Task`."""
        use = f"glassformer classify {self._run} FILE ...\nglassformer evaluate {self._run}"
        noun, read = self.senses.noun, "; ".join(self.senses.described())
        return Card(
            f"{self.senses.field}-classification",
            read,
            f"{self.rows} {noun}s",
            use,
            f"{noun.capitalize()}s",
        )
