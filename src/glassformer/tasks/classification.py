"""Classification: one class for each input, or any number of them (Note D)."""

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
from glassformer.errors import ConfigError, DataError, counted
from glassformer.generate.classify import classify
from glassformer.generate.config import GenerateConfig
from glassformer.losses import LossSum, binary_cross_entropy, cross_entropy
from glassformer.models.transformer import Transformer
from glassformer.processors.inputs import Inputs, Records
from glassformer.processors.processor import Processor
from glassformer.recipe.recipe import Recipe
from glassformer.tasks.class_scores import scores_of
from glassformer.tasks.classes import Classes
from glassformer.tasks.records import RecordTask, with_vocabulary
from glassformer.tasks.shown import shown
from glassformer.tasks.task import SHOWN, Card, Sample

CHUNK = 256
"""Sequences that are encoded together in an evaluation."""


class Classification(RecordTask):
    """A class for each input, or several (`model.multi_label`)."""

    pipelines = (
        "text-classification",
        "image-classification",
        "audio-classification",
        "image-text-classification",
    )
    inputs = ("text", "image", "audio", "parts")
    capabilities = frozenset({"classes"})
    verb = "classify"
    metrics = ("loss", "accuracy", "macro_f1")
    options = frozenset({"class_weights"})

    @cached_property
    def classes(self) -> Classes:
        """The classes of the model."""
        return Classes(self.recipe.model.classes)

    @classmethod
    def resolve(cls, recipe: Recipe, processor: Processor, records: Records) -> Recipe:
        """See `Task`. DataError: a class unknown to the model, or only one."""
        recipe = with_vocabulary(recipe, processor)
        model, noun = recipe.model, processor.noun
        if model.architecture == "decoder" and model.pool == "first":
            raise ConfigError(
                "model.pool='first' of a decoder is an element that has seen no other; use last or "
                "mean."
            )
        counts = Counter(chain.from_iterable(map(labels_of, records.get("train", ()))))
        recipe = recipe.with_classes(list(recipe.data.class_names) or sorted(counts))
        classes, multi = Classes(recipe.model.classes), model.multi_label
        for record in chain.from_iterable(records.values()):
            labels = labels_of(record)
            if record.split == "train":
                classes.check(labels, record.where)
            check_labels(record, multi)
        check_counts(counts, noun, multi)
        weights_of(classes, counts, recipe)  # refused before anything is written
        return recipe

    def target(self, record: Any, units: slice) -> dict[str, Any]:
        """See `RecordTask`."""
        numbers = self.classes.numbers(labels_of(record))
        if not self.recipe.model.multi_label:
            return {"targets": numbers[:1]}
        targets = np.zeros((1, len(self.classes.names)), np.int64)
        targets[0, numbers[numbers >= 0]] = 1
        return {"targets": targets}

    def with_targets(self, numbers: Sequence[int], step: int) -> list[Example]:
        """See `RecordTask`: mixed as the inputs are."""
        examples = super().with_targets(numbers, step)
        targets = np.concatenate([e.targets for e in examples if e.targets is not None])
        mixed = self.training.mixed(targets, len(self.classes.names), numbers, step)
        if mixed is targets:
            return examples
        return [
            Example(e.ids, row[None], patches=e.patches)
            for e, row in zip(examples, mixed, strict=True)
        ]

    @cached_property
    def _weights(self) -> Float[Tensor, "C"] | None:
        owner, records = self.training.owner, self.training.records
        counts = Counter(label for i in owner.tolist() for label in labels_of(records[i]))
        check_counts(counts, self.processor.noun, self.recipe.model.multi_label)
        return weights_of(self.classes, counts, self.recipe)

    def check_size(self) -> None:
        """See `Task`: of the inputs that could be read."""
        _ = self._weights

    def loss(self, logits: torch.Tensor, targets: torch.Tensor) -> LossSum:
        """See `Task`."""
        weights = None if self._weights is None else self._weights.to(logits.device)
        multi = self.recipe.model.multi_label
        loss = binary_cross_entropy if multi else cross_entropy
        found = loss(logits, targets, self.recipe.train.label_smoothing, weights)
        if multi and targets.is_floating_point():  # shares count as one target, not one a class
            return LossSum(found.total / targets.shape[1], len(targets))
        return found

    def opening(self) -> list[str]:
        """See `Task`."""
        counts = Counter(chain.from_iterable(map(labels_of, self.training.records)))
        common = ", ".join(f"{name} {n:,}" for name, n in counts.most_common(8))
        sentences = [
            *self.data_sentences(),
            f"{len(self.classes.names)} classes, the most frequent: {common}",
        ]
        if long := int((np.bincount(self.training.owner) > 1).sum()):
            noun = counted(long, self.processor.noun)
            sentences.append(f"{noun} longer than the model are read by overlapping windows")
        return sentences

    def probabilities(
        self, model: Transformer, inputs: Inputs, precision: torch.dtype = torch.float32
    ) -> Iterator[np.ndarray]:
        """The probability of every class for each record, float32 [C]."""
        owner = inputs.owner
        begin = 0
        while begin < len(owner):
            end = min(len(owner), begin + CHUNK)
            while end < len(owner) and owner[end] == owner[end - 1]:  # not inside a record
                end += 1
            first, n = int(owner[begin]), int(owner[end - 1] - owner[begin]) + 1
            examples = inputs.examples(range(begin, end))
            own = owner[begin:end] - first
            yield from classify(model, examples, own, n, self.processor.batches, precision)
            begin = end

    def evaluate(
        self,
        model: Transformer,
        split: str,
        precision: torch.dtype = torch.float32,
        how: GenerateConfig | None = None,
        **limits: int | None,
    ) -> dict[str, Any]:
        """See `Task`; files that could not be read are counted as `unreadable`."""
        inputs = self.split(split)
        for record in inputs.records:
            check_labels(record, model.config.multi_label)
        rows = zip(self.probabilities(model, inputs, precision), inputs.records, strict=True)
        scores = scores_of(model, ((row, labels_of(of), shown(of)) for row, of in rows))
        unreadable = {"unreadable": len(inputs.skipped)} if inputs.skipped else {}
        return {**scores, **unreadable}

    def classify(self, model: Transformer, inputs: Sequence[Any]) -> np.ndarray:
        """See `Task`."""
        windows = [
            (number, window.example)
            for number, given in enumerate(inputs)
            for window in self.processor.windows(given)
        ]
        examples = [example for _, example in windows]
        owner = [number for number, _ in windows]
        return classify(model, examples, owner, len(inputs), self.processor.batches)

    def sample(self, model: Transformer) -> Sample | None:
        """See `Task`: the first inputs and their classes."""
        if not self.recipe.train.sample_tokens:
            return None
        inputs, rows, inputs_of = self.split(self.shown_split), [], []
        for record, row in zip(
            inputs.records[:SHOWN], self.probabilities(model, inputs), strict=False
        ):
            best = int(row.argmax())
            found = {"predicted": self.classes.names[best], "probability": float(row[best])}
            rows.append({"text": shown(record), "class": ", ".join(labels_of(record)), **found})
            inputs_of += self.processor.request_of(record)
        files = self.processor.reads_files
        lines = (
            f"{row['predicted']} ({row['probability']:.0%})"
            + (f", is {row['class']}" if files else f"  {row['text'][:80]}")
            for row in rows
        )
        return Sample("\n".join(lines), {"samples": rows, "inputs": inputs_of})

    def thumbnail(self, where: str) -> np.ndarray | None:
        """See `Task`."""
        number = self._held.get(where)
        return None if number is None else self.split("validation").picture(number)

    @cached_property
    def _held(self) -> dict[str, int]:
        records = self.split("validation").records if self.validated else ()
        return {record.where: number for number, record in enumerate(records)}

    def pace(self, elements_per_second: float) -> str:
        """See `Task`."""
        plain = super().pace(elements_per_second)
        if self.processor.elements == "tokens":
            return plain
        return f"{elements_per_second / self.length:,.0f} {self.processor.noun}s/s, {plain}"

    def excerpt(self, batch: Batch) -> str:
        """See `Task`."""
        if self.processor.elements == "tokens":
            return super().excerpt(batch)
        return f"{self.processor.noun}s of mean {float(batch.elements.float().mean()):.3g}"

    def card(self) -> Card:
        """See `Task`."""
        how = "FILE ..." if self.processor.elements == "patches" else "< lines"
        return self.card_of(f"glassformer classify {self.folder} {how}")

    def outcomes(self) -> tuple[str, ...]:
        """See `Task`."""
        return self.classes.names or tuple(map(str, range(self.recipe.model.class_count)))

    def target_name(self, index: int) -> str:
        """See `Task`: of several classes, bit c of the number is class c."""
        if not self.recipe.model.multi_label:
            return self.outcomes()[index]
        return ", ".join(name for c, name in enumerate(self.outcomes()) if index >> c & 1)

    def schema(self) -> dict[str, Any]:
        """See `Task`."""
        number = {"type": "number", "minimum": 0, "maximum": 1}
        return {
            "type": "object",
            "properties": {
                "labels": {"type": "array", "items": {"enum": list(self.outcomes())}},
                "probabilities": {"type": "object", "additionalProperties": number},
            },
            "required": ["labels", "probabilities"],
        }


def labels_of(record: Any) -> tuple[str, ...]:
    """The classes of a record; a row of parts without any has its target as its class."""
    target = getattr(record, "target", None)
    return record.labels or (() if target is None else (target,))


def check_labels(record: Any, multi: bool) -> None:
    """Raise DataError unless a record has one class, or may have several."""
    if (n := len(labels_of(record))) != 1 and not multi:
        raise DataError(
            f"{record.where} has {n} classes, not one; mend it or set model.multi_label=true"
        )


def check_counts(counts: Counter[str], noun: str, multi: bool) -> None:
    """Raise DataError if there is nothing to tell apart."""
    if len(counts) < 2 and not multi:
        raise DataError(
            f"every training {noun} is of the class {', '.join(counts)!r}; give {noun}s of at "
            "least "
            "two classes"
        )


def weights_of(classes: Classes, counts: Counter[str], recipe: Recipe) -> Float[Tensor, "C"] | None:
    """The weight of each class in the loss; None: all alike."""
    numbers = np.array([counts[name] for name in classes.names])
    return classes.weights(numbers, recipe.train.class_weights)
