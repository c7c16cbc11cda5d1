"""Scores of baselines on labelled texts and on tagged words, by the metrics of a model."""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import chain, islice
from typing import NamedTuple

import numpy as np

from glassformer.metrics.baselines import NaiveBayes, commonest, most_frequent, words
from glassformer.metrics.classes import MultiLabelScore, TagScore
from glassformer.metrics.spans import SpanScore
from glassformer.tasks.classes import Classes

Scores = dict[str, dict[str, float]]
"""The scores of each baseline."""
SCORED = ("accuracy", "micro_f1", "macro_f1", "precision", "recall", "f1")
"""Those that are kept, where the task has them."""
CHUNK = 4096


class Labels(NamedTuple):
    """The texts of an input, none of an image, and its classes."""

    texts: Sequence[str]
    classes: Sequence[str]


class Tagged(NamedTuple):
    """Words and a tag for each."""

    words: Sequence[str]
    tags: Sequence[str]


def class_baselines(
    names: Sequence[str],
    several: bool,
    train: Callable[[], Iterable[Labels]],
    asked: Sequence[Labels],
) -> Scores:
    """The majority class, and naive Bayes if inputs have texts; `train` is read twice, input by
    input.

    With `several` classes of an input, each is decided by itself: predicted if more than half of
    the training inputs have it, or if naive Bayes finds it likelier than not.
    """
    classes = Classes(names)
    counts, n_train = Counter[str](), 0
    for row in train():
        counts.update(row.classes)
        n_train += 1
    sizes = np.array([counts[name] for name in names]) - (n_train / 2 if several else 0)
    parts = (len(asked[at : at + CHUNK]) for at in range(0, len(asked), CHUNK))
    majority = (np.broadcast_to(sizes, (n, len(names))) for n in parts)
    gold = [classes.numbers(row.classes) for row in asked]
    found = {"majority_class": _scored(names, several, gold, majority)}
    if any(row.texts for row in asked):
        number = {name: i for i, name in enumerate(names)}
        read = (
            (words(*row.texts), [number[name] for name in row.classes if name in number])
            for row in train()
        )
        bayes = NaiveBayes(read, len(names), several)
        scores = bayes.scores(words(*row.texts) for row in asked)
        found["naive_bayes"] = _scored(names, several, gold, scores)
    return found


def _scored(
    names: Sequence[str],
    several: bool,
    gold: Sequence[np.ndarray],
    scores: Iterable[np.ndarray],
) -> dict[str, float]:
    """The class of the largest score is predicted, or with `several`, those of a score above 0."""
    rows = iter(gold)
    score = MultiLabelScore(names) if several else TagScore(names)
    for part in scores:
        own = list(islice(rows, len(part)))
        if isinstance(score, TagScore):
            score.add(np.array([numbers[0] for numbers in own]), part.argmax(1))
            continue
        truth = np.zeros(part.shape, bool)
        for row, numbers in zip(truth, own, strict=True):
            row[numbers[numbers >= 0]] = True
        unseen = np.array([(numbers < 0).sum() for numbers in own])
        score.add(truth, (part > 0).astype(np.float64), unseen=unseen)
    found = score.result()
    return _kept({"micro_f1": found["accuracy"], **found})


def tag_baselines(
    names: Sequence[str], marked: bool, train: Iterable[Tagged], asked: Sequence[Tagged]
) -> Scores:
    """The most frequent tag of all words, and that of each word; of a word that training lacks, the
    most frequent tag of the words that it has once. `marked`: tags mark spans.
    """
    known = set(names)
    pairs = Counter(
        pair for row in train for pair in zip(row.words, row.tags, strict=True) if pair[1] in known
    )
    counts = Counter[str]()
    for (_, tag), n in pairs.items():
        counts[tag] += n
    every = commonest(counts) or names[0]
    own = most_frequent(pairs, chain.from_iterable(row.words for row in asked), rare=True)
    predicted = {
        "majority_class": ([every] * len(row.words) for row in asked),
        "most_frequent_tag": _cut((tag or every for tag in own), asked),
    }
    return {name: _tag_scored(names, marked, asked, tags) for name, tags in predicted.items()}


def _cut(tags: Iterable[str], asked: Sequence[Tagged]) -> Iterator[list[str]]:
    """The tags of all words, sentence by sentence."""
    tags = iter(tags)
    return (list(islice(tags, len(row.words))) for row in asked)


def _tag_scored(
    names: Sequence[str],
    marked: bool,
    asked: Sequence[Tagged],
    predicted: Iterable[Sequence[str]],
) -> dict[str, float]:
    classes, score, spans = Classes(names), TagScore(names), SpanScore()
    for row, tags in zip(asked, predicted, strict=True):
        score.add(classes.numbers(row.tags), classes.numbers(tags))
        if marked:
            spans.add(row.tags, tags)
    by_span = spans.result() if marked else {}
    by_span.pop("macro_f1", None)
    return _kept(score.result() | by_span)


def _kept(scores: dict[str, float]) -> dict[str, float]:
    return {name: scores[name] for name in SCORED if name in scores}
