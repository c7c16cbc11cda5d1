"""What a model says of each word of a sentence or document, however long: its tags."""

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from glassformer.axes import Float, Tensor
from glassformer.data.example import Example
from glassformer.generate.answers import answers
from glassformer.metrics.spans import scheme_of, spans
from glassformer.models.transformer import Transformer
from glassformer.processors.processor import Processor

TOGETHER = 1 << 15
"""Elements that are waited for before they are computed: enough to pack well, few enough to stay in
memory."""
Kept = tuple[np.ndarray, ...]
Keep = Callable[[Float[Tensor, "W C"]], Kept]
"""What is kept of the logits of words, arrays [W, ...]."""


@dataclass(frozen=True)
class Tags:
    """The likeliest classes of each word, best first, and their probabilities: int64 and float32
    [W, K]."""

    classes: np.ndarray
    probabilities: np.ndarray

    def labels(self, names: Sequence[str]) -> list[Any]:
        """The likeliest class of each word by name."""
        return [names[i] for i in self.classes[:, 0].tolist()]

    def cells(self, names: Sequence[str]) -> list[tuple[str, ...]]:
        """What stands behind each word in a line or table."""
        return [(label,) for label in self.labels(names)]

    def as_json(self, names: Sequence[str]) -> dict[str, Any]:
        """Plain values beside the words: `tags`, `probabilities`, `top` if several were asked for,
        and `spans` if the tags mark any."""
        best, rows = self.labels(names), self.probabilities.astype(np.float64).round(6).tolist()
        values: dict[str, Any] = {"tags": best, "probabilities": [row[0] for row in rows]}
        if self.classes.shape[1] > 1:
            pairs = zip(self.classes.tolist(), rows, strict=True)
            values["top"] = [
                [{"tag": names[i], "probability": p} for i, p in zip(*row, strict=True)]
                for row in pairs
            ]
        if scheme_of([name] for name in names) is not None:
            values["spans"] = [
                {"kind": kind, "start": start, "end": end} for kind, start, end in spans(best)
            ]
        return values


def tag(
    model: Transformer,
    processor: Processor,
    inputs: Iterable[Any],
    top: int = 1,
    precision: torch.dtype = torch.float32,
) -> Iterator[Tags]:
    """The tags of each input, in order, the `top` likeliest of each word; see `per_word`."""
    top = min(top, model.config.class_count)

    def keep(logits: Float[Tensor, "W C"]) -> Kept:
        best = logits.softmax(-1).topk(top)
        return best.indices.numpy(), best.values.numpy()

    for classes, probabilities in per_word(model, processor, inputs, keep, precision):
        yield Tags(classes, probabilities)


def per_word(
    model: Transformer,
    processor: Processor,
    inputs: Iterable[Any],
    keep: Keep,
    precision: torch.dtype = torch.float32,
) -> Iterator[Kept]:
    """What is kept of the logits of each input's words, in order.

    An input longer than the model is read by overlapping windows; a word's logits come from the
    window in which it has the most context. Memory grows with the words of an input alone, not
    with what the model does with them.
    """
    waiting: deque[_Sentence] = deque()
    windows: list[tuple[_Sentence, Example]] = []
    elements = 0

    def compute() -> None:
        logits = answers(model, [example for _, example in windows], precision, processor.batches)
        for (sentence, _), own in zip(windows, logits, strict=True):
            sentence.add(keep(own))

    for given in inputs:
        found = [window for window in processor.windows(given) if window.example.at is not None]
        sentence = _Sentence(len(found), keep(torch.zeros(0, model.config.class_count)))
        waiting.append(sentence)
        for window in found:
            windows.append((sentence, window.example))
            elements += window.example.length
            if elements >= TOGETHER:
                compute()
                windows, elements = [], 0
        while waiting and not waiting[0].missing:
            yield waiting.popleft().kept()
    compute()
    yield from (sentence.kept() for sentence in waiting)


class _Sentence:
    """What is kept of the words of a sentence, window by window, and how many are missing."""

    def __init__(self, missing: int, nothing: Kept):
        self.missing, self._found = missing, [nothing]

    def add(self, found: Kept) -> None:
        self._found.append(found)
        self.missing -= 1

    def kept(self) -> Kept:
        return tuple(np.concatenate(column) for column in zip(*self._found, strict=True))
