"""Scores of simple baselines, beside which a model's scores are shown."""

import math
import re
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Sequence
from itertools import count
from typing import Literal

import numpy as np

Features = Literal["words", "letters"]
LETTERS = 3
"""Features of "letters" are runs of 1 to so many letters."""

ROWS = 256
"""Rows whose distances are computed at once."""

SMOOTHING = 8
"""Pseudo-counts of the unigram distribution in that of bigrams."""

_NAME = re.compile(r"[^\W\d]+")
_WORD = re.compile(r"\w+|[^\w\s]")
_BITS = 21  # of a character: three fit into 63


def most_frequent_tag(
    train: Iterable[tuple[Sequence[str], Sequence[str]]],
    test: Iterable[tuple[Sequence[str], Sequence[str]]],
) -> float:
    """Accuracy of each word's most frequent tag in training, for texts of (words, tags).

    An unseen word gets the most frequent tag of words seen once; a tie goes to the tag that came
    first. NaN: there is no word in `test`.
    """
    tags: dict[str, Counter[str]] = defaultdict(Counter)
    for words, of_words in train:
        for word, tag in zip(words, of_words, strict=True):
            tags[word][tag] += 1
    once = Counter(next(iter(counts)) for counts in tags.values() if counts.total() == 1)
    every = sum(tags.values(), Counter[str]())
    unknown = _commonest(once or every)
    best = {word: _commonest(counts) for word, counts in tags.items()}
    pairs = [pair for words, of_words in test for pair in zip(words, of_words, strict=True)]
    return _share(sum(best.get(word, unknown) == tag for word, tag in pairs), len(pairs))


def majority(train: Iterable[str], test: Iterable[str]) -> float:
    """Accuracy of the most frequent label in training; NaN: there is none in `test`."""
    guess, labels = _commonest(Counter(train)), list(test)
    return _share(labels.count(guess) if guess is not None else 0, len(labels))


def naive_bayes(
    train: Iterable[tuple[str, str]], test: Iterable[tuple[str, str]], features: Features = "words"
) -> float:
    """Accuracy of multinomial naive Bayes with add-one smoothing, for pairs of (text, label).

    The label of a text is argmax_c log p(c) + sum_f n(f) log p(f | c), where p(f | c) = (N(f, c) +
    1) / (N(c) + V): N are the training's counts of V features, and features that it lacks are
    skipped. "words" are runs of letters and digits and single other characters, in lower case;
    "letters" are the runs of 1, 2 and 3 characters, spaces included. A tie goes to the label that
    sorts first. NaN: there is no pair in `test`. Source: Manning, Raghavan and Schütze,
    Introduction to Information Retrieval, figure 13.2.
    """
    train, test = list(train), list(test)
    if not train or not test:
        return _share(0, len(test))
    labels, classes = np.unique([label for _, label in train], return_inverse=True)
    numbers = defaultdict[str, int](count().__next__)  # of words
    seen, documents = _features([text for text, _ in train], features, numbers)
    known, ids = np.unique(seen, return_inverse=True)
    counts = np.ones((len(labels), len(known)))
    np.add.at(counts, (classes[documents], ids), 1)
    log_p = np.log(counts / counts.sum(1, keepdims=True)).T.copy()
    prior = np.log(np.bincount(classes) / len(classes))
    found, documents = _features([text for text, _ in test], features, numbers)
    places = np.searchsorted(known, found)
    kept = (
        known[np.minimum(places, len(known) - 1)] == found
        if len(known)
        else np.zeros(len(found), bool)
    )
    places, documents = places[kept], documents[kept]
    borders = np.searchsorted(documents, np.arange(len(test) + 1))
    right = 0
    for i, (_, label) in enumerate(test):
        scores = prior + log_p[places[borders[i] : borders[i + 1]]].sum(0)
        right += bool(labels[scores.argmax()] == label)
    return _share(right, len(test))


def nearest_neighbour(
    train: np.ndarray, labels: Sequence[str], test: np.ndarray, gold: Sequence[str]
) -> float:
    """Accuracy of the label of the nearest row of `train`, for rows of numbers.

    Euclidean distance in float32; a tie goes to the first row. NaN: there is no row in `test`.
    """
    train = np.asarray(train, np.float32)
    half, right = (train * train).sum(1) / 2, 0
    for begin in range(
        0, len(test), ROWS
    ):  # |x - t|² / 2 = x² / 2 - x·t + t² / 2, where x² is the same for all t
        near = (half - np.asarray(test[begin : begin + ROWS], np.float32) @ train.T).argmin(1)
        right += sum(labels[i] == gold[begin + n] for n, i in enumerate(near.tolist()))
    return _share(right, len(test))


def most_frequent_answer(train: Iterable[tuple[str, str]], asked: Iterable[str]) -> list[str]:
    """The most frequent answer to each prompt in training, for pairs of (prompt, answer); an unseen
    prompt gets the most frequent answer of all."""
    answers: dict[str, Counter[str]] = defaultdict(Counter)
    for prompt, answer in train:
        answers[prompt][answer] += 1
    every = sum(answers.values(), Counter[str]())
    return [_commonest(answers.get(prompt, every)) or "" for prompt in asked]


def exact_match(pairs: Sequence[tuple[str, str]], guess: Callable[[str], str]) -> float:
    """The share of pairs of (source, target) in which the guess is the target."""
    return _share(sum(guess(source) == target for source, target in pairs), len(pairs))


def rule_for_dates(train: Iterable[tuple[str, str]]) -> Callable[[str], str]:
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
            day, month = others[0], max(months[word], key=months[word].__getitem__, default=1)
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


def _features(
    texts: Sequence[str], features: Features, numbers: dict[str, int]
) -> tuple[np.ndarray, np.ndarray]:
    """A number for every feature of every text, in the order of the texts, and the index of its
    text."""
    if features == "words":
        words = [_WORD.findall(text.lower()) for text in texts]
        owners = np.repeat(np.arange(len(texts)), [len(of_text) for of_text in words])
        return np.array([numbers[word] for of_text in words for word in of_text], np.int64), owners
    found, documents = list[np.ndarray](), list[np.ndarray]()
    lengths = np.array([len(text) for text in texts])
    letters = (
        np.frombuffer("".join(texts).encode("utf-32-le", "surrogatepass"), np.uint32).astype(
            np.int64
        )
        + 1
    )
    owners = np.repeat(np.arange(len(texts)), lengths)
    for n in range(1, LETTERS + 1):
        runs = sum(
            (letters[i : len(letters) - n + 1 + i] << (_BITS * i) for i in range(n)),
            np.zeros(1, np.int64),
        )
        inside = owners[: len(letters) - n + 1] == owners[n - 1 :]
        found.append(runs[inside])
        documents.append(owners[: len(letters) - n + 1][inside])
    order = np.argsort(np.concatenate(documents), kind="stable")
    return np.concatenate(found)[order], np.concatenate(documents)[order]


def _commonest(counts: Counter[str]) -> str | None:
    return counts.most_common(1)[0][0] if counts else None


def _share(right: int, n: int) -> float:
    return right / n if n else float("nan")
