"""Many texts together on one model: a step computes the next token of each and parts of prompts.

engine = Engine(model)
number = engine.add(Request(prompt=ids, config=config, ends=(eos,)))
while not engine.idle:
    for event in engine.step(): ...

    waiting ──slots for the whole text──> running ──end, length, abort, error──> slots given back

Texts come and go between steps (continuous batching). One is admitted, in order, once the pool has
slots for its prompt and all tokens that may come, so that no step can run out of memory. Prompts
are attended in chunks of CHUNK, a text is decoded over exactly its own keys, and products
on a CPU have at least `MIN_ROWS` rows: no bit of a request depends on others. Without `invariant`
whole prompts are read, by the products that are fastest.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from itertools import chain

from glassformer.core.errors import ConfigError
from glassformer.layers.cpu_kernels import batch_invariant
from glassformer.layers.tap import recorded
from glassformer.models.transformer import Transformer, evaluating
from glassformer.runtime.advance import Scores, advance
from glassformer.runtime.memory import pool_of, program_of, write_sources
from glassformer.runtime.prefixes import BLOCK, Prefixes, keys
from glassformer.runtime.prompts import check_ids, check_prompt, check_source
from glassformer.runtime.request import Event, Request
from glassformer.runtime.request_queue import RequestQueue
from glassformer.runtime.selectors.beam_search import BeamSearch
from glassformer.runtime.selectors.sampler import Read, read
from glassformer.runtime.selectors.search import SLOTS, Search
from glassformer.runtime.sequence import Piece, Running
from glassformer.runtime.trace import Watch, Watcher

CHUNK = BLOCK // 2
"""Elements of a prompt for which attention is computed together, in any step; one with as many and
decoding texts takes less than three times as long as one without."""
STOPS = KeyboardInterrupt, SystemExit
"""What ends the caller, not a request; a library in another language may raise neither these nor an
`Exception`."""


class Engine:
    """Requests on one model, stepped by its caller; see the module.

    `cache_bytes`: size of the pool; None: what `max_rows` texts of the whole context need, at most
    1 GiB. `n_slots`: number of slots of a pool that grows, instead of its size. `max_rows`:
    sequences at the same time. `invariant`: no bit of a text depends on others. `watch`: what is
    recorded of each choice. The weights must not change while an engine has texts or prefixes. Not
    for use by several threads.

    ConfigError: a cache without room.
    """

    def __init__(
        self,
        model: Transformer,
        *,
        max_rows: int = 16,
        cache_bytes: int | None = None,
        n_slots: int | None = None,
        shares_prefixes: bool = True,
        invariant: bool = True,
        watch: Watch | None = None,
    ):
        self.model, self.max_rows = model, max_rows
        self.chunk = CHUNK if invariant else model.config.max_length
        """Elements of prompts in a step while others decode, and in one call of attention."""
        self.program = None if watch is not None else program_of(model)
        self.pool = pool_of(model, self.program, max_rows, cache_bytes, n_slots)
        self.prefixes = Prefixes(self.pool)
        self.shares_prefixes, self.invariant = shares_prefixes, invariant
        self.queue = RequestQueue(
            self.pool, self.prefixes, max_rows, self.chunk, invariant=invariant
        )
        self.watcher = Watcher(model, watch)
        self.running: list[Running] = []
        self.searches: dict[tuple[object, ...], Search] = {}

    @classmethod
    def of(
        cls,
        model: Transformer,
        requests: Sequence[Request],
        watch: Watch | None = None,
        max_rows: int | None = None,
    ) -> "Engine":
        """Return an engine for these requests only, numbered from 1, which is invariant if there is
        a draft, since a guess must not change a bit.

        Errors: those of `add`.
        """
        texts = [text_for(model, one) for one in requests]
        own, source = max(one.longest for one in texts), max(one.n_source for one in texts)
        drafted = any(one.draft is not None for one in requests)
        searched = any(one.config.beams for one in requests)
        rows = max_rows or sum(one.width for one in texts)
        first = min(len(texts), rows // max(one.width for one in texts))
        engine = cls(
            model,
            max_rows=rows,
            n_slots=1 + (own + source) * first + SLOTS * rows * searched,
            shares_prefixes=False,
            invariant=drafted,
            watch=watch,
        )
        for one in texts:
            # at equal distances one kernel call attends for all of them
            one.longest, one.source_width = one.longest if searched else own, source
            engine.queue.add(one)
        return engine

    @property
    def idle(self) -> bool:
        """True if nothing waits or runs."""
        return not (self.queue.waiting or self.running or self.searches)

    def add(self, request: Request) -> int:
        """Queue a request; returns its number.

        ConfigError: those of `decode`, or a text that can never fit.
        """
        one = text_for(self.model, request)
        if self.shares_prefixes and one.has_plain_prompt:
            one.blocks = keys(one.ids[one.begin : one.n_prompt], request.salt)
        return self.queue.add(one)

    def abort(self, number: int) -> None:
        """Drop a request, if it waits or runs; its slots are free after that."""
        self.queue.drop(number)
        for one in (one for one in self.running if one.number == number):
            self._leave(one)
            return
        for search in [*self.searches.values()]:
            for one in (one for one in search.going if one.number == number):
                search.drop(one)
                self._end(search, one)

    def step(self) -> list[Event]:
        """Compute the next token of every text and hypothesis, and a part of new prompts.

        A request for which that fails ends with its error, and no other is changed by it.
        """
        events = self._admit()
        self._start_searches()
        events += self._guard(self._schedule(), self._advance, alone=True)
        for search in [*self.searches.values()]:
            events += self._guard(search.going, lambda _, search=search: self._search(search))
        return events

    def _guard(
        self,
        requests: Sequence[Running],
        compute: Callable[[Sequence[Running]], list[Event]],
        alone: bool = False,
    ) -> list[Event]:
        """Return the events of a computation, which changes nothing if it fails. Then it
        is done for each request `alone`, or these requests end with its error."""
        try:
            return compute(requests) if requests else []
        except STOPS:
            raise
        except BaseException as error:  # noqa: BLE001 - any error is that of the requests
            if alone:
                return [event for one in requests for event in self._guard([one], compute)]
            known = error if isinstance(error, Exception) else RuntimeError(type(error).__name__)
            events = [Event(one.number, error=known) for one in requests]
            for event in events:
                self.abort(event.request)
            return events

    def _admit(self) -> list[Event]:
        """Start waiting requests while there is room, and read their sources."""
        if not self.queue.waiting:
            return []
        searches = self.searches.values()
        rows = sum(one.width for one in self.running) + sum(one.room for one in searches)
        promised = 0 if self.pool.grows else sum(one.promised for one in searches)
        new = self.queue.admit(rows, promised + sum(one.n_branches for one in self.running))
        self.running += new
        sourced = [one for one in new if one.n_source]
        groups = [[one] for one in sourced] if self.invariant else [sourced]
        return [event for group in groups for event in self._guard(group, self._read_sources)]

    def _read_sources(self, new: Sequence[Running]) -> list[Event]:
        """Encode the sources of requests, and write keys and values at every layer to slots."""
        sources = [one.request.source for one in new if one.request.source is not None]
        tables = [one.source_slots[: one.n_source] for one in new]
        with self._computing():
            write_sources(self.model, self.pool, sources, tables)
        return []

    def _schedule(self) -> list[Running]:
        """The texts of this step: all that decode, and prompts in order while there is budget."""
        decoding = [one for one in self.running if one.left == 1]
        budget = self.chunk if decoding else self.chunk * self.max_rows
        reading = []
        for one in self.running:
            if one.left > 1 and budget > 0:
                one.share = max(one.most, budget - budget % one.most)
                reading.append(one)
                budget -= one.chunk
        return decoding + reading

    def _start_searches(self) -> None:
        """Begin the search of requests whose prompts have keys and values."""
        groups: dict[tuple[object, ...], list[Running]] = {}
        for one in [one for one in self.running if one.request.config.beams and one.left == 1]:
            self.running.remove(one)
            # in an invariant engine each request has its own search
            key = one.key, one.request.selector, one.number * self.invariant
            groups.setdefault(key, []).append(one)
        for key, texts in groups.items():
            own = texts[0].request
            if key not in self.searches:
                selector = own.selector or BeamSearch
                self.searches[key] = selector(self.pool, own.config, own.ends)
            self.searches[key].begin(texts)

    def _advance(self, chosen: Sequence[Running]) -> list[Event]:
        """Compute the chunk of each and choose tokens; changes nothing if it fails."""
        for one in chosen:
            one.propose(self.model.config.vocab_size)
        with self._computing():
            found = read(chosen, self._scores([one.piece for one in chosen]))
        return [*chain.from_iterable(map(self._commit, chosen, found))]

    def _search(self, search: Search) -> list[Event]:
        """Continue the sequences of a search; changes nothing if it fails."""
        going = search.going
        with self._computing():
            scores = self._scores([search.piece()], search.k, search.reads_hidden)
            events = search.select(scores)
        for one in {*going} - {*search.going}:
            self._end(search, one)
        return events

    def _end(self, search: Search, one: Running) -> None:
        """Give back the source of a request that a search has ended; forget one without rows."""
        self.pool.give(one.slots)
        if not search.going:
            self.searches = {key: own for key, own in self.searches.items() if own is not search}

    @contextmanager
    def _computing(self) -> Iterator[None]:
        """Compute without gradients, in an invariant engine by products that are, too."""
        with evaluating(self.model), batch_invariant() if self.invariant else nullcontext():
            yield

    def _scores(self, pieces: Sequence[Piece], k: int | None = None, whole: bool = False) -> Scores:
        """Return the scores of a step, by the compiled step unless a tape or a search (`whole`)
        reads what the model computes."""
        program = None if whole or recorded() else self.program
        return advance(self.model, program, self.pool, pieces, self.watcher, k, self.invariant)

    def _commit(self, one: Running, found: Read) -> list[Event]:
        """Note what was computed; the events, one for each new token."""
        end = one.cached + one.chunk
        for block in range(one.cached // BLOCK, min(end // BLOCK, len(one.blocks))):
            self.prefixes.keep(one.blocks[block], one.slots[block * BLOCK : (block + 1) * BLOCK])
        right = max(0, len(found.tokens) - 1)
        if one.request.draft is not None and one.proposed:
            one.request.draft.learn(len(one.proposed), right)
            one.ahead = min(one.request.ahead, right + 1)
        one.cached = end + right
        one.scores += found.scores
        events: list[Event] = []
        for token, choice in zip(found.tokens, found.choices, strict=True):
            scores = tuple(one.scores) if one.is_scored else ()
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
        self.pool.give(one.slots)


def text_for(model: Transformer, request: Request) -> Running:
    """Return the text of a request; ConfigError: it cannot be decoded by this model."""
    check_prompt(model, request.prompt, request.config)
    check_ids(request.given, model, "The given beginning")
    check_source(model, request.source)
    one, context = Running(request, model), model.config.max_length
    if request.scores and len(one.ids) > context:
        raise ConfigError(
            f"The prompt has {len(one.ids)} tokens and the context {context}, so not all of "
            "them can be scored; shorten it."
        )
    return one
