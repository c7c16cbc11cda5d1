"""Predictions of simple baselines, learned from plain data: the most frequent class, naive Bayes on
the words of texts, and the most frequent tag of each word.

A score says little by itself: beside these it shows whether a model has learned more than counts.
"""

import math
import re
from collections import Counter, defaultdict
from collections.abc import Hashable, Iterable, Iterator, Sequence
from itertools import chain, count, repeat
from typing import Any

import numpy as np

from glassformer.axes import Float, Int

Pairs = Iterable[tuple[str, str]]
"""An input (a word, a prompt) and its label."""
Rows = Iterable[tuple[Sequence[Hashable], Sequence[int]]]
"""The tokens of a text, and its classes as numbers in [0, C)."""

CHUNK = 1 << 20
"""Tokens that are counted at once, and numbers that a prediction of several texts takes."""

_WORD = re.compile(r"\w+|[^\w\s]")


def words(*texts: str) -> list[str]:
    """Runs of letters and digits, and single other characters, in lower case; those of a second
    text are told from those of the first."""
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
    each class is told from its absence in the same way, and a score is log p(c) - log p(not c).

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
        keys, counts = np.zeros((2, 0), np.int64)
        for part in _chunks(train, CHUNK):
            new, n = np.unique(self._keys(part), return_counts=True)
            keys, at = np.unique(np.concatenate([keys, new]), return_inverse=True)
            counts = np.bincount(at, np.concatenate([counts, n])).astype(np.int64)
        self._set(keys, counts)

    def _keys(self, part: Sequence[tuple[Any, Any]]) -> Int[np.ndarray, "K"]:
        """Feature and class of every feature of these rows, as one number each."""
        features, owner = self._features([tokens for tokens, _ in part], known=False)
        every = [self._columns - 1] if self._several else []
        own = [[*classes, *every] for _, classes in part]
        sizes = np.array([len(classes) for classes in own], np.int64)
        classes = np.fromiter(chain.from_iterable(own), np.int64)
        self._texts += np.bincount(classes, minlength=self._columns)
        at, spread = _ranges((sizes.cumsum() - sizes)[owner], sizes[owner])
        return features[spread] * self._columns + classes[at]

    def _features(
        self, texts: Sequence[Sequence[Hashable]], known: bool = True
    ) -> tuple[Int[np.ndarray, "F"], Int[np.ndarray, "F"]]:
        """The features of all texts, and the text of each; `known`: of words in training alone."""
        tokens = chain.from_iterable(texts)
        own = self._numbers
        found = map(own.get, tokens, repeat(0)) if known else map(own.__getitem__, tokens)
        ids = np.fromiter(found, np.int64)
        owner = np.repeat(np.arange(len(texts)), [len(text) for text in texts])
        ids[ids >= self._limit] = 0
        there = ids > 0
        both = there[1:] & there[:-1] & (owner[1:] == owner[:-1])
        if not self._pairs:
            both[:] = False
        pairs = ids[:-1][both] * self._limit + ids[1:][both]
        return np.append(ids[there], pairs), np.append(owner[there], owner[1:][both])

    def _set(self, keys: Int[np.ndarray, "N"], counts: Int[np.ndarray, "N"]) -> None:
        """The table of the counts: rows are features, of which only what is not 0 is kept."""
        self._known, starts = np.unique(keys // self._columns, return_index=True)
        self._ends, self._classes = np.append(starts, len(keys)), keys % self._columns
        totals, texts = np.bincount(self._classes, counts, self._columns), self._texts
        n, self._values = max(1, len(self._known)), np.log(counts + 1)
        with np.errstate(divide="ignore"):
            if not self._several:
                self._prior = np.log(texts) - math.log(max(1, texts.sum()))
                self._length = np.log(totals + n)
                return
            self._prior = np.log(texts) - np.log(texts[-1] - texts)
        self._length = np.log(totals + n) - np.log(totals[-1] - totals + n)
        self._prior[-1] = self._length[-1] = 0
        # log p(f | c) - log p(f | not c) but for log(N(f) + 1), which is the same for all classes
        every = np.repeat(counts[self._ends[1:] - 1], np.diff(self._ends))
        own = self._classes < self._columns - 1
        self._values = np.log(every + 1) + own * (self._values - np.log(every - counts + 1))

    def scores(self, asked: Iterable[Sequence[Hashable]]) -> Iterator[Float[np.ndarray, "T C"]]:
        """Scores of every class for each text, some texts at a time."""
        for part in _chunks(((tokens, ()) for tokens in asked), CHUNK // self._columns):
            features, owner = self._features([tokens for tokens, _ in part])
            at = np.searchsorted(self._known, features)
            there = np.append(self._known, -1)[at] == features
            at, owner = at[there], owner[there]
            entries, spread = _ranges(self._ends[at], self._ends[at + 1] - self._ends[at])
            cells = owner[spread] * self._columns + self._classes[entries]
            shape = len(part), self._columns
            sums = np.bincount(cells, self._values[entries], shape[0] * shape[1]).reshape(shape)
            lengths = np.bincount(owner, minlength=len(part))
            sums = sums + self._prior - np.outer(lengths, self._length)
            yield sums[:, :-1] - sums[:, -1:] if self._several else sums


def _chunks(rows: Rows, size: int) -> Iterator[list[tuple[Sequence[Hashable], Sequence[int]]]]:
    """Rows in groups of about so many tokens."""
    part, n = [], 0
    for row in rows:
        part.append(row)
        n += len(row[0]) + 1
        if n >= size:
            yield part
            part, n = [], 0
    if part:
        yield part


def _ranges(
    begins: Int[np.ndarray, "R"], sizes: Int[np.ndarray, "R"]
) -> tuple[Int[np.ndarray, "N"], Int[np.ndarray, "N"]]:
    """The numbers of all ranges [begin, begin + size), and the range of each."""
    spread = np.repeat(np.arange(len(sizes)), sizes)
    return np.arange(len(spread)) + (begins - (sizes.cumsum() - sizes))[spread], spread
