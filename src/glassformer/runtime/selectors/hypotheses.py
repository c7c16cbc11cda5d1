"""Hypotheses of a beam search: which continuations are live, which ended, and when it is done.

Beams        as wide as it has hypotheses to find; each that ends narrows it
WideBeams    always as wide; the settings of transformers say when it is done
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from glassformer.runtime.config import GenerateConfig
from glassformer.runtime.selectors.constraints import Rows

COLUMNS = 32
"""Tokens for which hypotheses get room at a time."""
ROUNDING = 1e-12
"""A sentence continues while its best reachable score is at most this share below its bar, since
floats are rounded."""


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
    """Result of one step of a search: the rows extended, by which tokens; which ended by an end
    token, and which go on."""

    parents: np.ndarray
    tokens: np.ndarray
    ended: np.ndarray
    live: np.ndarray


def normalized(total: float, length: int, penalty: float) -> float:
    """A hypothesis' score Σ log p / lengthᵅ (Wu et al. 2016 in its plain form); the end token
    counts in the length."""
    return total / max(length, 1) ** penalty


class Beams:
    """The live hypotheses of sentences, one row each, by sentence and then likeliest first; and the
    ended ones."""

    def __init__(self, config: GenerateConfig, ends: Sequence[int]):
        self.config, self.ends = config, ends
        self.sentence = np.zeros(0, dtype=np.int64)
        self.paths = np.zeros((0, COLUMNS, 2))
        """Tokens of each hypothesis, with log p of each."""
        self.totals = np.zeros(0)
        self.limits, self.lengths, self.width = np.zeros((3, 0), dtype=np.int64)
        """`width`: number of continuations of a sentence that are looked at, less for those that
        ended."""
        self.bars = np.zeros(0)
        """The score that a sentence's next hypothesis must beat; -inf until enough ended."""
        self.found: list[list[Hypothesis]] = []

    @property
    def looks_at(self) -> int:
        """Continuations of a sentence that are looked at, for each hypothesis of its beam."""
        return 1

    @property
    def going(self) -> np.ndarray:
        """The sentences that have live hypotheses."""
        return self.sentence[np.diff(self.sentence, prepend=-1) > 0]

    @property
    def room(self) -> int:
        """Largest number of rows in the next steps."""
        return int(np.minimum(self.width[self.going], self.config.beams).sum())

    def begin(self, limits: Sequence[int]) -> None:
        """Begin sentences of at most these numbers of tokens, each with an empty hypothesis after
        all rows."""
        number, n = len(limits), len(self.found)
        self.sentence = np.append(self.sentence, range(n, n + number))
        self.limits = np.append(self.limits, limits)
        self.lengths = np.append(self.lengths, [0] * number)
        self.width = np.append(self.width, [self.config.beams * self.looks_at] * number)
        self.bars = np.append(self.bars, [-np.inf] * number)
        self.totals = np.append(self.totals, [0.0] * number)
        self.found += [[] for _ in limits]
        self.paths = np.pad(self.paths, ((0, number), (0, 0), (0, 0)))

    def rows(self, prompts: Sequence[Sequence[int]]) -> Rows:
        """Return what the constraints read: the live hypotheses after their prompts, one each."""
        new, ids = self.lengths[self.sentence], self.paths[:, :, 0].astype(np.int64).tolist()
        rows = zip(prompts, ids, new.tolist(), strict=True)
        seen = [[*prompt, *own[:length]] for prompt, own, length in rows]
        last = (self.limits[self.sentence] == new + 1).tolist()
        return Rows(seen, new.tolist(), self.ends, last)

    @property
    def widest(self) -> int:
        """Largest number of continuations that one row may need."""
        return int(self.width[self.sentence].max())

    def extend(self, log_probs: np.ndarray, ids: np.ndarray) -> Chosen:
        """Go on to the best continuations, of which each row offers its likeliest [R, K].

        Hypotheses that ended, and sentences for which nothing better can come, are live no longer.
        """
        self.lengths[self.going] += 1
        best = self._best(self.totals[:, None] + log_probs)
        sentence, ended = self.sentence[best[0]], np.isin(ids[best], self.ends)
        out = ended | (self.limits[sentence] <= self.lengths[sentence])
        own = _first(sentence, out, self.config.beams)
        parents, tokens, ended, out = best[0][own], ids[best][own], ended[own], out[own]
        gains = log_probs[best][own].astype(np.float64)
        self.sentence, self.totals = sentence[own], self.totals[parents] + gains
        self.paths, at = self.paths[parents], self.lengths[self.sentence] - 1
        if at.max(initial=0) == self.paths.shape[1]:
            self.paths = np.pad(self.paths, ((0, 0), (0, COLUMNS), (0, 0)))
        self.paths[np.arange(len(at)), at] = np.stack([tokens, gains], 1)
        for row in np.flatnonzero(out).tolist():
            self._end(row, bool(ended[row]))
        live = self._hopeful(~out)
        self.keep(np.flatnonzero(live))
        return Chosen(parents, tokens, ended, live)

    def _best(self, totals: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Row and offer of the best continuations of each sentence, as many as its beam is wide;
        excluded ones, of log p -inf, are none."""
        ranks = _ranks(self.sentence)
        begins = np.flatnonzero(ranks == 0)
        offers = np.full((len(begins), ranks.max() + 1, totals.shape[1]), -np.inf)
        offers[np.cumsum(ranks == 0) - 1, ranks] = totals
        offers = offers.reshape(len(begins), -1)  # of a sentence in a row
        order = (-offers).argsort(1, kind="stable")[:, : self.widest]  # of equals, the first
        good = np.arange(order.shape[1]) < self.width[self.sentence[begins], None]
        good &= np.take_along_axis(offers, order, 1) > -np.inf
        row, offer = np.divmod(order[good], totals.shape[1])
        return begins[np.nonzero(good)[0]] + row, offer

    def _end(self, row: int, finished: bool) -> None:
        ids, log_probs = self.paths[row, : self.lengths[self.sentence[row]]].T
        score = normalized(float(self.totals[row]), len(ids), self.config.length_penalty)
        one = Hypothesis(ids.astype(np.int64).tolist(), log_probs.tolist(), score, finished)
        self._note(int(self.sentence[row]), one)

    def _note(self, sentence: int, one: Hypothesis) -> None:
        """Note what ended, and the bar of those that follow."""
        self.found[sentence].append(one)
        self.width[sentence] -= 1
        scores = sorted((one.score for one in self.found[sentence] if one.finished), reverse=True)
        if len(scores) >= self.config.n_best:
            self.bars[sentence] = scores[self.config.n_best - 1]

    def _hopeful(self, live: np.ndarray) -> np.ndarray:
        """Return which of these rows (bool) go on: the sentence can still have a better hypothesis
        than its n_best-th finished one.

        Log p is at most 0: a total only falls, and is divided by at most the limit's power, or, if
        α < 0, by at least that of the next length.
        """
        bars, lengths = self.bars[self.sentence], self._lengths(self.sentence).astype(np.float64)
        reachable = self.totals / lengths**self.config.length_penalty
        hope = (reachable > bars * (1 + ROUNDING)) | np.isneginf(bars)
        hopeful = np.zeros(len(self.found), bool)
        hopeful[self.sentence[hope & live]] = True
        return live & hopeful[self.sentence]

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
        self.paths = self.paths[rows]


class WideBeams(Beams):
    """The search of transformers, whose beam keeps its width.

    Of each sentence's likeliest continuations, `beams` live ones go on, and those among the first
    `beams` that end, or are cut off, are candidates for the `beams` best.
    """

    @property
    def looks_at(self) -> int:
        """See `Beams`: enough that `beams` of them do not end."""
        return max(2, 1 + len(self.ends))

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


def _ranks(owner: np.ndarray) -> np.ndarray:
    """The place of each among those of the same owner; owners are sorted."""
    return np.arange(len(owner)) - np.searchsorted(owner, owner)


def _first(owner: np.ndarray, out: np.ndarray, n: int) -> np.ndarray:
    """Return which continuations count: the first n of each owner, and its first n that go on."""
    first, going = _ranks(owner) < n, np.flatnonzero(~out)
    first[going] = _ranks(owner[going]) < n
    return np.flatnonzero(first)
