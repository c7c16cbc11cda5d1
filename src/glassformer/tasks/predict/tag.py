"""Tags of the words of sentences or documents of any length."""

from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain, islice
from typing import Any

import numpy as np
import torch

from glassformer.core.axes import Float, Tensor
from glassformer.data.example import Example
from glassformer.metrics.spans import mark_spans, spans
from glassformer.models.transformer import Transformer
from glassformer.processors.processor import Processor
from glassformer.tasks.predict.classify import answer_steps, answers
from glassformer.tasks.predict.gradually import Steps

TOGETHER = 1 << 15
"""Elements that are waited for before they are computed: enough to pack well, few enough to stay in
memory."""


@dataclass(frozen=True)
class Tags:
    """The likeliest classes of each word, best first, and their probabilities: int64 and float32
    [W, K]."""

    classes: np.ndarray
    probabilities: np.ndarray

    def __getitem__(self, words: slice) -> "Tags":
        """Those of some words."""
        return Tags(self.classes[words], self.probabilities[words])

    def labels(self, names: Sequence[str]) -> list[Any]:
        """The likeliest class of each word by name."""
        return [names[i] for i in self.classes[:, 0].tolist()]

    def as_json(self, names: Sequence[str]) -> dict[str, Any]:
        """Plain values beside the words: `tags`, `probabilities`, `top` if several were asked for,
        and `spans` if the tags mark any."""
        best, rows = self.labels(names), self.probabilities.astype(np.float64).round(6).tolist()
        values: dict[str, Any] = {"tags": best, "probabilities": [row[0] for row in rows]}
        if self.classes.shape[1] > 1:
            values["top"] = [
                [{"tag": names[i], "probability": p} for i, p in zip(*row, strict=True)]
                for row in zip(self.classes.tolist(), rows, strict=True)
            ]
        if mark_spans(names):
            values["spans"] = [span._asdict() for span in spans(best)]
        return values


def tag(
    model: Transformer,
    processor: Processor,
    inputs: Iterable[Any],
    top: int = 1,
    precision: torch.dtype = torch.float32,
) -> Iterator[Tags]:
    """The tags of each input, in order, the `top` likeliest of each word.

    An input longer than the model is read by overlapping windows; a word's logits come from the
    window in which it has the most context. Memory grows with the words of an input alone, not
    with the model's work on them.
    """
    nothing = _likeliest(torch.zeros(0, model.config.class_count), top)
    waiting: deque[_Sentence] = deque()
    windows: list[tuple[_Sentence, Example]] = []
    elements = 0

    def compute() -> None:
        if not windows:
            return
        together = [example for _, example in windows]
        found = answers(model, together, processor.batches, precision)
        whole, end = _likeliest(torch.cat(found), top), 0
        for (sentence, _), logits in zip(windows, found, strict=True):
            begin, end = end, end + len(logits)
            sentence.found.append(whole[begin:end])
            sentence.missing -= 1
        windows.clear()

    for given in inputs:
        own = examples(processor, given)
        waiting.append(_Sentence(len(own), [nothing]))
        for example in own:
            windows.append((waiting[-1], example))
            elements += example.length
            if elements >= TOGETHER:
                compute()
                elements = 0
        while waiting and not waiting[0].missing:
            yield waiting.popleft().tags()
    compute()
    yield from (sentence.tags() for sentence in waiting)


def tag_steps(
    model: Transformer, processor: Processor, inputs: Sequence[Sequence[Example]], top: int = 1
) -> Steps[list[Tags]]:
    """Tag inputs step by step, by the `examples` of each."""
    nothing = torch.zeros(0, model.config.class_count)
    logits = yield from answer_steps(model, [*chain.from_iterable(inputs)], processor.batches)
    rows = iter(logits)
    return [_likeliest(torch.cat([nothing, *islice(rows, len(own))]), top) for own in inputs]


def examples(processor: Processor, given: Any) -> list[Example]:
    """The sequences of an input that have words to tag."""
    return [one.example for one in processor.windows(given) if one.example.at is not None]


def _likeliest(logits: Float[Tensor, "W C"], top: int) -> Tags:
    best = logits.softmax(-1).topk(min(top, logits.shape[1]))
    return Tags(best.indices.numpy(), best.values.numpy())


@dataclass
class _Sentence:
    """The tags of a sentence's windows that were computed, and how many windows are missing."""

    missing: int
    found: list[Tags]

    def tags(self) -> Tags:
        """The tags of all its words."""
        return Tags(
            np.concatenate([one.classes for one in self.found]),
            np.concatenate([one.probabilities for one in self.found]),
        )
