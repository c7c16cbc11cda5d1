"""Classification: one class for each input, or any number of them (Note D)."""

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from functools import cached_property
from itertools import chain, islice
from typing import Any

import numpy as np
import torch

from glassformer.core.batch import Batch
from glassformer.core.errors import ConfigError, DataError
from glassformer.data.example import Example
from glassformer.data.records.labelled import Labelled
from glassformer.layers.losses import LossSum, binary_cross_entropy
from glassformer.metrics.baselines import Labels as LabelledTexts
from glassformer.metrics.baselines import Scores, class_baselines
from glassformer.metrics.classes import ClassScore, MultiLabelScore
from glassformer.models.transformer import Transformer
from glassformer.processors.inputs import Inputs, Records
from glassformer.processors.processor import Processor
from glassformer.recipe.recipe import Recipe
from glassformer.tasks.classes import Classes
from glassformer.tasks.evaluate import EVERYTHING, Evaluation, blocks
from glassformer.tasks.labels import LabelScores, LabelTask
from glassformer.tasks.options import ClassifyOptions
from glassformer.tasks.predictors.classify import Classify, Labels
from glassformer.tasks.predictors.embed import Embed
from glassformer.tasks.predictors.predictor import ALL, Parsed
from glassformer.tasks.shown import shown
from glassformer.tasks.task import SHOWN, Sample

FEW_IDS = 10
"""Training inputs for which nearly as many classes are refused."""
MOST_DISTINCT = 0.8
"""Classes for each training input that are still believed."""
NUMBER = re.compile(r"[+-]?(\d+([.,]\d*)?|[.,]\d+|inf(inity)?)(e[+-]?\d+)?", re.IGNORECASE)
WHOLE = re.compile(r"[+-]?\d+")
SEPARATORS = ";,|"
"""Usual separators of several classes in a cell."""


class Classification(LabelTask):
    """A class for each input, or several (`model.multi_label`)."""

    uses = (Classify, Embed)
    capabilities, outcome_kind = ("classes",), "class"
    summary = "classifies {inputs}"
    verb = "classify"
    metrics = ("loss", "accuracy", "macro_f1")

    @classmethod
    def resolve(cls, recipe: Recipe, processor: Processor, records: Records) -> Recipe:
        """See `Task`. DataError: a class unknown to the model, or only one."""
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
        _check_sides(records.get("train", ()), len(counts))
        held_out = chain.from_iterable(map(labels_of, records.get("validation", ())))
        classes.check_some_known(held_out, "validation")
        numbers = np.array([counts[name] for name in classes.names])
        classes.weights(numbers, recipe.train.class_weights)  # refused before anything is written
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
        mixed = self.processor.mixed(targets, len(self.classes.names), numbers, step)
        if mixed is targets:
            return examples
        return [
            Example(e.ids, row[None], patches=e.patches)
            for e, row in zip(examples, mixed, strict=True)
        ]

    def counts(self) -> np.ndarray:
        """See `LabelTask`. DataError: there is only one class."""
        owner, records = self.training.owner, self.training.records
        counts = Counter(label for i in owner.tolist() for label in labels_of(records[i]))
        check_counts(counts, self.processor.noun, self.recipe.model.multi_label)
        return np.array([counts[name] for name in self.classes.names])

    def check_size(self) -> None:
        """See `Task`: of the inputs that could be read."""
        _ = self.weights

    def loss(self, logits: torch.Tensor, targets: torch.Tensor) -> LossSum:
        """See `Task`."""
        if not self.recipe.model.multi_label:
            return super().loss(logits, targets)
        weights = None if self.weights is None else self.weights.to(logits.device)
        found = binary_cross_entropy(logits, targets, self.recipe.train.label_smoothing, weights)
        if targets.is_floating_point():  # shares count as one target, not one a class
            return LossSum(found.total / targets.shape[1], len(targets))
        return found

    def opening(self) -> list[str]:
        """See `Task`."""
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
            predictor = Classify(model, self, of.precision)
            found = predictor.predict(parsed, ClassifyOptions(), ALL)
            return np.stack([one.probabilities for one in found if isinstance(one, Labels)])

        for rows in of.processes.spread(blocks(chosen), compute):
            yield from rows

    def evaluate(
        self, model: Transformer, split: str, of: Evaluation = EVERYTHING
    ) -> dict[str, Any]:
        """See `Task`; files that could not be read are counted as `unreadable`."""
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

    def measured(self) -> list[str]:
        """See `Task`."""
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
        """See `LabelTask`."""
        return "micro_f1" if self.recipe.model.multi_label else "accuracy"

    def baseline_scores(self, train: Sequence[Any], asked: Sequence[Any]) -> Scores:
        """See `LabelTask`."""
        texts, several = self.processor.read_texts, self.recipe.model.multi_label
        row = lambda one: LabelledTexts(texts(one), labels_of(one))
        return class_baselines(
            self.outcomes(), several, list(map(row, train)), list(map(row, asked))
        )

    def sampled(self, model: Transformer) -> Sample:
        """See `Task`: the first inputs and their classes."""
        inputs, (records, given) = self.split(self.shown_split), self.samples(SHOWN)
        found = self.probabilities(model, inputs, EVERYTHING, range(len(records)))
        names, several = self.classes.names, model.config.multi_label
        rows = [_row(one, Labels(names, p, several)) for one, p in zip(records, found, strict=True)]
        beside = "  {text:.80}" if self.processor.tokenizer else ", is {class}"
        line = "{predicted} ({probability:.0%})" + beside
        lines = [line.format(**row) for row in rows]
        return Sample("\n".join(lines), {"samples": rows, "inputs": given})

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

    @property
    def use(self) -> str:
        """See `RecordTask`."""
        patches = self.processor.elements == "patches"
        return f"glassformer classify {self.folder} {'FILE ...' if patches else '< lines'}"

    def target_name(self, index: int) -> str:
        """See `Task`: of several classes, bit c of the number is class c."""
        if not self.recipe.model.multi_label:
            return super().target_name(index)
        return ", ".join(name for c, name in enumerate(self.outcomes()) if index >> c & 1)


