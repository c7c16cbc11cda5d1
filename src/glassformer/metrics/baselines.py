"""Simple baselines, learned from plain data, and their scores by the metrics of a model: the most
frequent class, naive Bayes on the words of texts, and the most frequent tag of each word.

Beside these, a score shows whether a model has learned more than counts.
"""

import math
import re
from collections import Counter, defaultdict
from collections.abc import Hashable, Iterable, Sequence
from itertools import chain, count, islice, repeat
from typing import NamedTuple

import numpy as np

from glassformer.core.axes import Float, Int
from glassformer.metrics.classes import MultiLabelScore, TagScore
from glassformer.metrics.spans import SpanScore

Rows = Iterable[tuple[Sequence[Hashable], Sequence[int]]]
"""The tokens of a text, and its classes as numbers in [0, C)."""
Scores = dict[str, dict[str, float]]
"""The scores of each baseline."""
SCORED = ("accuracy", "micro_f1", "macro_f1", "precision", "recall", "f1")
"""Those that are kept, where the task has them."""

MOST_CHARACTERS = 1 << 26
"""Characters of training texts that naive Bayes learns from, about; of more, every n-th text."""

_WORD = re.compile(r"\w+|[^\w\s]")


def words(*texts: str) -> list[str]:
    """Runs of letters and digits, and single other characters, in lower case; those of a second
    text differ from those of the first by a number."""
    first, *others = (_WORD.findall(text.lower()) for text in texts or ("",))
    return [*first, *(f"{n} {word}" for n, own in enumerate(others, 2) for word in own)]


def commonest(counts: Counter[str]) -> str | None:
    """The most frequent label; of equals, the one that sorts first. None: there is none."""
    return min(counts, key=lambda label: (-counts[label], label), default=None)


def most_frequent(
    train: Counter[tuple[str, str]], asked: Iterable[str], rare: bool = False
) -> list[str | None]:
    """The most frequent label of each input in training, given how often each pair occurs.

    An unseen input gets the most frequent label of all, or, if `rare`, of the inputs seen once. Of
    equals, the label that sorts first is taken. None: there is no training.
    """
    labels, every = defaultdict[str, Counter[str]](Counter), Counter[str]()
    for (item, label), n in train.items():
        labels[item][label] = n
        every[label] += n
    once = Counter(label for own in labels.values() if own.total() == 1 for label in own)
    unseen = commonest(once if rare and once else every)
    best = {item: commonest(own) for item, own in labels.items()}
    return [best.get(item, unseen) for item in asked]


