"""Many texts at once on one model: a step computes the next token of each and a part of prompts.

engine = Engine(model)
number = engine.add(Request(prompt=ids, config=config, ends=(eos,)))
while not engine.idle:
    for event in engine.step(): ...

    waiting ──slots for the whole text──> running ──end, length, abort, error──> slots given back

Texts come and go between steps (continuous batching). One is admitted, in order, once the pool has
slots for its prompt and all tokens that may come, so that no step can run out of memory. Prompts
are attended in chunks of CHUNK, a text is decoded over exactly its own keys, and products
on a CPU have at least `MIN_ROWS` rows: what is computed for a request depends on the request alone,
bit for bit. Without `invariant` a prompt is read at once, by the products that are fastest.
"""

from collections import deque
from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from itertools import chain, zip_longest

import numpy as np
import torch

from glassformer.axes import Float, Tensor
from glassformer.batch import Batch, Part
from glassformer.errors import ConfigError
from glassformer.layers.cpu_kernels import MIN_ROWS, batch_invariant
from glassformer.layers.ragged import Pool, RaggedCache
from glassformer.layers.tap import recorded
from glassformer.losses import at_least_float32
from glassformer.models.compiled_step import CompiledStep
from glassformer.models.config import ModelConfig
from glassformer.models.transformer import Transformer, evaluating
from glassformer.runtime.prefixes import BLOCK, Prefixes, keys
from glassformer.runtime.prompts import check_ids, check_prompts, check_source
from glassformer.runtime.request import Event, Request
from glassformer.runtime.sampler import Read, read
from glassformer.runtime.sequence import Piece, Running
from glassformer.runtime.trace import Watch, Watcher

CHUNK = BLOCK // 2
"""Elements of a prompt for which attention is computed at once, whatever else a step computes; a
step with as many beside decoding texts takes less than three times as long as one without."""
CACHE_BYTES = 1 << 30
"""Default size of the pool, at most."""
STOPS = KeyboardInterrupt, SystemExit
"""What ends the caller, not a request; a library in another language may raise neither these nor an
`Exception`."""


