"""Token classification: a class for each word (Note D: one prediction per element)."""

from collections import Counter
from collections.abc import Iterable, Sequence
from itertools import chain
from typing import Any

import numpy as np

from glassformer.core.errors import ConfigError, DataError, amount
from glassformer.metrics.baselines import Scores, Tagged, tag_baselines
from glassformer.metrics.classes import TagScore
from glassformer.metrics.spans import SCHEMES, SpanScore, mark_spans, unknown_letters
from glassformer.models.transformer import Transformer
from glassformer.processors.inputs import Records
from glassformer.processors.processor import Processor
from glassformer.recipe.recipe import Recipe
from glassformer.tasks.evaluate import EVERYTHING, Evaluation, blocks
from glassformer.tasks.objectives.labels import Classes, LabelObjective, LabelScores
from glassformer.tasks.objectives.objective import Sample
from glassformer.tasks.options import TagOptions
from glassformer.tasks.predictors.tag import Tag

SHOWN, WORDS = 3, 24


class WordClasses(LabelObjective):
    """A class for each word of a sentence, or of the texts in a row of parts."""

    outcome = "tags"
    metrics = ("loss", "accuracy", "macro_f1", "f1")

    @classmethod
    def resolve(cls, recipe: Recipe, processor: Processor, records: Records) -> Recipe:
        """See `Objective`. DataError: a training tag that `model.classes` lacks, or only one."""
        recipe, train = recipe.with_vocabulary(processor.vocab_size), records.get("train", ())
        check_tags(processor, chain.from_iterable(records.values()))
        recipe = recipe.with_classes(sorted(set(chain.from_iterable(one.tags for one in train))))
        classes = Classes(recipe.model.classes)
        for record in train:
            classes.check(record.tags, record.where)
        if len(names := classes.names) < 2:
            raise DataError(
                f"every training word has the tag {', '.join(names)!r}; give two or more (see "
                "data.tag_field)"
            )
        held_out = chain.from_iterable(one.tags for one in records.get("validation", ()))
        classes.check_some_known(held_out, "validation")
        if recipe.train.evaluate.best == "f1" and not mark_spans(names):
            raise ConfigError(
                "train.evaluate.best='f1' is of tags that mark spans, like B-PER; use accuracy, "
                "macro_f1 or loss."
            )
        counts = Counter(chain.from_iterable(one.tags for one in train))
        classes.weights(np.array([counts[name] for name in names]), recipe.train.class_weights)
        return recipe

    def target(self, record: Any, units: slice) -> dict[str, Any]:
        """Numbers of the tags of these words, int64; -1 for an unknown tag."""
        return {"targets": self.classes.numbers(record.tags)[units]}

    def counts(self) -> np.ndarray:
        """Number of training targets of each tag, int64 [C]."""
        targets = np.concatenate([target["targets"] for target in self.targets])
        return np.bincount(targets, minlength=len(self.classes.names))

    def opening(self) -> list[str]:
        """See `Objective`: also whether tags mark spans."""
        names = self.classes.names
        listed = f"{', '.join(names[:20])}{', ...' if len(names) > 20 else ''}"
        sentences = [*super().opening(), f"{len(names)} tags: {listed}"]
        if mark_spans(names):
            sentences.append("tags mark spans")
        return [*sentences, *self.long_inputs()]

    def evaluate(
        self, model: Transformer, split: str, of: Evaluation = EVERYTHING
    ) -> dict[str, Any]:
        """See `Objective`: `loss`, `accuracy`, a table by class; `f1` and its parts of spans.

        A tag that the model does not know is wrong, and counted by name in `unseen_classes`.
        """
        scores, records = LabelScores(model), self.records_to_score(split, of)
        check_tags(self.processor, records)
        names, given = scores.names, [*map(self.processor.given, records)]

        def compute(inputs: Sequence[Any]) -> list[list[np.ndarray]]:
            every = TagOptions(top=len(names))
            found = Tag(model, self.task, of.precision).predict_each(inputs, every)
            return [[tags.classes, tags.probabilities] for tags in found]

        found = chain.from_iterable(of.processes.spread(blocks(given), compute))
        score, spans = TagScore(names), SpanScore()
        for record, (classes, probabilities) in zip(records, found, strict=True):
            ranked = np.asarray(classes, np.int64).reshape(-1, len(names))
            gold, first = scores.gold(record.tags), ranked[:, 0]
            predicted = [names[i] for i in first]
            score.add(gold, first)
            spans.add(record.tags, predicted)
            p = np.asarray(probabilities, np.float32).reshape(ranked.shape)
            if len(losses := tag_losses(ranked, p, gold)):
                row = worst_row(self._words(record), record.tags, predicted)
                scores.add(float(losses.sum()), len(losses), float(losses.mean()), row)
        marked = mark_spans(names)
        by_span = {n: v for n, v in spans.result().items() if n != "macro_f1"} if marked else {}
        table = spans.table() if marked else score.table()
        return scores.result(score.result() | by_span, table, score.confusion())

    def explain_scores(self) -> list[str]:
        """Sentences on accuracy, macro F1 and, where tags mark them, spans."""
        said = ["Accuracy is of words; macro F1 is the mean over the tags that occur."]
        spans = "F1, precision and recall are of spans, right in kind, beginning and end."
        return [*said, spans] if mark_spans(self.outcomes()) else said

    @property
    def main_metric(self) -> str:
        """F1 of spans if tags mark them, else accuracy."""
        return "f1" if mark_spans(self.outcomes()) else "accuracy"

    def baseline_scores(self, train: Sequence[Any], asked: Sequence[Any]) -> Scores:
        """Scores of the most frequent tag of all words, and of each word."""
        names = self.outcomes()
        row = lambda one: Tagged(self._words(one), one.tags)
        return tag_baselines(names, mark_spans(names), map(row, train), list(map(row, asked)))

    def make_sample(self, model: Transformer) -> Sample:
        """See `Objective`: the first inputs with their tags, wrong ones beside the right."""
        (records, given), rows = self.samples(SHOWN), []
        inputs = map(self.processor.given, records)
        found = Tag(model, self.task).predict_each(inputs, TagOptions())
        for record, tags in zip(records, found, strict=True):
            words = zip(self._words(record)[:WORDS], record.tags, tags.tags, strict=False)
            rows.append([{"word": w, "tag": f, "right": t} for w, t, f in words])
        text = "\n".join(" ".join(map(_show, row)) for row in rows)
        return Sample(text, {"tagged": rows, "sample": text, "inputs": given})

    def _words(self, record: Any) -> list[str]:
        return self.processor.words(self.processor.given(record))


