"""Simple baselines, learned from plain data, and their scores by the metrics of a model: the most
frequent class, naive Bayes on the words of texts, and the most frequent tag of each word.

Beside these, a score shows whether a model has learned more than counts.
"""

import math
import re
from collections import Counter, defaultdict
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from itertools import chain, count, islice, repeat
from typing import NamedTuple

import numpy as np

from glassformer.axes import Float, Int
from glassformer.metrics.classes import MultiLabelScore, TagScore
from glassformer.metrics.spans import SpanScore

Pairs = Iterable[tuple[str, str]]
"""An input (a word, a prompt) and its label."""
Rows = Iterable[tuple[Sequence[Hashable], Sequence[int]]]
"""The tokens of a text, and its classes as numbers in [0, C)."""
Scores = dict[str, dict[str, float]]
"""The scores of each baseline."""
SCORED = ("accuracy", "micro_f1", "macro_f1", "precision", "recall", "f1")
"""Those that are kept, where the task has them."""

CHUNK = 1 << 20
"""Tokens that are counted at once, and numbers that a prediction of several texts takes."""

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
    train: Pairs | Counter[tuple[str, str]], asked: Iterable[str], rare: bool = False
) -> list[str | None]:
    """The most frequent label of each input in training (pairs, or how often each pair occurs).

    An unseen input gets the most frequent label of all, or, if `rare`, of the inputs seen once. Of
    equals, the label that sorts first is taken. None: there is no training.
    """
    counts = train if isinstance(train, Counter) else Counter(train)
    total, every = Counter[str](), Counter[str]()
    for (item, label), n in counts.items():
        total[item] += n
        every[label] += n
    once = Counter(label for (item, label) in counts if rare and total[item] == 1)
    unseen, best = commonest(once or every), dict[str, tuple[int, str]]()
    for (item, label), n in counts.items():
        best[item] = min(best.get(item, (0, "")), (-n, label))
    return [best[item][1] if item in best else unseen for item in asked]