class Engine:
    """Requests on one model, stepped by its caller; see the module.

    `cache_bytes`: size of the pool; None: what `max_rows` texts of the whole context need, at most
    1 GiB. `n_slots`: number of its slots, instead of its size. `max_rows`: texts at the same time.
    `prefill`: elements of prompts in a step while others decode; all of `max_rows` chunks
    otherwise. `together`: no text gets a token before all others have as many. `invariant`: no bit
    of a text depends on others. `watch`: what is reported of each choice. The weights must not
    change while an engine has texts or prefixes. Not for use by several threads.

    ConfigError: a cache without room, a layer or head in `watch` that the model does not have.
    """

    def __init__(
        self,
        model: Transformer,
        *,
        max_rows: int = 16,
        cache_bytes: int | None = None,
        n_slots: int | None = None,
        prefill: int = CHUNK,
        shares_prefixes: bool = True,
        together: bool = False,
        invariant: bool = True,
        watch: Watch | None = None,
    ):
        self.model, self.max_rows, self.prefill = model, max_rows, prefill
        self.program = _program(model, watch)
        dtype, device = _dtype(model, self.program), next(model.parameters()).device
        n_slots = n_slots or _n_slots(model, dtype, max_rows, cache_bytes)
        self.pool = Pool(*_shape(model.config), n_slots, dtype, device)
        self.prefixes = Prefixes(self.pool)
        self.shares_prefixes, self.together = shares_prefixes, together
        self.invariant = invariant
        self.watcher = Watcher(model, watch)
        self.waiting: deque[Running] = deque()
        self.running: list[Running] = []
        self._count = 0

    @classmethod
    def of(
        cls, model: Transformer, requests: Sequence[Request], watch: Watch | None = None
    ) -> "Engine":
        """An engine for these requests alone, numbered from 1: all together, or invariant if there
        is a draft, since a guess must not change a bit.

        Errors: those of `add`, and of a watch.
        """
        texts = [checked(model, one) for one in requests]
        own = max(one.longest for one in texts)
        sources = max(one.request.n_source for one in texts)
        drafted = any(one.draft is not None for one in requests)
        engine = cls(
            model,
            max_rows=len(requests),
            n_slots=1 + (own + sources) * len(texts),
            shares_prefixes=False,
            together=not drafted,
            invariant=drafted,
            watch=watch,
        )
        for one in texts:
            # at equal distances one kernel call attends for all of them
            one.longest, one.n_slots = own, own + sources
            engine._queue(one)
        return engine

    @property
    def idle(self) -> bool:
        """Nothing waits or runs."""
        return not (self.waiting or self.running)

    def add(self, request: Request) -> int:
        """Queue a request; returns its number.

        ConfigError: those of `decode`, beams, or a text that can never fit the pool.
        """
        return self._queue(checked(self.model, request))

    def _queue(self, one: Running) -> int:
        if one.n_slots > self.pool.n_slots - 1:
            raise ConfigError(
                f"The text may have {one.n_slots} elements and the cache has room for "
                f"{self.pool.n_slots - 1}; shorten it, lower max_new_tokens, or make the cache "
                "larger."
            )
        self._count += 1
        one.number = self._count
        one.most = one.share = CHUNK if self.invariant else one.context
        self.waiting.append(one)
        return self._count

    def abort(self, number: int) -> None:
        """Drop a request, if it waits or runs; its slots are free after that."""
        self.waiting = deque(one for one in self.waiting if one.number != number)
        for one in self.running:
            if one.number == number:
                self._leave(one)
                return

    def step(self) -> list[Event]:
        """Compute the next token of every text, and a part of new prompts.

        A request for which that fails ends with its error, and no other is changed by it.
        """
        self._admit()
        chosen = self._chosen()
        if not chosen:
            return []
        try:
            return self._advance(chosen)
        except STOPS:
            raise
        except BaseException:  # noqa: BLE001 - nothing changed: each alone gives the same numbers
            return [event for one in chosen for event in self._advance_alone(one)]

    def _advance_alone(self, one: Running) -> list[Event]:
        try:
            return self._advance([one])
        except STOPS:
            raise
        except BaseException as error:  # noqa: BLE001 - whatever it is, it is this request's
            self._leave(one)
            known = error if isinstance(error, Exception) else RuntimeError(type(error).__name__)
            return [Event(one.number, error=known)]

    def _admit(self) -> None:
        """Start waiting requests in order while there is room."""
        while self.waiting and len(self.running) < self.max_rows:
            if not self._reserve(self.waiting[0]):
                return
            self.running.append(self.waiting.popleft())

    def _reserve(self, one: Running) -> bool:
        """Take slots for a text, those of a known beginning first; False: there is no room."""
        if self.shares_prefixes and one.has_plain_prompt and not one.blocks:
            one.blocks = keys(one.ids[one.begin : one.n_prompt], one.request.salt)
        # the last element gives the logits
        known = self.prefixes.take(one.blocks[: (one.left - 1) // BLOCK])
        while (own := self.pool.take(one.n_slots - len(known))) is None:
            if not self.prefixes.shrink():
                self._free(known)
                return False
        one.cached, one.slots = len(known), np.concatenate([known, own])
        self.prefixes.hits += len(known) // BLOCK
        self.pool.write(one.source_slots, one.request.source)
        return True

    def _free(self, slots: np.ndarray) -> None:
        """Count one user less of slots, and erase those that have none: no text reads others'."""
        self.pool.erase(self.pool.give(slots))

    def _chosen(self) -> list[Running]:
        """The texts of this step: all that decode, and prompts in order while there is budget."""
        if self.together:
            least = min((one.new for one in self.running), default=0)
            return [one for one in self.running if one.new == least]
        decoding = [one for one in self.running if one.left == 1]
        budget = self.prefill if decoding else self.prefill * self.max_rows
        reading = []
        for one in self.running:
            if one.left > 1 and budget > 0:
                one.share = max(one.most, budget - budget % one.most)
                reading.append(one)
                budget -= one.chunk
        return decoding + reading

    def _advance(self, chosen: Sequence[Running]) -> list[Event]:
        """Compute the chunk of each and choose tokens; changes nothing if it fails."""
        for one in chosen:
            one.propose(self.model.config.vocab_size)
        own = [one.pieces for one in chosen]
        with evaluating(self.model):
            with self.watcher.kept(), self._products():
                cache, logits = self._logits([*chain(*own)])
            firsts = [
                one.begin
                for one, pieces in zip(chosen, own, strict=True)
                for piece in pieces
                for _ in piece.texts
            ]
            told = self.watcher.rows(cache, firsts)
            top = 0 if self.watcher.watch is None else self.watcher.watch.top
            found = read(chosen, logits, top, told)
        news = (self._commit(one, own) for one, own in zip(chosen, found, strict=True))
        return [event for events in news for event in events]

    def _products(self) -> AbstractContextManager[None]:
        return batch_invariant() if self.invariant else nullcontext()

    def _logits(self, pieces: Sequence[Piece]) -> tuple[RaggedCache, Float[Tensor, "N V"]]:
        """Logits at the positions of each piece whose next token is asked for, and the cache; by
        the compiled step, unless somebody records what the model computes."""
        program = None if recorded() else self.program
        ids: list[int] = []
        parts: list[Part] = []
        at: list[int] = []
        device = self.pool.numbers.device
        for one in pieces:
            parts += (replace(part, at=part.at + len(ids)).to(device) for part in one.parts)
            ids += one.ids
            at += range(len(ids) - one.n_asked, len(ids))
        wide = self.invariant and device.type == "cpu" and program is None
        least = MIN_ROWS if wide else 1
        missing = max(0, least - len(ids))
        cache = RaggedCache.of(
            self.pool,
            [text for one in pieces for text in one.texts],
            [source for one in pieces for source in one.sources],
            padding=missing,
            merges=not self.invariant,
        )
        elements = torch.tensor([ids + [0] * missing], device=device)
        batch = Batch(elements, cache.new_positions, parts=tuple(parts))
        if program is not None:
            return cache, program.logits(batch, cache, at)
        hidden = self.model.features(batch, cache=cache).hidden
        if not at:
            return cache, hidden.new_empty(0, self.model.config.vocab_size)
        if len(at) < len(ids) or missing:
            rows = at + at[-1:] * (least - len(at))
            hidden = hidden[:, torch.tensor(rows, device=device)]
        return cache, at_least_float32(self.model.head(hidden)[0])[: len(at)]

    def _commit(self, one: Running, found: Read) -> list[Event]:
        """Note what was computed; the events, one for each new token."""
        end = one.cached + one.chunk
        for block in range(one.cached // BLOCK, min(end // BLOCK, len(one.blocks))):
            self.prefixes.keep(one.blocks[block], one.slots[block * BLOCK : (block + 1) * BLOCK])
        right = max(0, len(found.tokens) - 1)
        if one.request.draft is not None and one.proposed:
            one.request.draft.told(len(one.proposed), right)
            one.ahead = min(one.request.ahead, right + 1)
        one.cached = end + right
        one.scores += found.scores
        events: list[Event] = []
        for token, choice in zip_longest(found.tokens, found.choices):
            scores = () if one.new else tuple(one.scores)
            one.append(token.id)
            ended = token.id in one.request.ends
            finish = "end" if ended else "length" if one.new >= one.limit else None
            events.append(Event(one.number, token, finish, scores, choice=choice))
        if events and events[-1].finish:
            self._leave(one)
        return events

    def _leave(self, one: Running) -> None:
        """End a running request and give its slots back."""
        self.running.remove(one)
        self._free(one.slots)


def checked(model: Transformer, request: Request) -> Running:
    """The text of a request; ConfigError: it cannot be decoded by this model."""
    if request.config.beams:
        raise ConfigError(
            f"The engine goes token by token and beams={request.config.beams}; use "
            "beam_search, or beams=0."
        )
    check_prompts(model, [request.prompt], request.config)
    check_ids(request.given, model, "The given beginning")
    if not request.source:
        check_source(None, 1, model)
    one, context = Running.of(0, request, model), model.config.max_length
    if request.scores_prompt and one.n_prompt > context:
        raise ConfigError(
            f"The prompt has {one.n_prompt} tokens and the context {context}, so not all of "
            "them can be scored; shorten it."
        )
    return one


def check_room(model: Transformer, cache_bytes: int | None = None) -> None:
    """Raise ConfigError for a cache without room for an element."""
    _n_slots(model, _dtype(model, _program(model, None)), 1, cache_bytes)


def _n_slots(model: Transformer, dtype: torch.dtype, max_rows: int, cache_bytes: int | None) -> int:
    size = Pool.slot_bytes(*_shape(model.config), dtype)
    longest = max(BLOCK, model.config.max_length)
    wanted = min(CACHE_BYTES, size * (1 + max_rows * longest))
    n_slots = (wanted if cache_bytes is None else cache_bytes) // size
    if n_slots <= BLOCK:
        raise ConfigError(
            f"A cache of {cache_bytes} bytes has no room; this model needs at least "
            f"{(1 + BLOCK) * size}, for {BLOCK} elements."
        )
    return n_slots


def _dtype(model: Transformer, program: CompiledStep | None) -> torch.dtype:
    """The type of keys and values."""
    return next(model.parameters()).dtype if program is None else program.keys


def _program(model: Transformer, watch: Watch | None) -> CompiledStep | None:
    """The model's compiled step, if nothing is told of its attention."""
    step = model.compiled_step
    return step if step is not None and step.current and watch is None else None


def _shape(config: ModelConfig) -> tuple[int, int, int]:
    return config.depth("decoder"), config.kv_heads, config.head_width
