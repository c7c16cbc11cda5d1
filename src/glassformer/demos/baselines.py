"""Scores of simple baselines, beside which a model's scores are shown."""

import math
import re
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np

from glassformer.metrics.baselines import NaiveBayes, Pairs

ROWS = 256
"""Rows whose distances are computed at once."""

SMOOTHING = 8
"""Pseudo-counts of the unigram distribution in that of bigrams."""

_NAME = re.compile(r"[^\W\d]+")


def share(right: Iterable[bool]) -> float:
    """The share of those that are right; NaN: there are none."""
    found = list(right)
    return sum(found) / len(found) if found else math.nan


def letters(text: str) -> list[str]:
    """All runs of 1, 2 and 3 characters, spaces included."""
    return [text[i : i + n] for n in (1, 2, 3) for i in range(len(text) - n + 1)]


def letters_bayes(train: Pairs, test: Pairs) -> float:
    """Accuracy of naive Bayes on all short runs of letters, for pairs of (text, label); NaN: there
    is no pair in `test`."""
    train, test = list(train), list(test)
    names = sorted({label for _, label in train})
    number = {name: i for i, name in enumerate(names)}
    rows = ((letters(text), [number[label]]) for text, label in train)
    scores = NaiveBayes(rows, len(names), pairs=False).scores(letters(text) for text, _ in test)
    found = (names[i] for part in scores for i in part.argmax(1).tolist())
    return share(name == label for name, (_, label) in zip(found, test, strict=True))


def nearest_neighbour(
    train: np.ndarray, labels: Sequence[str], test: np.ndarray, gold: Sequence[str]
) -> float:
    """Accuracy of the label of the nearest row of `train`, for rows of numbers.

    Euclidean distance in float32; a tie goes to the first row. NaN: there is no row in `test`.
    """
    train, test = np.asarray(train, np.float32), np.asarray(test, np.float32)
    # |x - t|² / 2 = x² / 2 - x·t + t² / 2, where x² is the same for all t
    half = (train * train).sum(1) / 2
    parts = (test[begin : begin + ROWS] for begin in range(0, len(test), ROWS))
    nearest = [i for part in parts for i in (half - part @ train.T).argmin(1).tolist()]
    return share(labels[i] == own for i, own in zip(nearest, gold, strict=True))


def rule_for_dates(train: Pairs) -> Callable[[str], str]:
    """A rule that writes a date as YYYY-MM-DD, for pairs of (date, YYYY-MM-DD).

    The number above 31 is the year. Of two others the first is the day, or the month where the year
    stands first; beside a single one, which is the day, the month is that of the word that occurs
    most often with one month in training.
    """
    months: dict[str, Counter[int]] = defaultdict(Counter)
    for source, target in train:
        for word in _NAME.findall(source.casefold()):
            months[word][int(target[5:7])] += 1

    def purity(word: str) -> tuple[float, int]:
        most = max(months[word].values(), default=0)
        return most / (months[word].total() + 1), most

    def rule(source: str) -> str:
        numbers = [int(number) for number in re.findall(r"\d+", source)]
        year = next((number for number in numbers if number > 31), 2000)
        others = [number for number in numbers if number != year] or [1]
        if len(others) > 1:
            day, month = others[:2] if numbers[0] != year else others[1::-1]
        else:
            word = max(_NAME.findall(source.casefold()), key=purity, default="")
            day, month = others[0], _commonest(months[word]) or 1
        return f"{year:04}-{month:02}-{day:02}"

    return rule


def bits_per_byte(
    train: np.ndarray, test: np.ndarray, n_bytes: int, vocab_size: int
) -> dict[str, float]:
    """Bits per byte of three guesses at each token of `test` but the first.

    Uniform: 1 / V. Unigram: p(b) = (N(b) + 1) / (N + V). Bigram: p(b | a) = (N(ab) + K p(b)) /
    (N(a) + K), K = 8 (Dirichlet smoothing), N counts of the training tokens.
    """
    train, test = np.asarray(train, np.int64), np.asarray(test, np.int64)
    counts = np.bincount(train, minlength=vocab_size)
    unigram = (counts + 1.0) / (counts.sum() + vocab_size)
    pairs, times = np.unique(train[:-1] * vocab_size + train[1:], return_counts=True)
    asked = test[:-1] * vocab_size + test[1:]
    at = np.minimum(np.searchsorted(pairs, asked), len(pairs) - 1)
    seen = np.where(pairs[at] == asked, times[at], 0)
    bigram = (seen + SMOOTHING * unigram[test[1:]]) / (counts[test[:-1]] + SMOOTHING)
    return {
        "a uniform guess": len(asked) * math.log2(vocab_size) / n_bytes,
        "a unigram guess": float(-np.log2(unigram[test[1:]]).sum()) / n_bytes,
        "a bigram guess": float(-np.log2(bigram).sum()) / n_bytes,
    }


def _commonest(counts: Counter[Any]) -> Any:
    return max(counts, key=counts.__getitem__, default=None)
