"""Beam search: the likeliest whole continuation, looked for among the k likeliest beginnings
(Sutskever et al. 2014).

    live hypotheses   the k likeliest continuations   those that end
    of a sentence     over all of them                leave the beam
      <bos>             <bos> the      <bos> a          k - 1 go on
      ...

All sentences of a batch are searched together, and a row of the model's batch is one live
hypothesis: as beams narrow and sentences end, the batch shrinks.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np
import torch

from glassformer.batch import Batch
from glassformer.data.example import Example
from glassformer.errors import ConfigError
from glassformer.generate.advance import (
    Prompt,
    Prompts,
    advance,
    check_language_model,
    check_numbers,
    check_prompts,
    check_source,
    encoded,
    examples_of,
    half,
    next_logits,
    prefill,
    selected,
    tokens_of,
)
from glassformer.generate.beamwatch import BeamStep, BeamWatcher, Chosen, normalized
from glassformer.generate.config import GenerateConfig
from glassformer.generate.logits import likeliest
from glassformer.generate.watch import Watch
from glassformer.layers.cache import Cache
from glassformer.models.transformer import Features, Transformer, evaluating

ROUNDING = 1e-12
"""A sentence goes on while the best it can reach is no more than this part below what it has:
floats are rounded."""


@dataclass(frozen=True)
class Hypothesis:
    """A continuation of a prompt: its ids with the end token if it `finished`, log p of each, Σ log
    p / lengthᵅ."""

    ids: list[int]
    log_probs: list[float]
    score: float
    finished: bool


@dataclass(frozen=True)
class Search:
    """How far a beam search is: what it weighed at its last step, and the best hypotheses that
    ended so far."""

    steps: tuple[BeamStep, ...]
    best: list[list[Hypothesis]]


def beam_search(
    model: Transformer,
    prompts: Prompts,
    config: GenerateConfig,
    ends: Sequence[int] = (),
    source: Batch | None = None,
    limits: Sequence[int] | None = None,
) -> list[list[Hypothesis]]:
    """The `n_best` best hypotheses for each prompt, best first, as found with beams of `beams`
    hypotheses.

    At each step the k likeliest continuations (by Σ log p) of a sentence's live hypotheses are
    kept. One that produced a token of `ends` leaves the beam, which is narrower from then on: with
    k = 1 this is greedy decoding. A sentence is done when nothing live can still beat its n_best-th
    finished hypothesis, so stopping early changes nothing. One that reached `max_new_tokens`, its
    own of `limits`, or the end of the context without an end token is unfinished and stands after
    all finished ones. Of equals the earlier one in the beam stays ahead, and in it the lower token
    id. Errors: those of `decode`, and `config.beams` 0.
    """
    beams: Beams | None = None
    for search, _ in _searched(model, prompts, config, ends, source, limits, None):
        beams = search
    return [] if beams is None else beams.best()


def beam_steps(
    model: Transformer,
    prompts: Prompts,
    config: GenerateConfig,
    ends: Sequence[int] = (),
    source: Batch | None = None,
    limits: Sequence[int] | None = None,
    watch: Watch = Watch(),  # noqa: B008 (it is frozen)
) -> Iterator[Search]:
    """The same search, watched: yields after each step what was weighed; the last `best` is what
    `beam_search` gives.

    Errors: those of `beam_search` and of `Watcher`.
    """
    for beams, steps in _searched(model, prompts, config, ends, source, limits, watch):
        yield Search(steps, beams.best())


def _searched(
    model: Transformer,
    prompts: Prompts,
    config: GenerateConfig,
    ends: Sequence[int],
    source: Batch | None,
    limits: Sequence[int] | None,
    watch: Watch | None,
) -> Iterator[tuple["Beams", tuple[BeamStep, ...]]]:
    """The search step by step; the modes are entered for each computation, since a generator would
    leak them."""
    _check(model, prompts, config, source)
    if not prompts:
        return
    context = model.config.max_length
    rows = examples_of(prompts) or [_last(tokens_of(prompt), context) for prompt in prompts]
    room = _rooms(rows, limits, config, context)
    beams = Beams(config, ends, room)
    left_out = [
        len(tokens_of(prompt)) - len(tokens_of(row))
        for prompt, row in zip(prompts, rows, strict=True)
    ]
    watcher = None if watch is None else BeamWatcher(model, watch, config, left_out)
    computing = partial(evaluating, model) if watcher is None else watcher.computing
    with computing():
        features = prefill(model, rows, encoded(source, model), Cache())
    while True:
        with evaluating(model):
            logits = next_logits(model, features)
            ids = likeliest(logits, beams.widest)
            log_probs = logits.log_softmax(-1).gather(-1, ids)
        check_numbers(log_probs)
        before, totals = beams.sentence, beams.totals
        parents = beams.extend(log_probs.cpu().numpy(), ids.cpu().numpy())
        yield (
            beams,
            () if watcher is None else watcher.step(features, logits, before, totals, beams.chosen),
        )
        if not len(parents):
            return
        with computing():
            features = _reordered(
                features, parents, same_sources=np.array_equal(before, beams.sentence)
            )
            features = advance(
                model, features, torch.from_numpy(beams.ids[:, -1]).to(logits.device)
            )


def _rooms(
    rows: Sequence[Prompt], limits: Sequence[int] | None, config: GenerateConfig, context: int
) -> list[int]:
    """How many tokens each row may still get."""
    longest = limits or [config.max_new_tokens] * len(rows)
    sizes = [len(row.ids if isinstance(row, Example) else row) for row in rows]
    return [
        min(config.max_new_tokens, most, context - size + 1)
        for most, size in zip(longest, sizes, strict=True)
    ]


def _check(
    model: Transformer, prompts: Prompts, config: GenerateConfig, source: Batch | None
) -> None:
    check_language_model(model)
    check_source(source, len(prompts), model)
    check_prompts(prompts, model, config)
    if not config.beams:
        raise ConfigError(
            "A beam search needs beams of at least 1 hypothesis, and beams=0; raise it, or use "
            "decode."
        )


def _last(ids: list[int], context: int) -> list[int]:
    return ids if len(ids) <= context else ids[-half(context) :]


def _reordered(features: Features, parents: np.ndarray, same_sources: bool) -> Features:
    if same_sources and np.array_equal(parents, np.arange(len(parents))):
        return features
    return selected(features, torch.from_numpy(parents).to(features.hidden.device), same_sources)


class Beams:
    """The live hypotheses of all sentences, one row each, by sentence and then likeliest first; and
    the ended ones.

    `limits` are the most tokens that each sentence may get.
    """

    def __init__(self, config: GenerateConfig, ends: Sequence[int], limits: Sequence[int]):
        n = len(limits)
        self.config, self.ends, self.limits = (
            config,
            np.array(ends, dtype=np.int64),
            np.array(limits),
        )
        self.sentence = np.arange(n)
        self.ids = np.zeros((n, 0), dtype=np.int64)
        self.log_probs = np.zeros((n, 0))
        self.totals = np.zeros(n)
        self.width = np.full(n, config.beams)
        """How many live hypotheses each sentence may have: `beams` without those that ended."""
        self.bars = np.full(n, -np.inf)
        """The score that a sentence's next hypothesis must beat, once there are `n_best`."""
        self.found: list[list[Hypothesis]] = [[] for _ in limits]
        self.chosen = Chosen.none()
        """What the last step went on to."""

    @property
    def widest(self) -> int:
        """How many continuations of one row may be needed."""
        return int(self.width[self.sentence].max())

    def extend(self, log_probs: np.ndarray, ids: np.ndarray) -> np.ndarray:
        """Go on to the best continuations, of which each row offers its likeliest [R, K]; returns
        the rows they extend.

        Hypotheses that ended, and sentences for which nothing better can come, are live no longer.
        """
        parents, offers = self._chosen(self.totals[:, None] + log_probs)
        self._keep(parents)
        tokens, gains = ids[parents, offers], log_probs[parents, offers].astype(np.float64)
        self.ids = np.concatenate([self.ids, tokens[:, None]], 1)
        self.log_probs = np.concatenate([self.log_probs, gains[:, None]], 1)
        self.totals = self.totals + gains
        ended = np.isin(tokens, self.ends)
        out = ended | (self.limits[self.sentence] <= self.ids.shape[1])
        for row in np.flatnonzero(out).tolist():
            self._end(row, finished=bool(ended[row]))
        live = np.flatnonzero(~out)
        live = live[self._hopeful(live)]
        self.chosen = Chosen(parents, offers, ended, live)
        self._keep(live)
        return parents[live]

    def _chosen(self, totals: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Row and offer of the best continuations of each sentence, as many as its beam is wide."""
        owner = np.repeat(self.sentence, totals.shape[1])
        order = np.lexsort((-totals.ravel(), owner))  # stable: of equals, the first
        owner = owner[order]
        rank = np.arange(len(order)) - np.searchsorted(owner, owner)
        return np.divmod(order[rank < self.width[owner]], totals.shape[1])

    def _keep(self, rows: np.ndarray) -> None:
        self.sentence, self.totals = self.sentence[rows], self.totals[rows]
        self.ids, self.log_probs = self.ids[rows], self.log_probs[rows]

    def _end(self, row: int, finished: bool) -> None:
        log_probs, sentence = self.log_probs[row].tolist(), self.sentence[row]
        score = normalized(float(self.totals[row]), len(log_probs), self.config.length_penalty)
        self.found[sentence].append(Hypothesis(self.ids[row].tolist(), log_probs, score, finished))
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
        sentence, length, penalty = (
            self.sentence[rows],
            self.ids.shape[1],
            self.config.length_penalty,
        )
        most = self.limits[sentence] if penalty >= 0 else np.full(len(rows), length + 1)
        reachable, bars = (
            self.totals[rows] / most.astype(np.float64) ** penalty,
            self.bars[sentence],
        )
        hope = np.zeros(len(self.limits), dtype=bool)
        hope[sentence[(reachable > bars * (1 + ROUNDING)) | np.isneginf(bars)]] = True
        return hope[sentence]

    def best(self) -> list[list[Hypothesis]]:
        """The `n_best` best of each sentence: by score, the unfinished behind the finished ones."""
        rank = lambda one: (not one.finished, -one.score)  # noqa: E731
        return [sorted(found, key=rank)[: self.config.n_best] for found in self.found]
