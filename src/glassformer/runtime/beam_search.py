"""Beam search: the likeliest whole continuation, searched among the k likeliest beginnings
(Sutskever et al. 2014).

    live hypotheses   the k likeliest continuations   those that end
    of a sentence     over all of them                leave the beam
      <bos>             <bos> the      <bos> a          k - 1 go on
      ...

All sentences of a batch are searched together, and a row of the model's batch is one live
hypothesis: as beams narrow and sentences end, the batch shrinks.
"""

import math
from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch

from glassformer.axes import Float, Tensor
from glassformer.batch import Batch
from glassformer.data.example import Example
from glassformer.errors import ConfigError
from glassformer.layers.ragged import RaggedCache
from glassformer.layers.tap import recorded
from glassformer.models.compiled_step import CompiledStep
from glassformer.models.transformer import Transformer, evaluating
from glassformer.runtime.beam_rows import BeamRows, Change
from glassformer.runtime.config import CONSTRAINTS, GenerateConfig
from glassformer.runtime.constraints import constrained, is_set
from glassformer.runtime.hypotheses import Beams, Chosen, Hypothesis, beams_of, normalized
from glassformer.runtime.prompts import (
    Prompt,
    Prompts,
    begin,
    check_numbers,
    check_request,
    examples_of,
    rooms,
    tokens_of,
)
from glassformer.runtime.sampling import likeliest
from glassformer.runtime.trace import AttentionRows, Watch, Watcher

AT_ONCE = 128
"""Sentences that are searched at the same time, about."""


@dataclass(frozen=True)
class Candidate:
    """A continuation that was weighed: its token and log p (nats), Σ log p of the whole, and Σ log
    p / lengthᵅ.

    `parent` is the number of the candidate that it extends among those of the step before, None at
    the first step. `kept`: it was among the likeliest that the beam has room for; `finished`: it
    ended by an end token; `live`: the search goes on from it. One kept that is neither is cut off,
    or can no longer win. `rows` (of what was kept) belong to the element that its token was read
    from.
    """

    id: int
    log_prob: float
    total: float
    score: float
    parent: int | None
    kept: bool = False
    finished: bool = False
    live: bool = False
    rows: AttentionRows | None = None


@dataclass(frozen=True)
class BeamStep:
    """The candidates of one sentence at one step (from 0): of each live hypothesis in turn, its
    likeliest first."""

    sentence: int
    step: int
    candidates: list[Candidate]


@dataclass(frozen=True)
class Search:
    """Progress of a beam search: the candidates of its last step if it is watched, and its
    hypotheses."""

    steps: tuple[BeamStep, ...]
    beams: Beams

    @property
    def best(self) -> list[list[Hypothesis]]:
        """The best of each sentence by now, best first."""
        return self.beams.best()


def beam_search(
    model: Transformer,
    prompts: Prompts,
    config: GenerateConfig,
    ends: Sequence[int] = (),
    source: Batch | None = None,
    limits: Sequence[int] | None = None,
    at_once: int = AT_ONCE,
) -> list[list[Hypothesis]]:
    """The `n_best` best hypotheses for each prompt, best first, as found with beams of `beams`
    hypotheses.

    At each step the k likeliest continuations (by Σ log p) of a sentence's live hypotheses are
    kept. One that produced a token of `ends` leaves the beam, which is narrower from then on: with
    k = 1 this is greedy decoding. A sentence is done when nothing live can still beat its n_best-th
    finished hypothesis, so stopping early changes nothing. One that reached `max_new_tokens`, its
    own of `limits`, or the end of the context without an end token is unfinished and stands after
    all finished ones. Of equals the earlier one in the beam stays ahead, and in it the lower token
    id. The log p of a token is after the constraints of `config`: 0 of a forced one.

    With `early_stopping` (and k > 1) this is the search of transformers; see `beams.WideBeams`.
    Errors: those of `decode`, and `config.beams` 0.
    """
    steps = beam_steps(model, prompts, config, ends, source, limits, at_once=at_once)
    last = deque(steps, maxlen=1)
    return last[0].best if last else []