def check_tags(processor: Any, records: Iterable[Any]) -> None:
    """Raise DataError unless each record has words, and a tag of a known scheme for each."""
    found = set[str]()
    for record in records:
        n, tags = len(processor.words(processor.given(record))), len(record.tags)
        if not n:
            raise DataError(f"{record.where} has no word to tag; give it a text, or remove the row")
        if n != tags:
            raise DataError(
                f"{record.where} has {amount(n, 'word')} and {amount(tags, 'tag')}; give one "
                "for each (see data.tag_field)"
            )
        found.update(record.tags)
    if strange := unknown_letters(found):
        raise DataError(
            f"the tags {', '.join(strange[:4])} stand among tags that mark spans, but no known "
            f"scheme ({SCHEMES}) has their letters; write them in one of these"
        )


def tag_losses(classes: np.ndarray, probabilities: np.ndarray, gold: np.ndarray) -> np.ndarray:
    """-log p of the right tag of each word whose tag the model knows, float64."""
    p = np.where(classes == gold[:, None], probabilities, 0).sum(1)
    return -np.log(np.maximum(p, 1e-30))[gold >= 0].astype(np.float64)


def worst_row(
    words: Sequence[str], tags: Sequence[str], predicted: Sequence[str]
) -> dict[str, Any]:
    """An input with its wrong tags, for the report."""
    wrong = [
        f"{word}: {found}, not {gold}"
        for word, gold, found in zip(words, tags, predicted, strict=True)
        if found != gold
    ]
    return {"text": " ".join(words[:60]), "wrong": "; ".join(wrong[:12])}


def _show(word: dict[str, str]) -> str:
    plain = f"{word['word']}/{word['tag']}"
    return plain if word["tag"] == word["right"] else f"{plain}[not {word['right']}]"