def _row(record: Any, found: Labels) -> dict[str, Any]:
    """A record with what is predicted, for the report."""
    predicted, probability = ", ".join(found.labels), float(found.probabilities.max())
    row = {"text": shown(record), "class": ", ".join(labels_of(record))}
    return row | {"predicted": predicted, "probability": probability}


def _check_sides(records: Sequence[Any], classes: int) -> None:
    """Raise DataError for many more classes than different texts: the columns are swapped."""
    texts = {(record.text, record.pair) for record in records if isinstance(record, Labelled)}
    if len(records) >= FEW_IDS and 0 < 2 * len(texts) < classes:
        raise DataError(
            f"the {len(records):,} training texts are {len(texts):,} different ones of "
            f"{classes:,} classes; swap data.text_field and data.label_field"
        )


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
    """Check the classes of the training inputs, with the number of each.

    DataError: only one class, nearly as many as inputs, decimals, or several in one name.
    """
    if len(counts) < 2 and not multi:
        raise DataError(
            f"every training {noun} is of the class {', '.join(counts)!r}; give {noun}s of at "
            "least two classes"
        )
    few = ", ".join(map(repr, sorted(counts)[:3]))
    if counts.total() >= FEW_IDS and len(counts) > MOST_DISTINCT * counts.total():
        raise DataError(
            f"the {counts.total():,} training {noun}s have {len(counts):,} different classes "
            f"({few}, ...), as row numbers or texts would; set data.label_field to the classes"
        )
    if (
        len(counts) > 2
        and all(map(NUMBER.fullmatch, counts))
        and not all(map(WHOLE.fullmatch, counts))
    ):
        raise DataError(
            f"the classes are {len(counts):,} numbers with decimals ({few}, ...), which only a "
            "regression predicts; write ranges of them as words, for example low and high"
        )
    joined = ((name, mark) for name in counts for mark in SEPARATORS if mark in name)
    if multi and (found := next((j for j in joined if counts.keys() & j[0].split(j[1])), None)):
        raise DataError(
            f"the class {found[0]!r} has another class in it and a {found[1]!r}; set "
            f"data.label_separator={found[1]!r}, at which the classes of a {noun} are cut"
        )
