"""Scores of simple baselines, beside which a model's scores are shown."""

import math
import re
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Sequence
from itertools import chain, count
from typing import Any

import numpy as np

Pairs = Iterable[tuple[str, str]]
"""An input (a word, a prompt, a text) and its label."""

ROWS = 256
"""Rows whose distances are computed at once."""

SMOOTHING = 8
"""Pseudo-counts of the unigram distribution in that of bigrams."""

_NAME = re.compile(r"[^\W\d]+")


def share(right: Iterable[bool]) -> float:
    """The share of those that are right; NaN: there are none."""
    found = list(right)
    return sum(found) / len(found) if found else math.nan


def majority(train: Iterable[str], test: Iterable[str]) -> float:
    """Accuracy of the most frequent label in training; NaN: there is none in `test`."""
    guess = _commonest(Counter(train))
    return share(label == guess for label in test)


def most_frequent(train: Pairs, asked: Iterable[str], rare: bool = False) -> list[str | None]:
    """The most frequent label of each input in training.

    An unseen input gets the most frequent label of all, or, if `rare`, of the inputs seen once. A
    tie goes to the label that came first. None: there is no training.
    """
    labels: dict[str, Counter[str]] = defaultdict(Counter)
    for item, label in train:
        labels[item][label] += 1
    once = [counts for counts in labels.values() if rare and counts.total() == 1]
    unseen = _commonest(sum(once or labels.values(), Counter[str]()))
    best = {item: _commonest(counts) for item, counts in labels.items()}
    return [best.get(item, unseen) for item in asked]


def letters(text: str) -> list[str]:
    """All runs of 1, 2 and 3 characters, spaces included."""
    return [text[i : i + n] for n in (1, 2, 3) for i in range(len(text) - n + 1)]


def naive_bayes(train: Pairs, test: Pairs, features: Callable[[str], list[str]] = letters) -> float:
    """Accuracy of multinomial naive Bayes with add-one smoothing, for pairs of (text, label).

    The label of a text is argmax_c log p(c) + sum_f n(f) log p(f | c), where p(f | c) = (N(f, c) +
    1) / (N(c) + V): N are the training's counts of V features, and features that it lacks are
    skipped. A tie goes to the label that sorts first. NaN: there is no pair in `test`. Source:
    Manning, Raghavan and Schütze, Introduction to Information Retrieval, figure 13.2.
    """
    train = list(train)
    if not train:
        return share(False for _ in test)
    labels, classes = np.unique([label for _, label in train], return_inverse=True)
    numbers = defaultdict[str, int](count().__next__)  # of features
    found = [[numbers[feature] for feature in features(text)] for text, _ in train]
    owners = np.repeat(classes, [len(ids) for ids in found])
    counts = np.ones((len(numbers), len(labels)))
    np.add.at(counts, (np.fromiter(chain.from_iterable(found), int), owners), 1)
    log_p, prior = np.log(counts / counts.sum(0)), np.log(np.bincount(classes) / len(classes))

    def predicted(text: str) -> Any:
        known = [numbers[feature] for feature in features(text) if feature in numbers]
        return labels[(prior + log_p[known].sum(0)).argmax()]

    return share(predicted(text) == label for text, label in test)


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