def beam_steps(
    model: Transformer,
    prompts: Prompts,
    config: GenerateConfig,
    ends: Sequence[int] = (),
    source: Batch | None = None,
    limits: Sequence[int] | None = None,
    watch: Watch | None = None,
    at_once: int = AT_ONCE,
) -> Iterator[Search]:
    """The same search step by step; the last `best` is the result of `beam_search`.

    Prompts begin in order, about `at_once` at the same time; all together if they are watched.

    Errors: those of `beam_search` and of `Watcher`.
    """
    check_request(model, prompts, config, source)
    if not config.beams:
        raise ConfigError(
            "A beam search needs beams of at least 1 hypothesis, and beams=0; raise it, or use "
            "decode."
        )
    if not prompts:
        return
    firsts = [_first(prompt, model.config.max_length) for prompt in prompts]
    examples = zip(examples_of(prompts), firsts, strict=True)
    examples = [replace(one, ids=one.ids[first:]) for one, first in examples]
    watcher = BeamWatcher(model, watch, config, firsts)
    step = None if watch is not None else compiled(model, config)
    at_once = at_once if watch is None else len(prompts)
    rows = BeamRows(model, step, examples, source, at_once)
    beams = beams_of(config, ends, rooms(examples, model, config, limits), 0)
    change = _constraints(beams, [tokens_of(prompt) for prompt in prompts])
    while True:
        # Modes are entered for each computation, since a generator would leak them.
        with evaluating(model):
            _begin(rows, beams, at_once)
            with watcher.kept():
                log_probs, tokens, left = rows.offers(beams.widest, change, watch is not None)
        check_numbers(torch.from_numpy(log_probs))
        before, totals = beams.sentence, beams.totals
        chosen = beams.extend(log_probs, tokens)
        yield Search(watcher.step(rows.cache, left, before, totals, chosen), beams)
        if not (len(chosen.live) or beams.waiting):
            return
        rows.grow(chosen.parents[chosen.live], beams.last)


def _begin(rows: BeamRows, beams: Beams, at_once: int) -> None:
    """Begin sentences in groups while there is room."""
    width = beams.config.beams
    group = at_once if at_once == len(rows.prompts) else max(1, at_once // 4)
    while beams.waiting and beams.room + group * width <= at_once * width:
        number = min(group, beams.waiting)
        rows.begin(number)
        beams.begin(number)


def _constraints(beams: Beams, prompts: Sequence[Sequence[int]]) -> Change | None:
    """Return what constraints do to log p of all tokens of the live hypotheses; None: nothing."""
    if not _is_constrained(beams.config):
        return None
    return lambda log_probs: constrained(log_probs, beams.rows(prompts), beams.config)


def _is_constrained(config: GenerateConfig) -> bool:
    return any(is_set(config, name) for name in CONSTRAINTS)


def compiled(model: Transformer, config: GenerateConfig) -> CompiledStep | None:
    """The compiled step, if a search with these settings can use it: it shows no activations, and
    constraints read all log-probabilities."""
    step = model.compiled_step
    usable = step is not None and step.current and not recorded()
    return step if usable and not _is_constrained(config) else None


def _first(prompt: Prompt, context: int) -> int:
    """Index of the context's first element; prompts with patches are never cut."""
    return 0 if isinstance(prompt, Example) else begin(len(prompt), 0, context)


class BeamWatcher(Watcher):
    """Records the candidates of a search, or nothing without a `watch`.

    `firsts`: number of elements that each prompt lost because it was longer than the context.
    """

    def __init__(
        self,
        model: Transformer,
        watch: Watch | None,
        config: GenerateConfig,
        firsts: Sequence[int],
    ):
        super().__init__(model, watch)
        self.config, self.firsts, self.length = config, firsts, 0
        self.numbers: list[int | None] = [None] * len(firsts)
        """Number of the candidate that each live hypothesis was."""

    def step(
        self,
        cache: RaggedCache,
        left: Float[Tensor, "B V"],
        sentence: np.ndarray,
        totals: np.ndarray,
        chosen: Chosen,
    ) -> tuple[BeamStep, ...]:
        """The candidates of every sentence: the likeliest of each of its hypotheses, at least as
        many as are kept."""
        if self.watch is None:
            return ()
        table = likeliest(left, max(self.watch.top, self.config.beams, 1 + chosen.offers.max()))
        log_probs = left.gather(-1, table).tolist()
        ids, sentences = table.tolist(), sentence.tolist()
        rows = self.rows(cache, [self.firsts[i] for i in sentences])
        offered = zip(chosen.parents.tolist(), chosen.offers.tolist(), strict=True)
        fates = {offer: at for at, offer in enumerate(offered)}
        ended, live = chosen.ended.tolist(), set(chosen.live.tolist())
        self.length += 1
        found: dict[int, list[Candidate]] = {number: [] for number in sentences}
        numbers: dict[int, int] = {}
        for row, (number, total) in enumerate(zip(sentences, totals.tolist(), strict=True)):
            for offer, (token, log_prob) in enumerate(zip(ids[row], log_probs[row], strict=True)):
                if log_prob == -math.inf:  # excluded, as all that follow
                    break
                whole = total + log_prob
                score = normalized(whole, self.length, self.config.length_penalty)
                fate: tuple[Any, ...] = ()
                if (at := fates.get((row, offer))) is not None:
                    numbers[at] = len(found[number])
                    fate = (True, ended[at], at in live, rows[row])
                one = Candidate(token, log_prob, whole, score, self.numbers[row], *fate)
                found[number].append(one)
        self.numbers = [numbers[at] for at in chosen.live.tolist()]
        return tuple(BeamStep(number, self.length - 1, own) for number, own in found.items())
