"""The hypotheses of a beam search: which continuations it goes on to, which ended, and when it is
done.

Beams        as wide as it has hypotheses to find; each that ends narrows it
WideBeams    always as wide; the settings of transformers say when it is done
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from glassformer.generate.config import GenerateConfig
from glassformer.generate.constraints import Rows

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


class Beams:
    """The live hypotheses of all sentences, one row each, by sentence and then likeliest first; and
    the ended ones.

    `limits` are the most tokens that each sentence may get.
    """

    def __init__(self, config: GenerateConfig, ends: Sequence[int], limits: Sequence[int]):
        n, self.config, self.ends, self.limits = len(limits), config, ends, np.array(limits)
        self.sentence = np.arange(n)
        self.ids = np.zeros((n, 0), dtype=np.int64)
        self.log_probs = np.zeros((n, 0))
        self.totals = np.zeros(n)
        self.width = np.full(n, config.beams)
        """How many continuations of a sentence are looked at: `beams` without those that ended."""
        self.bars = np.full(n, -np.inf)
        """The score that a sentence's next hypothesis must beat; -inf until enough ended."""
        self.found: list[list[Hypothesis]] = [[] for _ in limits]

    def rows(self, prompts: Sequence[Sequence[int]]) -> Rows:
        """What the constraints read: the live hypotheses behind the prompts of all sentences."""
        owners, new = self.sentence.tolist(), self.ids.shape[1]
        seen = [[*prompts[i], *ids] for i, ids in zip(owners, self.ids.tolist(), strict=True)]
        return Rows(
            seen, [new] * len(seen), self.ends, (self.limits[self.sentence] == new + 1).tolist()
        )

    @property
    def widest(self) -> int:
        """How many continuations of one row may be needed."""
        return int(self.width[self.sentence].max())

    def extend(self, log_probs: np.ndarray, ids: np.ndarray) -> Chosen:
        """Go on to the best continuations, of which each row offers its likeliest [R, K].

        Hypotheses that ended, and sentences for which nothing better can come, are live no longer.
        """
        parents, offers = self._best(self.totals[:, None] + log_probs)
        self._keep(parents)
        tokens, gains = ids[parents, offers], log_probs[parents, offers].astype(np.float64)
        self.ids = np.concatenate([self.ids, tokens[:, None]], 1)
        self.log_probs = np.concatenate([self.log_probs, gains[:, None]], 1)
        self.totals = self.totals + gains
        ended = np.isin(tokens, self.ends)
        out = ended | (self.limits[self.sentence] <= self.ids.shape[1])
        own = self._counting(out)
        self._keep(own)
        parents, offers, ended, out = parents[own], offers[own], ended[own], out[own]
        for row in np.flatnonzero(out).tolist():
            self._end(row, finished=bool(ended[row]))
        live = np.flatnonzero(~out)
        live = live[self._hopeful(live)]
        self._keep(live)
        return Chosen(parents, offers, ended, live)

    def _best(self, totals: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Row and offer of the best continuations of each sentence, as many as its beam is wide;
        excluded ones, of log p -inf, are none."""
        owner = np.repeat(self.sentence, totals.shape[1])
        order = np.lexsort((-totals.ravel(), owner))  # stable: of equals, the first
        order = order[np.isfinite(totals.ravel()[order])]
        owner = owner[order]
        return np.divmod(order[_ranks(owner) < self.width[owner]], totals.shape[1])

    def _counting(self, out: np.ndarray) -> np.ndarray:
        """Rows of the continuations that count, of those that were looked at; `out`: it ends."""
        return np.arange(len(out))

    def _keep(self, rows: np.ndarray) -> None:
        self.sentence, self.totals = self.sentence[rows], self.totals[rows]
        self.ids, self.log_probs = self.ids[rows], self.log_probs[rows]

    def _hypothesis(self, row: int, finished: bool) -> Hypothesis:
        log_probs = self.log_probs[row].tolist()
        score = normalized(float(self.totals[row]), len(log_probs), self.config.length_penalty)
        return Hypothesis(self.ids[row].tolist(), log_probs, score, finished)

    def _end(self, row: int, finished: bool) -> None:
        sentence = self.sentence[row]
        self.found[sentence].append(self._hypothesis(row, finished))
        self.width[sentence] -= 1
        scores = sorted((one.score for one in self.found[sentence] if one.finished), reverse=True)
        if len(scores) >= self.config.n_best:
            self.bars[sentence] = scores[self.config.n_best - 1]

    def _hopeful(self, rows: np.ndarray) -> np.ndarray:
        """Whether the sentence of each row can still have a better hypothesis than its n_best-th
        finished one.

        Log p is at most 0: a total only falls, and is divided by at most the limit's power, or, if
        α < 0, by at least that of the next length.
        """
        sentence, penalty = self.sentence[rows], self.config.length_penalty
        bars, lengths = self.bars[sentence], self._lengths(sentence).astype(np.float64)
        reachable = self.totals[rows] / lengths**penalty
        hope = np.zeros(len(self.limits), dtype=bool)
        hope[sentence[(reachable > bars * (1 + ROUNDING)) | np.isneginf(bars)]] = True
        return hope[sentence]

    def _lengths(self, sentence: np.ndarray) -> np.ndarray:
        """The lengths at which live hypotheses would have their best score."""
        next_lengths = np.full(len(sentence), self.ids.shape[1] + 1)
        return self.limits[sentence] if self.config.length_penalty >= 0 else next_lengths

    def best(self) -> list[list[Hypothesis]]:
        """The `n_best` best of each sentence: by score, the unfinished behind the finished ones."""
        rank = lambda one: (not one.finished, -one.score)
        return [sorted(found, key=rank)[: self.config.n_best] for found in self.found]


class WideBeams(Beams):
    """The search of transformers, whose beam keeps its width.

    Of each sentence's likeliest continuations, `beams` live ones go on, and those among the first
    `beams` that end, or are cut off, are candidates for the `beams` best.
    """

    def __init__(self, config: GenerateConfig, ends: Sequence[int], limits: Sequence[int]):
        super().__init__(config, ends, limits)
        self.width *= max(2, 1 + len(ends))  # so that `beams` of them do not end

    def _counting(self, out: np.ndarray) -> np.ndarray:
        first = _ranks(self.sentence) < self.config.beams
        going = np.flatnonzero(~out)
        first[going] = _ranks(self.sentence[going]) < self.config.beams
        return np.flatnonzero(first)

    def _end(self, row: int, finished: bool) -> None:
        sentence = self.sentence[row]
        one, found = self._hypothesis(row, finished), self.found[sentence]
        found = sorted([*found, one], key=lambda one: -one.score)[: self.config.beams]
        self.found[sentence] = found
        if len(found) == self.config.beams:
            early = self.config.early_stopping is True
            self.bars[sentence] = np.inf if early else found[-1].score

    def _lengths(self, sentence: np.ndarray) -> np.ndarray:
        whole = self.config.early_stopping == "never" and self.config.length_penalty > 0
        return self.limits[sentence] if whole else np.full(len(sentence), self.ids.shape[1])

    def best(self) -> list[list[Hypothesis]]:
        """The `n_best` best of each sentence, by score alone."""
        return [found[: self.config.n_best] for found in self.found]


def beams_of(config: GenerateConfig, ends: Sequence[int], limits: Sequence[int]) -> Beams:
    """The hypotheses of a search with these settings; a beam of one is greedy in any case."""
    narrow = config.early_stopping is None or config.beams == 1
    return (Beams if narrow else WideBeams)(config, ends, limits)


def _ranks(owner: np.ndarray) -> np.ndarray:
    """The place of each among those of the same owner; owners are sorted."""
    return np.arange(len(owner)) - np.searchsorted(owner, owner)
