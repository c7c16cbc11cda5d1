"""Tagging: a class for each word of a sentence or document, however long, whatever the tokenizer
makes of the words."""

from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import torch

from glassformer.data.example import Example
from glassformer.generate.answers import answers
from glassformer.models.transformer import Transformer
from glassformer.processors.words import WordTokenizer

TOGETHER = 1 << 15
"""Elements that are waited for before they are computed: enough to pack well, few enough to stay in
memory."""


@dataclass(frozen=True)
class Tags:
    """The likeliest classes of each word, best first, and their probabilities: int64 and float32
    [W, K]."""

    classes: np.ndarray
    probabilities: np.ndarray


def tag(
    model: Transformer,
    tokenizer: WordTokenizer,
    sentences: Iterable[Sequence[str]],
    top: int = 1,
    precision: torch.dtype = torch.float32,
) -> Iterator[Tags]:
    """The tags of each sentence, in order, the `top` likeliest of each word.

    A document longer than the model is read by overlapping windows; a word's tags come from the
    window in which it has the most context. Memory grows with the words of a document alone, not
    with what the model does with them.
    """
    top = min(top, model.config.class_count)
    waiting: deque[_Sentence] = deque()
    windows: list[tuple[_Sentence, int, Example]] = []
    elements = 0
    for words in sentences:
        sentence = _Sentence(len(words), top)
        waiting.append(sentence)
        for pieces in tokenizer.windows(words):
            windows.append((sentence, pieces.begin, Example(pieces.ids, at=pieces.at)))
            elements += len(pieces.ids)
            if elements >= TOGETHER:
                _compute(model, windows, top, precision)
                windows, elements = [], 0
        while waiting and not waiting[0].missing:
            yield waiting.popleft().tags()
    _compute(model, windows, top, precision)
    yield from (sentence.tags() for sentence in waiting)


class _Sentence:
    """The words of a sentence and how many of them have no tags yet."""

    def __init__(self, n: int, top: int):
        self.missing = n
        self.classes, self.probabilities = (
            np.zeros((n, top), np.int64),
            np.zeros((n, top), np.float32),
        )

    def tags(self) -> Tags:
        return Tags(self.classes, self.probabilities)


def _compute(
    model: Transformer,
    windows: list[tuple[_Sentence, int, Example]],
    top: int,
    precision: torch.dtype,
) -> None:
    logits = answers(model, [example for *_, example in windows], precision)
    for (sentence, begin, _), own in zip(windows, logits, strict=True):
        best = own.softmax(-1).topk(top)
        words = slice(begin, begin + len(own))
        sentence.classes[words], sentence.probabilities[words] = (
            best.indices.numpy(),
            best.values.numpy(),
        )
        sentence.missing -= len(own)