class NaiveBayes:
    """Multinomial naive Bayes with add-one smoothing on counts of words and of pairs of neighbours.

    score(c) = log p(c) + sum_f n(f) log p(f | c), where p(f | c) = (N(f, c) + 1) / (N(c) + V): N
    are the training's counts of V features, and features that it lacks are skipped. With `several`,
    each class is predicted separately, and a score is that of c less that of all texts without c.

    Sources: Manning, Raghavan and Schütze, Introduction to Information Retrieval, figure 13.2; Wang
    and Manning 2012, where pairs of words (`pairs`) are found to help throughout.
    """

    def __init__(self, train: Rows, n_classes: int, several: bool = False, pairs: bool = True):
        self._several, self._pairs, self._columns = several, pairs, n_classes + 1
        # a key is (first * limit + second) * columns + class, in 63 bits; the last class is any
        self._limit = math.isqrt(2**63 // self._columns) - 1
        numbers = defaultdict[Hashable, int](count(1).__next__)
        texts, found = np.zeros(self._columns, int), [np.array([np.iinfo(int).max])]
        for tokens, classes in train:
            features = self._features([numbers[token] for token in tokens])
            for c in (*classes, n_classes):
                texts[c] += 1
                found.append(features * self._columns + c)
        self._numbers = dict(numbers)
        self._keys, self._counts = np.unique(np.concatenate(found), return_counts=True)
        self._counts[-1] = 0  # the largest key ends the table
        owner = self._keys[:-1] % self._columns
        totals = np.bincount(owner, self._counts[:-1], self._columns)
        self._prior = self._log(texts / max(1, texts[-1]), 0)
        self._length = self._log(totals, max(1, (owner == n_classes).sum()))

    def _log(self, n: np.ndarray, added: int) -> Float[np.ndarray, "*rows C"]:
        """log(n + added) of each class, with `several` less that of all texts without the class."""
        own, every = n[..., :-1], n[..., -1:]
        with np.errstate(divide="ignore", invalid="ignore"):
            logs = np.log(own + added)
            return logs - np.log(every - own + added) if self._several else logs

    def _features(self, words: Sequence[int]) -> Int[np.ndarray, "F"]:
        """The features of numbered words, 0 if unknown."""
        ids = np.array(words, np.int64)
        known = ids > 0
        both = known[1:] & known[:-1] & self._pairs
        return np.append(ids[known], ids[:-1][both] * self._limit + ids[1:][both])

    def scores(self, asked: Iterable[Sequence[Hashable]]) -> Float[np.ndarray, "T C"]:
        """Scores of every class for each text."""
        return np.array([self._score(tokens) for tokens in asked])

    def _score(self, tokens: Sequence[Hashable]) -> Float[np.ndarray, "C"]:
        features = self._features([self._numbers.get(token, 0) for token in tokens])
        wanted = features[:, None] * self._columns + np.arange(self._columns)
        at = np.searchsorted(self._keys, wanted)
        n = np.where(self._keys[at] == wanted, self._counts[at], 0)
        n = n[n[:, -1] > 0]
        return self._log(n, 1).sum(0) + self._prior - len(n) * self._length


class Labels(NamedTuple):
    """The texts of an input, none of an image, and its classes."""

    texts: Sequence[str]
    classes: Sequence[str]


class Tagged(NamedTuple):
    """Words and a tag for each."""

    words: Sequence[str]
    tags: Sequence[str]


def class_baselines(
    names: Sequence[str], several: bool, train: Sequence[Labels], asked: Sequence[Labels]
) -> Scores:
    """Scores of the majority class, and of naive Bayes if inputs have texts.

    With `several` classes of an input, each is predicted separately: if more than half of the
    training inputs have it, or if naive Bayes finds it likelier than not.
    """
    number = {name: i for i, name in enumerate(names)}
    counts = Counter(name for row in train for name in row.classes)
    sizes = np.array([counts[name] for name in names]) - (len(train) / 2 if several else 0)
    scores = {"majority_class": np.broadcast_to(sizes, (len(asked), len(names)))}
    encode = lambda row: np.array([number.get(name, -1) for name in row.classes], int)
    if any(row.texts for row in asked):
        size = sum(len("".join(row.texts)) for row in train)
        known = lambda row: (words(*row.texts), (own := encode(row))[own >= 0].tolist())
        rows = map(known, train[:: 1 + size // MOST_CHARACTERS])
        bayes = NaiveBayes(rows, len(names), several)
        scores["naive_bayes"] = bayes.scores(words(*row.texts) for row in asked)
    gold = [*map(encode, asked)]
    return {name: _class_scores(names, several, gold, own) for name, own in scores.items()}


def _class_scores(
    names: Sequence[str], several: bool, gold: Sequence[np.ndarray], scores: np.ndarray
) -> dict[str, float]:
    """The class of the largest score is predicted, or with `several`, those of a score above 0."""
    if not several:
        score = TagScore(names)
        score.add(np.array([own[0] for own in gold], int), scores.argmax(1))
        found = score.result()
        return _select({"micro_f1": found["accuracy"], **found})
    truth, score = np.zeros(scores.shape, bool), MultiLabelScore(names)
    for row, own in zip(truth, gold, strict=True):
        row[own[own >= 0]] = True
    unseen = np.array([(own < 0).sum() for own in gold], int)
    score.add(truth, (scores > 0).astype(np.float64), unseen=unseen)
    return _select(score.result())


def tag_baselines(
    names: Sequence[str], marked: bool, train: Iterable[Tagged], asked: Sequence[Tagged]
) -> Scores:
    """Scores of the most frequent tag of all words, and of that of each word; of a word that
    training lacks, the most frequent tag of the words that it has once. `marked`: tags mark spans.
    """
    number = {name: i for i, name in enumerate(names)}
    rows = (zip(row.words, row.tags, strict=True) for row in train)
    pairs = Counter(pair for pair in chain.from_iterable(rows) if pair[1] in number)
    every = commonest(Counter(tag for _, tag in pairs.elements())) or names[0]
    own = iter(most_frequent(pairs, chain.from_iterable(row.words for row in asked), rare=True))
    found: Scores = {}
    for name, tags in (("majority_class", repeat(every)), ("most_frequent_tag", own)):
        score, spans = TagScore(names), SpanScore()
        for row in asked:
            predicted = [tag or every for tag in islice(tags, len(row.words))]
            gold = np.array([number.get(tag, -1) for tag in row.tags], int)
            score.add(gold, np.array([number[tag] for tag in predicted], int))
            spans.add(row.tags, predicted)
        found[name] = _select({**(spans.result() if marked else {}), **score.result()})
    return found


def _select(scores: dict[str, float]) -> dict[str, float]:
    return {name: scores[name] for name in SCORED if name in scores}
