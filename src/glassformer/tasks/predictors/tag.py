"""`tag`: a class for each word of sentences or documents of any length (Note D)."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from glassformer.core.errors import ConfigError, one_line
from glassformer.data.example import Example
from glassformer.metrics.spans import mark_spans, spans
from glassformer.processors.tokens.word_spans import split_punctuation
from glassformer.tasks.options import TagOptions
from glassformer.tasks.predictors.head import HeadPredictor
from glassformer.tasks.predictors.predictor import Parsed, Prediction
from glassformer.tasks.task import Task

TAGS = "tags"
"""Column of the tags in a table, where the run names none."""


@dataclass(frozen=True)
class Tags(Prediction):
    """The words of an input with the likeliest classes of each.

    `classes`, `probabilities`: best first, int64 and float32 [W, K]. `names`: of all classes.
    `column`: of a table.
    """

    words: Sequence[str]
    classes: np.ndarray
    probabilities: np.ndarray
    names: Sequence[str]
    column: str = TAGS
    as_columns: bool = False

    @property
    def tags(self) -> list[str]:
        """The likeliest class of each word by name."""
        return [self.names[int(i)] for i in self.classes[:, 0]]

    @property
    def value(self) -> list[tuple[str, str]]:
        """Each word with its tag."""
        return list(zip(self.words, self.tags, strict=True))

    def line(self) -> str:
        """See `Prediction`: `The/DET cats/NOUN`, or a line for each word and an empty one."""
        rows = [(word, one_line(tag)) for word, tag in self.value]
        if self.as_columns:
            return "".join(f"{word}\t{tag}\n" for word, tag in rows)
        return " ".join(f"{word}/{tag}" for word, tag in rows)

    def json(self) -> dict[str, Any]:
        """See `Prediction`: `top` if several classes were requested, `spans` if tags mark any."""
        best, rows = self.tags, self.probabilities.astype(np.float64).round(6).tolist()
        values: dict[str, Any] = {"words": [*self.words], "tags": best}
        values["probabilities"] = [row[0] for row in rows]
        if self.classes.shape[1] > 1:
            values["top"] = [
                [{"tag": self.names[i], "probability": p} for i, p in zip(*row, strict=True)]
                for row in zip(self.classes.tolist(), rows, strict=True)
            ]
        if mark_spans(self.names):
            values["spans"] = [
                {**span._asdict(), "text": " ".join(self.words[span.start : span.end])}
                for span in spans(best)
            ]
        return values

    def columns(self) -> dict[str, Any]:
        """See `Prediction`: a list of tags."""
        return {self.column: self.tags}


class Tag(HeadPredictor[TagOptions]):
    """A tag for each word.

    An input longer than the model is read by overlapping windows; the logits of a word come from
    the window in which it has the most context.
    """

    name, routes = "tag", ("tag",)
    together = 1 << 10

    def check(self, options: TagOptions) -> None:
        """Raise ConfigError for marks of punctuation in rows of parts."""
        if options.punctuation and "parts" in self.processor.capabilities:
            raise ConfigError(
                "--punctuation cuts lines of words, and this model reads lists of parts; leave it "
                "out."
            )

    def values(self, given: Any) -> dict[str, Any]:
        """See `Predictor`: a prediction has the words."""
        return {}

    def parse(
        self, given: Any, options: TagOptions, where: str = "The input", number: int = 1
    ) -> Parsed:
        """See `Predictor`: `about` has the words."""
        given = [] if given is None else given
        words = self.processor.words(given)
        if options.punctuation:
            given = words = split_punctuation(" ".join(words))
        windows = [one.example for one in self.processor.windows(given)]
        return Parsed(given, [one for one in windows if one.at is not None], words, number)

    def compute(
        self, examples: Sequence[Example], options: TagOptions
    ) -> Sequence[tuple[np.ndarray, np.ndarray]]:
        """See `HeadPredictor`: the likeliest classes, so that no logits of a document are kept."""
        logits = super().compute(examples, options)
        best = torch.cat([*logits]).softmax(-1).topk(min(options.top, logits[0].shape[1]))
        sizes = [len(one) for one in logits]
        rows = best.indices.split(sizes), best.values.split(sizes)
        return [(classes.numpy(), own.numpy()) for classes, own in zip(*rows, strict=True)]

    def prediction(
        self, one: Parsed, found: Sequence[tuple[np.ndarray, np.ndarray]], options: TagOptions
    ) -> Tags:
        """See `HeadPredictor`: words of several windows, one after another."""
        width = min(options.top, self.model.config.class_count)
        nothing = np.zeros((0, width), np.int64), np.zeros((0, width), np.float32)
        classes, probabilities = map(np.concatenate, zip(nothing, *found, strict=True))
        (column,) = self.columns(options)
        return Tags(
            one.about,
            classes,
            probabilities,
            self.model.config.class_names,
            column,
            options.columns,
        )

    def columns(self, options: TagOptions) -> tuple[str]:
        """See `Predictor`: the column of the training data."""
        own = self.task.recipe.data.tag_field
        return (TAGS if own is None or own.isdecimal() else own,)

    @classmethod
    def schema(cls, task: Task) -> dict[str, Any]:
        """See `Predictor`: the names of tags are listed."""
        tags = {"type": "array", "items": {"enum": list(task.objective.outcomes())}}
        values = {"words": {"type": "array", "items": {"type": "string"}}, "tags": tags}
        return {"type": "object", "properties": values, "required": list(values)}
