"""Token classification: a class for each word (Note D: one prediction per element)."""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property
from itertools import chain
from typing import Any

import numpy as np
import torch

from glassformer.axes import Float, Tensor
from glassformer.errors import ConfigError, DataError, counted
from glassformer.generate.config import GenerateConfig
from glassformer.generate.tag import Tags, tag
from glassformer.losses import LossSum, cross_entropy
from glassformer.metrics.classes import TagScore
from glassformer.metrics.spans import SpanScore, invalid_count, scheme_of
from glassformer.metrics.worst import Worst
from glassformer.models.transformer import Transformer
from glassformer.processors.inputs import Records
from glassformer.processors.processor import Processor
from glassformer.recipe.recipe import Recipe
from glassformer.tasks.classes import LARGEST_TABLE, Classes, class_names
from glassformer.tasks.records import RecordTask, with_vocabulary
from glassformer.tasks.task import Card, Sample

SHOWN, WORDS = 3, 24


class TokenClassification(RecordTask):
    """A class for each word of a sentence, or of the texts in a row of parts."""

    pipelines = ("token-classification",)
    inputs = ("words", "parts")
    capabilities = frozenset({"tags"})
    summary = "assigns a tag to each word of a text"
    verb = "tag"
    metrics = ("loss", "accuracy", "macro_f1", "f1")
    options = frozenset({"class_weights"})

    @cached_property
    def classes(self) -> Classes:
        """The classes of the model."""
        return Classes(self.recipe.model.classes)

    @classmethod
    def resolve(cls, recipe: Recipe, processor: Processor, records: Records) -> Recipe:
        """See `Task`. DataError: a training tag that `model.classes` lacks, or only one."""
        recipe, train = with_vocabulary(recipe, processor), records.get("train", ())
        for record in chain.from_iterable(records.values()):
            check_tags(processor, record)
        recipe = recipe.with_classes(sorted(set(chain.from_iterable(one.tags for one in train))))
        classes = Classes(recipe.model.classes)
        for record in train:
            classes.check(record.tags, record.where)
        if len(names := classes.names) < 2:
            raise DataError(
                f"every training word has the tag {', '.join(names)!r}; give two or more (see "
                "data.tag_field)"
            )
        if recipe.train.best == "f1" and not mark_spans(names):
            raise ConfigError(
                "train.best='f1' is of tags that mark spans, like B-PER; use accuracy, macro_f1 or "
                "loss."
            )
        counts = Counter(chain.from_iterable(one.tags for one in train))
        classes.weights(np.array([counts[name] for name in names]), recipe.train.class_weights)
        return recipe

    def target(self, record: Any, units: slice) -> dict[str, Any]:
        """See `RecordTask`."""
        return {"targets": self.classes.numbers(record.tags)[units]}

    @cached_property
    def _weights(self) -> Float[Tensor, "C"] | None:
        targets = np.concatenate([target["targets"] for target in self.targets])
        counts = np.bincount(targets, minlength=len(self.classes.names))
        return self.classes.weights(counts, self.recipe.train.class_weights)

    def loss(self, logits: torch.Tensor, targets: torch.Tensor) -> LossSum:
        """See `Task`."""
        weights = None if self._weights is None else self._weights.to(logits.device)
        return cross_entropy(logits, targets, self.recipe.train.label_smoothing, weights)

    def opening(self) -> list[str]:
        """See `Task`: also which scheme span tags follow, and how often they do not."""
        names, tags = self.classes.names, [record.tags for record in self.training.records]
        listed = f"{', '.join(names[:20])}{', ...' if len(names) > 20 else ''}"
        sentences = [*self.data_sentences(), f"{len(names)} tags: {listed}"]
        if (scheme := scheme_of(tags)) is not None:
            broken = counted(invalid_count(tags, scheme), "violation")
            sentences.append(f"tags mark spans by {scheme.name}, with {broken}")
        if long := int((np.bincount(self.training.owner) > 1).sum()):
            noun = counted(long, self.processor.noun)
            sentences.append(f"{noun} longer than the model are read by overlapping windows")
        return sentences

    def tag(self, model: Transformer, inputs: Iterable[Any], top: int = 1) -> Iterator[Tags]:
        """See `Task`."""
        return tag(model, self.processor, inputs, top)

    def evaluate(
        self,
        model: Transformer,
        split: str,
        precision: torch.dtype = torch.float32,
        how: GenerateConfig | None = None,
        **limits: int | None,
    ) -> dict[str, Any]:
        """See `Task`: `loss`, `accuracy`, a table by class; of spans `f1`, `precision`, `recall`.

        A tag that the model does not know is wrong, and counted by name in `unseen_classes`.
        """
        names = class_names(model)
        records = self.split(split).records
        for record in records:
            check_tags(self.processor, record)
        given = map(self.processor.given, records)
        found = tag(model, self.processor, given, len(names), precision)
        classes, score, spans, worst = Classes(names), TagScore(names), SpanScore(), Worst()
        nats = known = 0.0
        unseen: Counter[str] = Counter()
        for record, tags in zip(records, found, strict=True):
            gold, first = classes.numbers(record.tags), tags.classes[:, 0]
            pairs = zip(record.tags, gold.tolist(), strict=True)
            unseen.update(name for name, number in pairs if number < 0)
            losses = tag_losses(tags, gold)
            nats, known = nats + float(losses.sum()), known + len(losses)
            predicted = [names[i] for i in first]
            score.add(gold, first)
            spans.add(record.tags, predicted)
            if len(losses):
                worst.add(
                    float(losses.mean()), worst_row(self._words(record), record.tags, predicted)
                )
        marked = mark_spans(names)
        by_span = {n: v for n, v in spans.result().items() if n != "macro_f1"} if marked else {}
        confusion = {"names": list(names), "counts": score.confusion()}
        return {
            "loss": nats / max(1, known),
            **score.result(),
            **by_span,
            "table": spans.table() if marked else score.table(),
            **({} if len(names) > LARGEST_TABLE else {"confusion": confusion}),
            "worst": worst.rows(),
            **({"unseen_classes": dict(unseen)} if unseen else {}),
        }

    def sample(self, model: Transformer) -> Sample | None:
        """See `Task`: the first inputs with their tags, wrong ones beside the right."""
        if not self.recipe.train.sample_tokens:
            return None
        records = self.split(self.shown_split).records[:SHOWN]
        rows = []
        for record, tags in zip(
            records, self.tag(model, map(self.processor.given, records)), strict=True
        ):
            found = [self.classes.names[i] for i in tags.classes[:, 0]]
            words = zip(self._words(record)[:WORDS], record.tags, found, strict=False)
            rows.append([{"word": w, "tag": f, "right": t} for w, t, f in words])
        text = "\n".join(" ".join(map(_shown, row)) for row in rows)
        inputs = [one for record in records for one in self.processor.request_of(record)]
        return Sample(text, {"tagged": rows, "sample": text, "inputs": inputs})

    def _words(self, record: Any) -> list[str]:
        return self.processor.words(self.processor.given(record))

    def card(self) -> Card:
        """See `Task`."""
        return self.card_of(f"glassformer tag {self.folder} < lines")

    def outcomes(self) -> tuple[str, ...]:
        """See `Task`."""
        return self.classes.names or tuple(map(str, range(self.recipe.model.class_count)))

    def target_name(self, index: int) -> str:
        """See `Task`."""
        return self.outcomes()[index]

    def schema(self) -> dict[str, Any]:
        """See `Task`."""
        tags = {"type": "array", "items": {"enum": list(self.outcomes())}}
        words = {"type": "array", "items": {"type": "string"}}
        return {
            "type": "object",
            "properties": {"words": words, "tags": tags},
            "required": ["words", "tags"],
        }


def check_tags(processor: Any, record: Any) -> None:
    """Raise DataError unless a record has words, and a tag for each."""
    n, tags = len(processor.words(processor.given(record))), len(record.tags)
    if not n:
        raise DataError(f"{record.where} has no word to tag; give it a text, or remove the row")
    if n != tags:
        raise DataError(
            f"{record.where} has {counted(n, 'word')} and {counted(tags, 'tag')}; give one for "
            "each "
            "(see data.tag_field)"
        )


def tag_losses(tags: Tags, gold: np.ndarray) -> np.ndarray:
    """-log p of the right tag of each word whose tag the model knows, float64."""
    p = np.where(tags.classes == gold[:, None], tags.probabilities, 0).sum(1)
    return -np.log(np.maximum(p, 1e-30))[gold >= 0].astype(np.float64)


def mark_spans(names: Sequence[str]) -> bool:
    """Whether most of these tags mark spans."""
    return scheme_of([name] for name in names) is not None


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


def _shown(word: dict[str, str]) -> str:
    plain = f"{word['word']}/{word['tag']}"
    return plain if word["tag"] == word["right"] else f"{plain}[not {word['right']}]"
