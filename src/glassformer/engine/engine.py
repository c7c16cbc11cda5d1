"""Continuous batching: a step computes the next token of every text and a part of new prompts.

    waiting ──pages for the whole text──> running ──end, length, abort, error──> pages given back

A request is admitted, in order, once the pool has pages for its prompt and all tokens that may
come, so that no step can run out of memory. Prompts are attended in chunks of CHUNK, of which a
step computes one or several, a text is decoded over exactly its own keys, and products have at
least `MIN_ROWS` rows: what is computed for a request depends on the request alone, bit for bit.
"""

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field

import torch

from glassformer.axes import Float, Tensor
from glassformer.batch import Batch
from glassformer.engine.prefixes import Prefixes, keys
from glassformer.engine.request import Event, Request, Scored
from glassformer.errors import ConfigError
from glassformer.generate.advance import begin, check_numbers, check_request, half, rooms
from glassformer.generate.constraints import Rows
from glassformer.generate.logits import likeliest, next_tokens
from glassformer.layers.cpu_kernels import MIN_ROWS, batch_invariant
from glassformer.layers.segments import PAGE, Pool, Segment, SegmentedCache
from glassformer.losses import at_least_float32
from glassformer.models.config import ModelConfig
from glassformer.models.packing import order_weights
from glassformer.models.transformer import Transformer, evaluating

CHUNK = PAGE // 2
"""Elements of a prompt for which attention is computed at once, whatever else a step computes; a
step with as many beside decoding texts takes less than three times as long as one without."""
CACHE_BYTES = 1 << 30
"""Default size of the pool, at most."""
STOPS = KeyboardInterrupt, SystemExit
"""What ends the caller, not a request; a library in another language may raise neither these nor an
`Exception`."""


@dataclass(eq=False)
class Running:
    """A running request: its ids, and how many of them have keys and values."""

    number: int
    request: Request
    limit: int
    begin: int
    n_pages: int
    ids: list[int]
    first: int = 0
    cached: int = 0
    share: int = CHUNK
    """Elements that a step may compute."""
    pages: list[bytes] = field(default_factory=list)
    """Keys of the prompt's whole pages."""
    scores: list[Scored] = field(default_factory=list)

    @property
    def left(self) -> int:
        """Elements in the context without keys and values."""
        return len(self.ids) - self.begin - self.cached

    @property
    def new(self) -> int:
        """Tokens generated so far."""
        return len(self.ids) - len(self.request.prompt)

    @property
    def chunk(self) -> int:
        """Elements that are computed next: to a multiple of CHUNK, or all."""
        return min(self.left, self.share - self.cached % CHUNK)

    @property
    def next_ids(self) -> list[int]:
        """The ids of these."""
        at = self.begin + self.cached
        return self.ids[at : at + self.chunk]

    @property
    def segments(self) -> list[Segment]:
        """Their places in the pool, in chunks of which each reads the keys of those before it."""
        end = self.cached + self.chunk
        starts = range(self.cached, end, CHUNK)
        return [Segment(self.slot, start, min(CHUNK, end - start)) for start in starts]

    @property
    def reads_scores(self) -> bool:
        """Whether the prompt's tokens are scored and not all read yet."""
        return self.request.scores_prompt and not self.new

    @property
    def n_asked(self) -> int:
        """Positions at the end of these elements whose logits are asked for."""
        return self.chunk if self.reads_scores else int(self.chunk == self.left)

    @property
    def slot(self) -> int:
        """Where its keys begin in the pool."""
        return self.first * PAGE


