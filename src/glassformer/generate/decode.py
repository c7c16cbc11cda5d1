"""Decoding loop: x_{t+1} ~ softmax(f(x_1 .. x_t)), append, repeat (Note D); one `Step` at a time.

Rows of any lengths are decoded together, padded on the left, each as it would be alone: masks read
positions, random numbers depend on (seed, step). A row that fills the context continues from the
last half of it; one with patches among its tokens ends there. With an encoder-decoder the rows are
targets, the prompts their beginnings (<bos>), and the source is encoded once.
"""

from collections.abc import Collection, Generator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass

import torch

from glassformer.batch import Batch
from glassformer.errors import ConfigError
from glassformer.generate.advance import (
    Prompts,
    advance,
    begin,
    check_given,
    check_language_model,
    check_numbers,
    check_prompts,
    check_source,
    encoded,
    examples_of,
    grown,
    half,
    next_logits,
    prefill,
    rooms,
    selected,
    slots,
    tokens_of,
)
from glassformer.generate.config import GenerateConfig
from glassformer.generate.logits import limited, next_tokens, remaining
from glassformer.generate.watch import Choice, Watch, Watcher
from glassformer.layers.cache import FixedCache
from glassformer.models.transformer import Memory, Transformer, evaluating


@dataclass(frozen=True)
class Step:
    """New token of each unfinished row: row number, token id, log-probability under the model.

    `choices`: what a `Watch` asked for, one for each row.
    """

    rows: tuple[int, ...]
    ids: tuple[int, ...]
    log_probs: tuple[float, ...]
    choices: tuple[Choice, ...] = ()


def decode(
    model: Transformer,
    prompts: Prompts,
    config: GenerateConfig,
    ends: Sequence[int] = (),
    source: Batch | None = None,
    only: range | None = None,
    watch: Watch | None = None,
    given: Sequence[int] = (),
) -> Generator[Step, Collection[int] | None, None]:
    """Yield one `Step` after another until every row has a token of `ends` or `max_new_tokens`.

    A row with patches also ends where prompt and answer fill the context. Only tokens in `only` are
    chosen. The first tokens of every row are those `given`, as if chosen; the first step yields the
    last of them. The caller may `send` the numbers of finished rows (a stop string was found).

    ConfigError: no language model head, a source missing or not expected, an empty prompt, an id
    outside the vocabulary, a prompt longer than the context that may not be cut, `config.beams`
    (see `beam_search`), more tokens `given` than `max_new_tokens`, an unknown layer or head in
    `watch`. GlassformerError: logits that are not numbers.
    """
    check_language_model(model)
    check_source(source, len(prompts), model)
    check_prompts(prompts, model, config)
    if config.beams:
        raise ConfigError(
            f"Decoding goes token by token and beams={config.beams}; use beam_search, or beams=0."
        )
    if not prompts:
        return
    room = rooms(prompts, model, config)
    check_given(given, model, min(room))
    begun = len(given[:-1])
    decoding = _Decoding(model, grown(prompts, given[:begun]), begun, max(room), source, watch)
    for step in range(begun, max(room)):
        forced = given[step] if step < len(given) else None
        made = decoding.choose(config, step, only, forced)
        done = (yield made) or ()
        ended = {i for i in made.rows if step + 1 == room[i]}.union(done)
        new = zip(made.rows, made.ids, strict=True)
        going = [at for at, (i, id) in enumerate(new) if id not in ends and i not in ended]
        if not going:
            return
        decoding.advance(going)


class _Decoding:
    """State between two steps: ids of all rows, which are active, and the model's features."""

    def __init__(
        self,
        model: Transformer,
        prompts: Prompts,
        begun: int,
        room: int,
        source: Batch | None,
        watch: Watch | None,
    ):
        self.model, self.context = model, model.config.max_length
        self.rows = [tokens_of(prompt) for prompt in prompts]
        self.begins = [begin(len(row) - begun, begun, self.context) for row in self.rows]
        """Index of the first element of each row in the context."""
        self.active = list(range(len(self.rows)))
        self.watcher = None if watch is None else Watcher(model, watch)
        whole = examples_of(prompts)
        # Rows that may not be cut need a slot for every token that is still to come.
        self.capacity = max(len(one.ids) for one in whole) + room if whole else self.context
        with self.computing():
            self.prefill(whole or self.windows(), encoded(source, model))

    def computing(self) -> AbstractContextManager[None]:
        """Modes of one computation. Entered for each, since a generator would leak them to its
        caller."""
        return evaluating(self.model) if self.watcher is None else self.watcher.computing()

    def windows(self) -> list[list[int]]:
        """Elements of each active row that are in the context."""
        return [self.rows[i][self.begins[i] :] for i in self.active]

    def prefill(self, rows: Prompts, memory: Memory | None) -> None:
        """Compute the features of these rows with an empty cache."""
        cache = FixedCache(capacity=self.capacity)
        self.features = prefill(self.model, rows, memory, cache)

    def choose(
        self, config: GenerateConfig, step: int, only: range | None, forced: int | None
    ) -> Step:
        """Choose the next token of each active row, or take the `forced` one, and append it."""
        seen = [self.rows[i] for i in self.active]
        with evaluating(self.model):
            logits = next_logits(self.model, self.features)
            allowed = logits if only is None else limited(logits, only)
            ids = next_tokens(allowed, seen, config, step)
            ids = ids if forced is None else torch.full_like(ids, forced)
            log_probs = logits.log_softmax(-1).gather(-1, ids[:, None])[:, 0]
        check_numbers(log_probs)
        known: tuple[Choice, ...] = ()
        if self.watcher is not None:
            left = remaining(allowed.cpu(), seen, config)
            begins = [self.begins[i] for i in self.active]
            known = self.watcher.choices(self.features, logits, left, ids, begins)
        self.ids, chosen = ids, ids.tolist()
        for i, token in zip(self.active, chosen, strict=True):
            self.rows[i].append(token)
        return Step(tuple(self.active), tuple(chosen), tuple(log_probs.tolist()), known)

    def advance(self, going: list[int]) -> None:
        """Compute the features of the new tokens for the rows `going`, indices into `active`."""
        self.active = [self.active[at] for at in going]
        full = [i for i in self.active if len(self.rows[i]) - self.begins[i] > self.context]
        for i in full:
            self.begins[i] = len(self.rows[i]) - half(self.context)
        ids = self.ids
        with self.computing():
            if len(going) < len(ids):
                index = torch.tensor(going, device=ids.device)
                self.features, ids = selected(self.features, index), ids[index]
            # The cache keeps a slot for every element of the longest row, even a finished one.
            if full or slots(self.features) == self.capacity:
                self.prefill(self.windows(), self.features.memory)
            else:
                self.features = advance(self.model, self.features, ids)
