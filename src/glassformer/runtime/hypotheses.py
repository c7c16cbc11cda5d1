"""The hypotheses of a beam search: which continuations it goes on to, which ended, and when it is
done.

Beams        as wide as it has hypotheses to find; each that ends narrows it
WideBeams    always as wide; the settings of transformers say when it is done
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from glassformer.runtime.config import GenerateConfig
from glassformer.runtime.constraints import Rows

COLUMNS = 32
"""Tokens for which rows get room at a time."""
ROUNDING = 1e-12
"""A sentence goes on while its best reachable score is at most this share below its bar: floats are
rounded."""


@dataclass(frozen=True)
class Hypothesis:
    """A continuation of a prompt: its ids with the end token if it `finished`, log p of each, Σ log
    p / lengthᵅ.

    log p is after the constraints of the search: 0 of a forced token.
    """

    ids: list[int]
    log_probs: list[float]
    score: float
    finished: bool


@dataclass(frozen=True)
class Chosen:
    """Result of one step of a search: the rows extended, by which of their offers; which ended (by
    an end token, and among the best continuations)."""

    parents: np.ndarray
    offers: np.ndarray
    ended: np.ndarray
    live: np.ndarray
    """Indices into the chosen of those that go on."""


def normalized(total: float, length: int, penalty: float) -> float:
    """A hypothesis' score Σ log p / lengthᵅ (Wu et al. 2016 in its plain form); the end token
    counts in the length."""
    return total / max(length, 1) ** penalty


@dataclass(frozen=True)
class Made:
    """Continuations of rows: the rows, new tokens and log p of these, sentences, and Σ log p."""

    parents: np.ndarray
    tokens: np.ndarray
    gains: np.ndarray
    sentence: np.ndarray
    totals: np.ndarray

    def of(self, rows: np.ndarray) -> "Made":
        """Some of them."""
        columns = self.parents, self.tokens, self.gains, self.sentence, self.totals
        return Made(*(column[rows] for column in columns))


class Beams:
    """The live hypotheses of sentences, one row each, by sentence and then likeliest first; and the
    ended ones.

    `limits`: the most tokens that each sentence may get.
    """

    def __init__(self, config: GenerateConfig, ends: Sequence[int], limits: Sequence[int] = ()):
        self.config, self.ends = config, ends
        self.sentence = np.zeros(0, dtype=np.int64)
        self.ids = np.zeros((0, COLUMNS), dtype=np.int64)
        """Those of a row, `lengths` of its sentence, and room behind them."""
        self.log_probs = np.zeros((0, COLUMNS))
        self.totals = np.zeros(0)
        self.limits, self.lengths, self.width = np.zeros((3, 0), dtype=np.int64)
        """`width`: number of continuations of a sentence that are looked at, less for those that
        ended."""
        self.bars = np.zeros(0)
        """The score that a sentence's next hypothesis must beat; -inf until enough ended."""
        self.found: list[list[Hypothesis]] = []
        self.begin(limits)

    @property
    def looks_at(self) -> int:
        """Continuations of a sentence that are looked at, for each hypothesis of its beam."""
        return 1

    @property
    def going(self) -> np.ndarray:
        """The sentences that have live hypotheses."""
        first = np.ones(len(self.sentence), dtype=bool)
        first[1:] = self.sentence[1:] != self.sentence[:-1]
        return self.sentence[first]

    @property
    def room(self) -> int:
        """How many rows there may be at the next steps."""
        return int(np.minimum(self.width[self.going], self.config.beams).sum())

    def begin(self, limits: Sequence[int]) -> None:
        """Begin sentences, each with an empty hypothesis after all rows."""
        number, width = len(limits), self.config.beams * self.looks_at
        self.sentence = np.concatenate([self.sentence, len(self.found) + np.arange(number)])
        self.found += [[] for _ in limits]
        self.limits = np.concatenate([self.limits, np.array(limits, np.int64)])
        self.lengths = np.pad(self.lengths, (0, number))
        self.width = np.pad(self.width, (0, number), constant_values=width)
        self.bars = np.pad(self.bars, (0, number), constant_values=-np.inf)
        self.totals = np.pad(self.totals, (0, number))
        self.ids, self.log_probs = (
            np.pad(kept, [(0, number), (0, 0)]) for kept in (self.ids, self.log_probs)
        )

    def rows(self, prompts: Sequence[Sequence[int]]) -> Rows:
        """Return what the constraints read: the live hypotheses after their prompts."""
        owners, new = self.sentence.tolist(), self.lengths[self.sentence]
        rows = zip(owners, self.ids.tolist(), new.tolist(), strict=True)
        seen = [[*prompts[i], *own[:n]] for i, own, n in rows]
        last = (self.limits[self.sentence] == new + 1).tolist()
        return Rows(seen, new.tolist(), self.ends, last)

    @property
    def widest(self) -> int:
        """How many continuations of one row may be needed."""
        return int(self.width[self.sentence].max())

    @property
    def last(self) -> np.ndarray:
        """The newest token of each row."""
        return self.ids[np.arange(len(self.ids)), self.lengths[self.sentence] - 1]

    def extend(self, log_probs: np.ndarray, ids: np.ndarray) -> Chosen:
        """Go on to the best continuations, of which each row offers its likeliest [R, K].

        Hypotheses that ended, and sentences for which nothing better can come, are live no longer.
        """
        self.lengths[self.going] += 1
        parents, offers = self._best(self.totals[:, None] + log_probs)
        tokens, gains = ids[parents, offers], log_probs[parents, offers].astype(np.float64)
        sentence, totals = self.sentence[parents], self.totals[parents] + gains
        ended = np.isin(tokens, self.ends)
        out = ended | (self.limits[sentence] <= self.lengths[sentence])
        own = self._counting(sentence, out)
        made = Made(*(column[own] for column in (parents, tokens, gains, sentence, totals)))
        ended, out = ended[own], out[own]
        for one, finished in zip(self._hypotheses(made.of(out)), ended[out].tolist(), strict=True):
            self._end(*one, finished)
        live = np.flatnonzero(~out)
        live = live[self._hopeful(made.of(live))]
        self._keep(made.of(live))
        return Chosen(made.parents, offers[own], ended, live)

    def _best(self, totals: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Row and offer of the best continuations of each sentence, as many as its beam is wide;
        excluded ones, of log p -inf, are none."""
        first = np.searchsorted(self.sentence, going := self.going)
        number = np.searchsorted(going, self.sentence)
        rank, k = _ranks(self.sentence), totals.shape[1]
        table = np.full((len(going), 1 + int(rank.max()), k), np.inf)
        table[number, rank] = -totals
        table = table.reshape(len(going), -1)
        order = table.argsort(1, kind="stable")[:, : self.widest]  # of equals, the first
        good = np.take_along_axis(table, order, 1) < np.inf
        good &= np.arange(order.shape[1]) < self.width[going, None]
        rows, offers = np.divmod(order, k)
        return (rows + first[:, None])[good], offers[good]

    def _counting(self, sentence: np.ndarray, out: np.ndarray) -> np.ndarray:
        """Continuations that count, of those of sentences that were looked at; `out`: it ends."""
        return np.arange(len(out))

    def _written(self, made: Made) -> tuple[np.ndarray, np.ndarray]:
        """Ids and log p of continuations."""
        rows, at = np.arange(len(made.tokens)), self.lengths[made.sentence] - 1
        kept = self.ids[made.parents], self.log_probs[made.parents]
        if len(rows) and at.max() == kept[0].shape[1]:
            ids, log_probs = (np.pad(one, [(0, 0), (0, COLUMNS)]) for one in kept)
        else:
            ids, log_probs = kept
        ids[rows, at], log_probs[rows, at] = made.tokens, made.gains
        return ids, log_probs

    def _keep(self, made: Made) -> None:
        self.ids, self.log_probs = self._written(made)
        self.sentence, self.totals = made.sentence, made.totals

    def _hypotheses(self, made: Made) -> Iterator[tuple[int, list[int], list[float], float]]:
        """Sentence, ids, log p of each and Σ log p of continuations."""
        ids, log_probs = self._written(made)
        lengths = self.lengths[made.sentence].tolist()
        columns = made.sentence.tolist(), ids.tolist(), log_probs.tolist(), made.totals.tolist()
        for n, sentence, own, gains, total in zip(lengths, *columns, strict=True):
            yield sentence, own[:n], gains[:n], total

    def _end(
        self, sentence: int, ids: list[int], log_probs: list[float], total: float, finished: bool
    ) -> None:
        score = normalized(total, len(ids), self.config.length_penalty)
        self._note(sentence, Hypothesis(ids, log_probs, score, finished))

    def _note(self, sentence: int, one: Hypothesis) -> None:
        """Note what ended, and the bar of those that follow."""
        self.found[sentence].append(one)
        self.width[sentence] -= 1
        scores = sorted((one.score for one in self.found[sentence] if one.finished), reverse=True)
        if len(scores) >= self.config.n_best:
            self.bars[sentence] = scores[self.config.n_best - 1]

    def _hopeful(self, made: Made) -> np.ndarray:
        """Whether the sentence of each row can still have a better hypothesis than its n_best-th
        finished one.

        Log p is at most 0: a total only falls, and is divided by at most the limit's power, or, if
        α < 0, by at least that of the next length.
        """
        sentence, penalty = made.sentence, self.config.length_penalty
        bars, lengths = self.bars[sentence], self._lengths(sentence).astype(np.float64)
        reachable = made.totals / lengths**penalty
        hope = np.zeros(len(self.limits), dtype=bool)
        hope[sentence[(reachable > bars * (1 + ROUNDING)) | np.isneginf(bars)]] = True
        return hope[sentence]

    def _lengths(self, sentence: np.ndarray) -> np.ndarray:
        """The lengths at which live hypotheses would have their best score."""
        never_shorter = self.config.length_penalty >= 0
        return self.limits[sentence] if never_shorter else self.lengths[sentence] + 1

    def best(self, sentence: int) -> list[Hypothesis]:
        """Return the `n_best` best of a sentence: by score, the unfinished after the finished."""
        rank = lambda one: (not one.finished, -one.score)
        return sorted(self.found[sentence], key=rank)[: self.config.n_best]

    def keep(self, rows: np.ndarray) -> None:
        """Keep only these rows."""
        self.sentence, self.totals = self.sentence[rows], self.totals[rows]
        self.ids, self.log_probs = self.ids[rows], self.log_probs[rows]


class WideBeams(Beams):
    """The search of transformers, whose beam keeps its width.

    Of each sentence's likeliest continuations, `beams` live ones go on, and those among the first
    `beams` that end, or are cut off, are candidates for the `beams` best.
    """

    @property
    def looks_at(self) -> int:
        """See `Beams`: enough that `beams` of them do not end."""
        return max(2, 1 + len(self.ends))

    def _counting(self, sentence: np.ndarray, out: np.ndarray) -> np.ndarray:
        first = _ranks(sentence) < self.config.beams
        going = np.flatnonzero(~out)
        first[going] = _ranks(sentence[going]) < self.config.beams
        return np.flatnonzero(first)

    def _note(self, sentence: int, one: Hypothesis) -> None:
        found = sorted([*self.found[sentence], one], key=lambda one: -one.score)
        found = self.found[sentence] = found[: self.config.beams]
        if len(found) == self.config.beams:
            early = self.config.early_stopping is True
            self.bars[sentence] = np.inf if early else found[-1].score

    def _lengths(self, sentence: np.ndarray) -> np.ndarray:
        whole = self.config.early_stopping == "never" and self.config.length_penalty > 0
        return self.limits[sentence] if whole else self.lengths[sentence]

    def best(self, sentence: int) -> list[Hypothesis]:
        """Return the `n_best` best of a sentence, by score only."""
        return self.found[sentence][: self.config.n_best]


def beams_of(config: GenerateConfig, ends: Sequence[int]) -> Beams:
    """Return the hypotheses of a search with these settings; a beam of one is always greedy."""
    narrow = config.early_stopping is None or config.beams == 1
    return (Beams if narrow else WideBeams)(config, ends)


def _ranks(owner: np.ndarray) -> np.ndarray:
    """The place of each among those of the same owner; owners are sorted."""
    return np.arange(len(owner)) - np.searchsorted(owner, owner)