class NaiveBayes:
    """Multinomial naive Bayes with add-one smoothing on counts of words and of pairs of neighbours.

    score(c) = log p(c) + sum_f n(f) log p(f | c), where p(f | c) = (N(f, c) + 1) / (N(c) + V): N
    are the training's counts of V features, and features that it lacks are skipped. With `several`,
    each class is predicted separately, and a score is that of c less that of all texts without c.

    Sources: Manning, Raghavan and Schütze, Introduction to Information Retrieval, figure 13.2; Wang
    and Manning 2012, where pairs of words (`pairs`) are found to help throughout. Memory grows with
    the number of different features, time with the number of words.
    """

    def __init__(self, train: Rows, n_classes: int, several: bool = False, pairs: bool = True):
        self._columns = n_classes + several
        """Classes, and with `several` a last column of all texts."""
        self._several, self._pairs = several, pairs
        # a feature is first * limit + second, in one key with its class: 63 bits must hold it
        self._limit = math.isqrt(2**63 // self._columns) - 1
        self._numbers = defaultdict[Hashable, int](count(1).__next__)
        self._texts = np.zeros(self._columns, np.int64)
        self._keys, self._counts = np.zeros((2, 0), np.int64)
        every = [n_classes] if several else []
        rows = ((tokens, c) for tokens, classes in train for c in (*classes, *every))
        for part in _chunks(rows, CHUNK):
            classes = np.array([c for _, c in part])
            self._texts += np.bincount(classes, minlength=self._columns)
            features, owner = self._features(
                map(self._numbers.__getitem__, text) for text, _ in part
            )
            new, n = np.unique(features * self._columns + classes[owner], return_counts=True)
            self._keys, at = np.unique(np.append(self._keys, new), return_inverse=True)
            self._counts = np.bincount(at, np.append(self._counts, n)).astype(np.int64)
        totals = np.bincount(self._keys % self._columns, self._counts, self._columns)
        n_features = max(1, len(np.unique(self._keys // self._columns)))
        self._prior, self._length = self._log(self._texts, 0), self._log(totals, n_features)
        self._prior -= 0 if several else math.log(max(1, self._texts.sum()))

    def _log(self, n: np.ndarray, added: int) -> Float[np.ndarray, "*rows C"]:
        """log(n + added) of each class, with `several` less that of all texts without the class."""
        with np.errstate(divide="ignore", invalid="ignore"):
            if not self._several:
                return np.log(n + added)
            return np.log(n + added) - np.log(n[..., -1:] - n + added)

    def _features(
        self, texts: Iterable[Iterable[int]]
    ) -> tuple[Int[np.ndarray, "F"], Int[np.ndarray, "F"]]:
        """The features of all texts of numbered words, 0 if unknown, and the text of each."""
        own = [np.fromiter(text, np.int64) for text in texts]
        ids, owner = np.concatenate(own), np.repeat(np.arange(len(own)), [*map(len, own)])
        ids[ids >= self._limit] = 0
        known = ids > 0
        both = known[1:] & known[:-1] & (owner[1:] == owner[:-1]) & self._pairs
        pairs = ids[:-1][both] * self._limit + ids[1:][both]
        return np.append(ids[known], pairs), np.append(owner[known], owner[1:][both])

    def scores(self, asked: Iterable[Sequence[Hashable]]) -> Iterator[Float[np.ndarray, "T C"]]:
        """Scores of every class for each text, some texts at a time."""
        number, keys = self._numbers.get, np.append(self._keys, -1)
        counts = np.append(self._counts, 0)
        for part in _chunks(((tokens, 0) for tokens in asked), CHUNK // self._columns):
            features, owner = self._features(map(number, text, repeat(0)) for text, _ in part)
            wanted = features[:, None] * self._columns + np.arange(self._columns)
            at = np.searchsorted(self._keys, wanted)
            n = np.where(keys[at] == wanted, counts[at], 0)
            known = n.any(1)
            sums = np.zeros((len(part), self._columns))
            np.add.at(sums, owner[known], self._log(n[known], 1))
            lengths = np.bincount(owner[known], minlength=len(part))
            sums += self._prior - np.outer(lengths, self._length)
            yield sums[:, :-1] if self._several else sums


def _chunks(
    rows: Iterable[tuple[Sequence[Hashable], int]], size: int
) -> Iterator[list[tuple[Sequence[Hashable], int]]]:
    """Rows in groups of about `size` tokens."""
    part, n = [], 0
    for row in rows:
        part.append(row)
        n += len(row[0]) + 1
        if n >= size:
            yield part
            part, n = [], 0
    if part:
        yield part


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
    """Scores of the majority class, and of naive Bayes if inputs have texts; `train` is read twice,
    input by input.

    With `several` classes of an input, each is predicted separately: if more than half of the
    training inputs have it, or if naive Bayes finds it likelier than not.
    """
    number, counts, n_train = {name: i for i, name in enumerate(names)}, Counter[str](), 0
    for row in train():
        counts.update(row.classes)
        n_train += 1
    sizes = np.array([counts[name] for name in names]) - (n_train / 2 if several else 0)
    scores = {"majority_class": np.broadcast_to(sizes, (len(asked), len(names)))}
    if any(row.texts for row in asked):
        known = lambda row: [number[name] for name in row.classes if name in number]
        rows = ((words(*row.texts), known(row)) for row in train())
        bayes = NaiveBayes(rows, len(names), several)
        found = bayes.scores(words(*row.texts) for row in asked)
        scores["naive_bayes"] = np.concatenate([*found])
    gold = [np.array([number.get(name, -1) for name in row.classes], int) for row in asked]
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
    pairs = Counter(
        pair for row in train for pair in zip(row.words, row.tags, strict=True) if pair[1] in number
    )
    counts = Counter[str]()
    for (_, tag), n in pairs.items():
        counts[tag] += n
    every = commonest(counts) or names[0]
    own = most_frequent(pairs, chain.from_iterable(row.words for row in asked), rare=True)
    found: Scores = {}
    for name, tags in (("majority_class", repeat(every)), ("most_frequent_tag", iter(own))):
        score, spans = TagScore(names), SpanScore()
        for row in asked:
            predicted = [tag or every for tag in islice(tags, len(row.words))]
            gold = np.array([number.get(tag, -1) for tag in row.tags], int)
            score.add(gold, np.array([number[tag] for tag in predicted], int))
            if marked:
                spans.add(row.tags, predicted)
        of_spans = {**spans.result(), **score.result()} if marked else score.result()
        found[name] = _select(of_spans)
    return found


def _select(scores: dict[str, float]) -> dict[str, float]:
    return {name: scores[name] for name in SCORED if name in scores}