class Engine:
    """Requests on one decoder, stepped by its caller; see the module.

    `cache_bytes`: size of the pool; None: what `max_rows` texts of the whole context need, at most
    1 GiB. `max_rows`: texts at the same time. `prefill`: elements of prompts in a step while others
    decode; all of `max_rows` chunks otherwise. Not for use by several threads.
    """

    def __init__(
        self,
        model: Transformer,
        *,
        max_rows: int = 16,
        cache_bytes: int | None = None,
        prefill: int = CHUNK,
        shares_prefixes: bool = True,
    ):
        config, weight = model.config, next(model.parameters())
        n_pages = pages(model, max_rows, cache_bytes)
        order_weights(model)
        self.model, self.max_rows, self.prefill = model, max_rows, prefill
        self.pool = Pool(*_shape(config), n_pages, weight.dtype, weight.device)
        self.padding = self.pool.take(1)  # page 0: rows that only make products wide enough
        self.prefixes = Prefixes(self.pool)
        self.shares_prefixes = shares_prefixes
        self.waiting: deque[Running] = deque()
        self.running: list[Running] = []
        self._count = 0

    @property
    def idle(self) -> bool:
        """Nothing waits or runs."""
        return not (self.waiting or self.running)

    def add(self, request: Request) -> int:
        """Queue a request; returns its number.

        ConfigError: those of `decode`, beams, or a text that can never fit the pool.
        """
        if request.config.beams:
            raise ConfigError(
                f"The engine goes token by token and beams={request.config.beams}; use "
                "beam_search, or beams=0."
            )
        check_request(self.model, [request.prompt], request.config, None)
        context, prompt = self.model.config.max_length, request.prompt
        if request.scores_prompt and len(prompt) > context:
            raise ConfigError(
                f"The prompt has {len(prompt)} tokens and the context {context}, so not all of "
                "them can be scored; shorten it."
            )
        limit = rooms([prompt], self.model, request.config)[0]
        first = begin(len(prompt), 0, context)
        n_pages = -(-min(context, len(prompt) - first + limit - 1) // PAGE)
        if n_pages > self.pool.n_pages - 1:
            raise ConfigError(
                f"The text may have {n_pages * PAGE} elements and the cache has room for "
                f"{(self.pool.n_pages - 1) * PAGE}; shorten it, lower max_new_tokens, or make the "
                "cache larger."
            )
        self._count += 1
        self.waiting.append(Running(self._count, request, limit, first, n_pages, list(prompt)))
        return self._count

    def abort(self, number: int) -> None:
        """Drop a request, if it waits or runs; its pages are free at once."""
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
            one = self.waiting[0]
            while (first := self.pool.take(one.n_pages)) is None:
                if not self.prefixes.shrink():
                    return
            one.first = first
            self.running.append(self.waiting.popleft())
            if self.shares_prefixes and not one.request.scores_prompt:
                one.pages = keys(one.request.prompt[one.begin :], one.request.salt)
                known = one.pages[: (one.left - 1) // PAGE]  # the last element gives the logits
                one.cached = PAGE * self.prefixes.fill(known, one.slot)

    def _chosen(self) -> list[Running]:
        """The texts of this step: all that decode, and prompts in order while there is budget."""
        decoding = [one for one in self.running if one.left == 1]
        budget = self.prefill if decoding else self.prefill * self.max_rows
        reading = []
        for one in self.running:
            if one.left > 1 and budget > 0:
                one.share = max(CHUNK, budget - budget % CHUNK)
                reading.append(one)
                budget -= one.chunk
        return decoding + reading

    def _advance(self, chosen: Sequence[Running]) -> list[Event]:
        """Compute the elements of each and choose tokens; changes nothing if it fails."""
        with evaluating(self.model), batch_invariant():
            logits = self._logits(chosen)
            found = [_read(one, own) for one, own in zip(chosen, logits, strict=True)]
        news = (self._commit(one, *read) for one, read in zip(chosen, found, strict=True))
        return [event for event in news if event is not None]

    def _logits(self, chosen: Sequence[Running]) -> tuple[Float[Tensor, "_ V"], ...]:
        """Logits at the positions of each text whose next token is asked for."""
        device = self.pool.numbers.device
        segments = [segment for one in chosen for segment in one.segments]
        ids = [token for one in chosen for token in one.next_ids]
        if (missing := MIN_ROWS - len(ids)) > 0:
            segments.append(Segment(0, 0, missing))  # page 0 is nobody's
            ids += [0] * missing
        cache = SegmentedCache.of(self.pool, segments)
        batch = Batch(torch.tensor([ids], device=device), cache.new_positions())
        hidden = self.model.features(batch, cache=cache).hidden
        at: list[int] = []
        counts, end = [], 0
        for one in chosen:
            end += one.chunk
            counts.append(one.n_asked)
            at += range(end - one.n_asked, end)
        if not at:
            return tuple(hidden.new_empty(0, 0) for _ in chosen)
        rows = at + at[-1:] * (MIN_ROWS - len(at))
        logits = self.model.head(hidden[:, torch.tensor(rows, device=device)])[0]
        return at_least_float32(logits)[: len(at)].split(counts)

    def _commit(self, one: Running, scores: list[Scored], token: Scored | None) -> Event | None:
        """Note what was computed; the event, if there is a new token."""
        before, one.cached = one.cached, one.cached + one.chunk
        for page in range(before // PAGE, min(one.cached // PAGE, len(one.pages))):
            self.prefixes.keep(one.pages[page], one.slot + page * PAGE)
        one.scores += scores
        if token is None:
            return None
        first = not one.new
        one.ids.append(token.id)
        ended = token.id in one.request.ends
        finish = "end" if ended else "length" if one.new == one.limit else None
        if finish:
            self._leave(one)
        elif one.left + one.cached > (context := self.model.config.max_length):
            one.begin, one.cached, one.pages = len(one.ids) - half(context), 0, []
        return Event(one.number, token, finish, tuple(one.scores) if first else ())

    def _leave(self, one: Running) -> None:
        """End a running request and give its pages back."""
        self.running.remove(one)
        self.pool.give(one.first, one.n_pages)


def pages(model: Transformer, max_rows: int = 16, cache_bytes: int | None = None) -> int:
    """Pages of a model's pool, as `Engine` has them. ConfigError: a cache without room."""
    config = model.config
    page = Pool.page_bytes(*_shape(config), next(model.parameters()).dtype)
    wanted = min(CACHE_BYTES, page * (1 + max_rows * -(-config.max_length // PAGE)))
    n_pages = (wanted if cache_bytes is None else cache_bytes) // page
    if n_pages < 2:
        raise ConfigError(
            f"A cache of {cache_bytes} bytes has no room; this model needs at least {2 * page} "
            f"({PAGE} elements, and {PAGE} for padding)."
        )
    return n_pages


def _shape(config: ModelConfig) -> tuple[int, int, int]:
    return config.depth("decoder"), config.kv_heads, config.head_width


def _read(one: Running, logits: Float[Tensor, "N V"]) -> tuple[list[Scored], Scored | None]:
    """Scores of the prompt's tokens that were read, and the next token where the prompt is over."""
    if not len(logits):
        return [], None
    request, log_probs = one.request, logits.log_softmax(-1)
    check_numbers(log_probs)
    known = request.prompt[one.cached + 1 :][: len(logits)] if one.reads_scores else ()
    scores = [_scored(log_probs[at], index, request.top) for at, index in enumerate(known)]
    if one.reads_scores and not one.cached:
        scores.insert(0, Scored(request.prompt[0], None))
    if one.chunk < one.left:
        return scores, None
    rows = Rows([one.ids], one.new, request.ends, [one.new + 1 == one.limit])
    left = logits[-1:]
    if request.allowed is not None:
        allowed = request.allowed(one.ids[len(request.prompt) :])
        left = left.masked_fill(~allowed.to(left.device), -torch.inf)
    token = int(next_tokens(left, rows, request.config)[0])
    return scores, _scored(log_probs[-1], token, request.top)


def _scored(log_probs: Float[Tensor, "V"], token: int, top: int) -> Scored:
    best = likeliest(log_probs[None], top)[0].tolist() if top else []
    return Scored(token, float(log_probs[token]), tuple((i, float(log_probs[i])) for i in best))
