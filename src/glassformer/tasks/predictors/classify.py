"""`classify`: the class of each input, or any number of classes (Note D)."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import reduce
from typing import Any

import numpy as np
import torch

from glassformer.core.axes import Tensor
from glassformer.core.errors import ConfigError, one_line
from glassformer.data.example import Example
from glassformer.tasks.options import ClassifyOptions
from glassformer.tasks.predictors.head import HeadPredictor
from glassformer.tasks.predictors.predictor import Parsed, Prediction
from glassformer.tasks.task import Task

LIKELY = 0.5
"""Probability from which a class holds, where several may."""


@dataclass(frozen=True)
class Labels(Prediction):
    """Probabilities of the classes of an input, float32 [C]; empty: the input is blank.

    `several`: any number of classes may hold. They are then sigmoids; else they sum to 1.
    """

    names: Sequence[str]
    probabilities: np.ndarray
    several: bool
    how: ClassifyOptions = field(default_factory=ClassifyOptions)

    @property
    def ranked(self) -> list[int]:
        """All classes, the likeliest first."""
        return np.argsort(-self.probabilities, kind="stable").tolist()

    @property
    def chosen(self) -> list[int]:
        """The classes that hold: the likeliest, or those that reach the threshold."""
        if not self.several:
            return self.ranked[:1]
        least = LIKELY if self.how.threshold is None else self.how.threshold
        return [i for i, p in enumerate(self.probabilities.tolist()) if p >= least]

    @property
    def labels(self) -> list[str]:
        """The classes that hold by name."""
        return [self.names[i] for i in self.chosen]

    @property
    def scores(self) -> list[float]:
        """The probabilities of the classes that hold."""
        return [round(p, 6) for p in self.probabilities[self.chosen].tolist()]

    @property
    def value(self) -> Any:
        """The class, None of a blank input; of several a list."""
        return self.labels if self.several else next(iter(self.labels), None)

    def line(self) -> str:
        """See `Prediction`: `name`; with scores `0.9 <TAB> name`; of several `name,name`."""
        p, names = self.probabilities, [one_line(name) for name in self.names]
        if self.several and self.how.top is None and len(p):
            rows = [[f"{p[i]:.4f}" for i in self.chosen], [names[i] for i in self.chosen]]
            return "\t".join(map(",".join, rows if self.how.scores else rows[1:]))
        best = self.ranked[: self.how.top or 1]
        return "\t".join(f"{p[i]:.4f}\t{names[i]}" if self.how.scores else names[i] for i in best)

    def json(self) -> dict[str, Any]:
        """See `Prediction`; where only one class holds also `label` and its `probability`."""
        every, top = self._every(), self.how.top
        one = {"label": self.value, "probability": next(iter(self.scores), None)}
        listed = [self.names[i] for i in self.ranked[:top]] if top else every
        kept = {name: every[name] for name in listed}
        return {"labels": self.labels, **({} if self.several else one), "probabilities": kept}

    def columns(self) -> dict[str, Any]:
        """See `Prediction`: None of a blank input."""
        values: dict[str, Any] = {"label": self.value, "score": next(iter(self.scores), None)}
        if self.several:
            values = {"labels": self.labels, "scores": self.scores}
        if self.how.scores:
            values["probabilities"] = self._every()
        return values if len(self.probabilities) else dict.fromkeys(values)

    def _every(self) -> dict[str, float]:
        rounded = (round(p, 6) for p in self.probabilities.tolist())
        return dict(zip(self.names, rounded, strict=False))


class Classify(HeadPredictor[ClassifyOptions]):
    """Classes of inputs: means over their windows."""

    name, routes = "classify", ("classify",)

    def check(self, options: ClassifyOptions) -> None:
        """Raise ConfigError for a threshold of one class, or files that may be skipped."""
        if options.threshold is not None and not self.model.config.multi_label:
            raise ConfigError(
                "--threshold is for model.multi_label, and this model gives one class; leave it "
                "out."
            )
        if options.skip_bad and self.processor.tokenizer:
            raise ConfigError(
                "--skip-bad is for files of images or audio, and this model reads lines; leave it "
                "out."
            )

    def parse(
        self, given: Any, options: ClassifyOptions, where: str = "The input", number: int = 1
    ) -> Parsed:
        """See `Predictor`: a text of nothing but space is blank."""
        windows = [] if given is None or is_blank(given) else self.processor.windows(given)
        return Parsed(given, [one.example for one in windows], number=number)

    def compute(self, examples: Sequence[Example], options: ClassifyOptions) -> Sequence[Tensor]:
        """See `HeadPredictor`: the probabilities of the classes."""
        logits = torch.cat(super().compute(examples, options))
        several = self.model.config.multi_label
        return (logits.sigmoid() if several else logits.softmax(-1)).split(1)

    def prediction(self, one: Parsed, found: Sequence[Tensor], options: ClassifyOptions) -> Labels:
        """See `HeadPredictor`: a mean over windows."""
        p = (reduce(torch.add, found) / len(found))[0].numpy() if found else np.zeros(0, np.float32)
        config = self.model.config
        return Labels(config.class_names, p, config.multi_label, options)

    def columns(self, options: ClassifyOptions) -> tuple[str, ...]:
        """See `Predictor`: names as of `Labels.columns`."""
        own = ("labels", "scores") if self.model.config.multi_label else ("label", "score")
        return (*own, "probabilities") if options.scores else own

    @classmethod
    def schema(cls, task: Task) -> dict[str, Any]:
        """See `Predictor`: the names of classes are listed."""
        number = {"type": "number", "minimum": 0, "maximum": 1}
        values = {
            "labels": {"type": "array", "items": {"enum": list(task.objective.outcomes())}},
            "probabilities": {"type": "object", "additionalProperties": number},
        }
        return {"type": "object", "properties": values, "required": list(values)}


def is_blank(given: Any) -> bool:
    """Whether an input is a text of nothing but space, or texts of which each is; no file is."""
    match given:
        case str():
            return not given.strip()
        case {"text": str(text), **rest} if not rest:
            return not text.strip()
        case list() | tuple():
            return all(map(is_blank, given))
    return False
