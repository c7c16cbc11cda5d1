"""InputClasses: one class for each input, or any number of them (Note D)."""

from collections import Counter
from collections.abc import Iterator, Sequence
from functools import cached_property
from itertools import chain, islice
from typing import Any

import numpy as np
import torch

from glassformer.core.batch import Batch
from glassformer.core.errors import ConfigError
from glassformer.data.example import Example
from glassformer.layers.losses import LossSum, binary_cross_entropy
from glassformer.metrics.baselines import Labels as LabelledTexts
from glassformer.metrics.baselines import Scores, class_baselines
from glassformer.metrics.classes import ClassScore, MultiLabelScore
from glassformer.models.transformer import Transformer
from glassformer.processors.inputs import Inputs, Records
from glassformer.processors.processor import Processor
from glassformer.recipe.recipe import Recipe
from glassformer.tasks.evaluate import EVERYTHING, Evaluation, blocks
from glassformer.tasks.objectives.examples import Rows, preview
from glassformer.tasks.objectives.labels import (
    Classes,
    LabelObjective,
    LabelScores,
    check_counts,
    check_labels,
    check_sides,
    labels_of,
)
from glassformer.tasks.objectives.objective import SHOWN
from glassformer.tasks.options import ClassifyOptions
from glassformer.tasks.predictors.classify import Classify, Labels
from glassformer.tasks.predictors.predictor import ALL, Parsed


