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

from glassformer.axes import Float, Int, Tensor
from glassformer.batch import Batch, Positions
from glassformer.data.example import Example
from glassformer.errors import ConfigError
from glassformer.generate.advance import (
    Prompt,
    Prompts,
    begin,
    check_numbers,
    check_request,
    encoded,
    examples_of,
    next_logits,
    prefill,
    rooms,
    tokens_of,
)
from glassformer.generate.beams import Beams, Chosen, Hypothesis, beams_of, normalized
from glassformer.generate.config import CONSTRAINTS, GenerateConfig
from glassformer.generate.constraints import Rows, constrained, is_set
from glassformer.generate.lines import Lines
from glassformer.generate.logits import likeliest
from glassformer.generate.watch import AttentionRows, Watch, Watcher
from glassformer.layers.branches import BranchedCache
from glassformer.layers.cache import Cache
from glassformer.layers.tap import recorded
from glassformer.models.compiled_step import CompiledStep
from glassformer.models.transformer import Features, Memory, Transformer, evaluating

AT_ONCE = 128
"""Sentences that a compiled step searches at the same time, about."""
HEAD_ROWS = 128
"""Branches whose logits are computed together: few enough for these to stay in the cache."""


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

    With a compiled step (see `native`) that the search can use, prompts begin in order, about
    `at_once` at the same time; without, all begin at once.

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
    rows = [replace(one, ids=one.ids[first:]) for one, first in examples]
    room = rooms(rows, model, config, limits)
    step = None if watch is not None else compiled(model, config)
    if step is not None and not any(isinstance(one, Example) for one in prompts):
        lines = Lines(model, step, [one.ids.tolist() for one in rows], source, at_once)
        yield from _in_places(lines, beams_of(config, ends, room, 0), at_once)
        return
    watcher = BeamWatcher(model, watch, config, firsts)
    # Modes are entered for each computation, since a generator would leak them.
    with watcher.computing():
        memory = encoded(source, model)
        features = prefill(model, rows, memory, Cache())
        watcher.memory = memory
    prompt_ids = [tokens_of(prompt) for prompt in prompts]
    yield from _together(model, features, beams_of(config, ends, room), prompt_ids, watcher)


def _together(
    model: Transformer,
    features: Features,
    beams: Beams,
    prompts: Sequence[Sequence[int]],
    watcher: "BeamWatcher",
) -> Iterator[Search]:
    """The search by the model's own pass, of all sentences at once, from features of the
    prompts."""
    config = beams.config
    constrains = any(is_set(config, name) for name in CONSTRAINTS)
    features = branching(features, config.beams)
    while True:
        with evaluating(model):
            given = beams.rows(prompts) if constrains else None
            found = offers(model, features, beams.widest, given, config, watcher.watch)
        left, log_probs, ids = found
        check_numbers(log_probs)
        before, totals = beams.sentence, beams.totals
        chosen = beams.extend(log_probs.cpu().numpy(), ids.cpu().numpy())
        yield Search(watcher.step(features, left, before, totals, chosen), beams)
        if not len(chosen.live):
            return
        with watcher.computing():
            parents, last = chosen.parents[chosen.live], beams.last
            features = grown(model, features, torch.from_numpy(parents), torch.from_numpy(last))


def compiled(model: Transformer, config: GenerateConfig) -> CompiledStep | None:
    """The compiled step, if a search with these settings can use it: it shows no activations, and
    constraints read all log-probabilities."""
    step = model.compiled_step
    usable = step is not None and step.current and not recorded()
    return step if usable and not any(is_set(config, name) for name in CONSTRAINTS) else None


def _in_places(lines: Lines, beams: Beams, at_once: int) -> Iterator[Search]:
    """The search by a compiled step, in which sentences take the places of those that ended."""
    group, width = max(1, at_once // 4), beams.config.beams
    while True:
        with evaluating(lines.model):
            while beams.waiting and beams.room + group * width <= at_once * width:
                number = min(group, beams.waiting)
                lines.begin(number)
                beams.begin(number)
            log_probs, ids = lines.offers(beams.widest)
        check_numbers(torch.from_numpy(log_probs))
        chosen = beams.extend(log_probs, ids)
        yield Search((), beams)
        if not (len(chosen.live) or beams.waiting):
            return
        lines.grow(chosen.parents[chosen.live], beams.last)


def offers(
    model: Transformer,
    features: Features,
    k: int,
    given: Rows | None,
    config: GenerateConfig,
    watch: Watch | None,
) -> tuple[Float[Tensor, "_ V"], Float[Tensor, "B K"], Int[Tensor, "B K"]]:
    """log p of all tokens if it is watched, that of the k likeliest, and these, for each branch;
    `given`: what the constraints read, None without any."""
    parts: list[tuple[Tensor, Tensor, Tensor]] = []
    logits_of = lambda part: next_logits(model, replace(features, hidden=part))
    step = len(features.hidden) if given or watch else HEAD_ROWS
    for part in features.hidden.split(step):
        left = logits_of(part).log_softmax(-1)
        if given is not None:
            left = constrained(left, given, config)
        ids = likeliest(left, k)
        log_probs = left.gather(-1, ids)
        parts.append((left if watch else left[:0], log_probs, ids))
    left, log_probs, ids = (torch.cat(column) for column in zip(*parts, strict=True))
    return left, log_probs, ids


def branching(features: Features, width: int) -> Features:
    """Features of prompts from which at most `width` branches each will go on."""
    assert features.cache is not None
    sources = None if features.memory is None else features.memory.positions
    rows = len(features.hidden)
    cache = BranchedCache.of(features.cache, features.positions, sources, rows, width)
    return replace(features, cache=cache)


def grown(
    model: Transformer, features: Features, parents: Int[Tensor, "B"], tokens: Int[Tensor, "B"]
) -> Features:
    """Go on from these branches, each with one more token."""
    assert isinstance(features.cache, BranchedCache)
    device, where = features.hidden.device, features.positions
    cache = features.cache.branched(parents.to(device))
    start = None if where.start is None else where.start + where.length
    new = Positions(cache.newest[:, None] + 1, start=start)
    return model.features(Batch(tokens.to(device)[:, None], new), None, cache)


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
        self.memory: Memory | None = None
        """The encoder's output for all sentences."""
        self.numbers: list[int | None] = [None] * len(firsts)
        """Number of the candidate that each live hypothesis was."""

    def step(
        self,
        features: Features,
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
        rows = self.rows(self.apart(features), [self.firsts[i] for i in sentences])
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

    def apart(self, features: Features) -> Features:
        """Features with a row of everything for each hypothesis."""
        cache, memory = features.cache, self.memory
        assert isinstance(cache, BranchedCache)
        if not self.layers:
            return features
        memory = None if memory is None else memory.selected(cache.number[cache.owner])
        return replace(features, memory=memory, cache=cache.apart())