class InputClasses(LabelObjective):
    """A class for each input, or several (`model.multi_label`)."""

    outcome = "class"
    metrics = ("loss", "accuracy", "macro_f1")

    @classmethod
    def resolve(cls, recipe: Recipe, processor: Processor, records: Records) -> Recipe:
        """See `Objective`. DataError: a class unknown to the model, or only one."""
        recipe = recipe.with_vocabulary(processor.vocab_size)
        model = recipe.model
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
        check_counts(counts, processor.noun, multi)
        check_sides(records.get("train", ()), len(counts))
        held_out = chain.from_iterable(map(labels_of, records.get("validation", ())))
        classes.check_some_known(held_out, "validation")
        numbers = np.array([counts[name] for name in classes.names])
        classes.weights(numbers, recipe.train.class_weights)  # refused before anything is written
        return recipe

    def target(self, record: Any, units: slice) -> dict[str, Any]:
        """Classes of a record as a target: one number [1], or 0 and 1 for each class [1, C]."""
        numbers = self.classes.numbers(labels_of(record))
        if not self.recipe.model.multi_label:
            return {"targets": numbers[:1]}
        targets = np.zeros((1, len(self.classes.names)), np.int64)
        targets[0, numbers[numbers >= 0]] = 1
        return {"targets": targets}

    def examples(
        self, inputs: Inputs, numbers: Sequence[int], step: int | None = None
    ) -> list[Example]:
        """See `ExampleObjective`: mixed as the inputs are."""
        examples = super().examples(inputs, numbers, step)
        targets = np.concatenate([e.targets for e in examples if e.targets is not None])
        mixed = self.processor.mixed(targets, len(self.classes.names), numbers, step)
        if mixed is targets:
            return examples
        return [
            Example(e.ids, row[None], patches=e.patches)
            for e, row in zip(examples, mixed, strict=True)
        ]

    def counts(self) -> np.ndarray:
        """See `LabelObjective`. DataError: there is only one class."""
        records = map(self.training.record, range(len(self.training.owner)))
        counts = Counter(chain.from_iterable(map(labels_of, records)))
        check_counts(counts, self.processor.noun, self.recipe.model.multi_label)
        return np.array([counts[name] for name in self.classes.names])

    def check_size(self) -> None:
        """See `Objective`: of the inputs that could be read."""
        _ = self.weights

    def loss(self, logits: torch.Tensor, targets: torch.Tensor) -> LossSum:
        """Cross-entropy of one class, or the binary one of each where several may hold."""
        if not self.recipe.model.multi_label:
            return super().loss(logits, targets)
        weights = None if self.weights is None else self.weights.to(logits.device)
        found = binary_cross_entropy(logits, targets, self.recipe.train.label_smoothing, weights)
        if targets.is_floating_point():  # shares count as one target, not one a class
            return LossSum(found.total / targets.shape[1], len(targets))
        return found

    def opening(self) -> list[str]:
        """Sentences on the training data, its classes, and inputs longer than the model."""
        counts = Counter(chain.from_iterable(map(labels_of, self.training.records)))
        common = ", ".join(f"{name} {n:,}" for name, n in counts.most_common(8))
        classes = f"{len(self.classes.names)} classes, the most frequent: {common}"
        return [*super().opening(), classes, *self.long_inputs()]

    def probabilities(
        self, model: Transformer, inputs: Inputs, of: Evaluation, chosen: Sequence[int]
    ) -> Iterator[np.ndarray]:
        """The probability of every class for each chosen record, float32 [C]."""
        first = np.searchsorted(inputs.owner, np.arange(len(inputs.records) + 1))

        def compute(part: Sequence[int]) -> np.ndarray:
            windows = [range(first[i], first[i + 1]) for i in part]
            examples = iter(inputs.examples(list(chain.from_iterable(windows))))
            parsed = [Parsed(None, [*islice(examples, len(own))]) for own in windows]
            predictor = Classify(model, self.task, of.precision)
            found = predictor.predict(parsed, ClassifyOptions(), ALL)
            return np.stack([one.probabilities for one in found if isinstance(one, Labels)])

        for rows in of.processes.spread(blocks(chosen), compute):
            yield from rows

    def evaluate(
        self, model: Transformer, split: str, of: Evaluation = EVERYTHING
    ) -> dict[str, Any]:
        """See `Objective`; files that could not be read are counted as `unreadable`."""
        inputs = self.split(split)
        for record in inputs.records:
            check_labels(record, model.config.multi_label)
        scores, multi = LabelScores(model), model.config.multi_label
        score = (MultiLabelScore if multi else ClassScore)(scores.names)
        chosen = of.records(len(inputs.records))
        rows = self.probabilities(model, inputs, of, chosen)
        for row, number in zip(rows, chosen, strict=True):
            record = inputs.records[number]
            p, labels = row.astype(np.float64)[None], labels_of(record)
            gold, names = scores.gold(labels), scores.names
            if isinstance(score, MultiLabelScore):
                truth = np.zeros((1, len(names)), bool)
                truth[0, gold[gold >= 0]] = True
                score.add(truth, p, unseen=(gold < 0).sum(keepdims=True))
                right, known = np.where(truth, p, 1 - p), len(names)
            else:
                score.add(gold[:1], p)
                known = int(gold[0] >= 0)
                right = p[0, gold[:known]]
            loss = float(0.0 - np.log(np.maximum(right, 1e-30)).sum())
            scores.add(loss, known, loss, _row(record, Labels(names, row, multi)))
        confusion = score.confusion() if isinstance(score, ClassScore) else None
        reliability = {"reliability": score.calibration.bins()}
        found = scores.result(score.result(), score.table(), confusion, **reliability)
        return found | ({"unreadable": len(inputs.skipped)} if inputs.skipped else {})

    def explain_scores(self) -> list[str]:
        """Sentences on macro F1, and on the scores of several classes."""
        said = "Macro F1 is the mean over the classes that occur."
        if not self.recipe.model.multi_label:
            return [said]
        return [
            "A class is predicted from a probability of 0.5; accuracy: all classes of an input are "
            "right; micro F1 counts every class of every input alike.",
            said,
        ]

    @property
    def main_metric(self) -> str:
        """Micro F1 where several classes may hold, else accuracy."""
        return "micro_f1" if self.recipe.model.multi_label else "accuracy"

    def baseline_scores(self, train: Sequence[Any], asked: Sequence[Any]) -> Scores:
        """Scores of the majority class, and of naive Bayes for texts."""
        texts, several = self.processor.read_texts, self.recipe.model.multi_label
        row = lambda one: LabelledTexts(texts(one), labels_of(one))
        return class_baselines(
            self.outcomes(), several, list(map(row, train)), list(map(row, asked))
        )

    def rows(self, model: Transformer) -> Rows:
        """The first records with their predicted classes, and their inputs."""
        inputs, (records, given) = self.split(self.shown_split), self.samples(SHOWN)
        found = self.probabilities(model, inputs, EVERYTHING, range(len(records)))
        names, several = self.classes.names, model.config.multi_label
        rows = [_row(one, Labels(names, p, several)) for one, p in zip(records, found, strict=True)]
        return rows, given

    @property
    def line(self) -> str:  # pyright: ignore[reportIncompatibleVariableOverride]
        """A row of a sample, for a person: class, probability, and the text or the right class."""
        beside = "  {text:.80}" if self.processor.tokenizer else ", is {class}"
        return "{predicted} ({probability:.0%})" + beside

    def thumbnail(self, where: str) -> np.ndarray | None:
        """A validation input as an array to look at; None: there is none of this name."""
        number = self._held.get(where)
        return None if number is None else self.split("validation").picture(number)

    @cached_property
    def _held(self) -> dict[str, int]:
        records = self.split("validation").records if self.validated else ()
        return {record.where: number for number, record in enumerate(records)}

    def pace(self, elements_per_second: float) -> str:
        """Training speed in inputs and elements for each second."""
        plain = super().pace(elements_per_second)
        if self.processor.elements == "tokens":
            return plain
        return f"{elements_per_second / self.feed.length:,.0f} {self.processor.noun}s/s, {plain}"

    def excerpt(self, batch: Batch) -> str:
        """The beginning of the first text of a batch, or the mean of its patches."""
        if self.processor.elements == "tokens":
            return super().excerpt(batch)
        return f"{self.processor.noun}s of mean {float(batch.elements.float().mean()):.3g}"

    @property
    def use(self) -> str:
        """The command that uses the model, with an input of its kind."""
        patches = self.processor.elements == "patches"
        return f"glassformer classify {self.folder} {'FILE ...' if patches else '< lines'}"

    def target_name(self, index: int) -> str:
        """See `Objective`: of several classes, bit c of the number is class c."""
        if not self.recipe.model.multi_label:
            return super().target_name(index)
        return ", ".join(name for c, name in enumerate(self.outcomes()) if index >> c & 1)


def _row(record: Any, found: Labels) -> dict[str, Any]:
    """A record with what is predicted, for the report."""
    predicted, probability = ", ".join(found.labels), float(found.probabilities.max())
    row = {"text": preview(record), "class": ", ".join(labels_of(record))}
    return row | {"predicted": predicted, "probability": probability}
