"""Decoding loop: x_{t+1} ~ softmax(f(x_1 .. x_t)), append, repeat (Note D); one `Step` at a time.

Rows of any lengths are decoded together, padded on the left, each as it would be alone: masks read
positions, random numbers depend on (seed, step). A row that fills the context continues from the
last half of it; one with patches among its tokens ends there. With an encoder-decoder the rows are
targets, the prompts their beginnings (<bos>), and the source is encoded once.
"""

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass

import torch

from glassformer.batch import Batch
from glassformer.data.example import Example
from glassformer.errors import ConfigError
from glassformer.generate.advance import (
    Prompts,
    advance,
    begin,
    check_ids,
    check_numbers,
    check_request,
    encoded,
    examples_of,
    half,
    next_logits,
    prefill,
    rooms,
    selected,
    tokens_of,
)
from glassformer.generate.config import GenerateConfig
from glassformer.generate.constraints import Rows
from glassformer.generate.logits import limited, next_tokens
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
    limits: Sequence[int] | None = None,
    finished: Collection[int] = (),
) -> Iterator[Step]:
    """Yield one `Step` after another until every row has a token of `ends`, `max_new_tokens`, or as
    many as its own of `limits`.

    A row with patches also ends where prompt and answer fill the context. Only tokens in `only` are
    chosen. The first tokens of every row are those `given`, as if chosen; the first step yields the
    last of them. A caller that finds a stop string adds the row's number to its `finished`.

    ConfigError: no language model head, a source missing or not expected, an empty prompt, an id
    outside the vocabulary, a prompt longer than the context that may not be cut, `config.beams`
    (see `beam_search`), more tokens `given` than `max_new_tokens`, an unknown layer or head in
    `watch`. GlassformerError: logits that are not numbers.
    """
    check_request(model, prompts, config, source)
    if config.beams:
        raise ConfigError(
            f"Decoding goes token by token and beams={config.beams}; use beam_search, or beams=0."
        )
    if not prompts:
        return
    room = rooms(prompts, model, config, limits)
    check_ids(given, model, "The given beginning")
    if len(given) > min(room):
        raise ConfigError(
            f"The given beginning has {len(given)} tokens and {min(room)} may come; raise "
            "max_new_tokens."
        )
    decoding = _Decoding(model, prompts, given[:-1], max(room), source, watch)
    for step in range(len(given[:-1]), max(room)):
        made = decoding.choose(config, step, only, given[step : step + 1], ends, room)
        yield made
        going = [
            at
            for at, (row, token) in enumerate(zip(made.rows, made.ids, strict=True))
            if token not in ends and step + 1 < room[row] and row not in finished
        ]
        if not going:
            return
        decoding.advance(going)


class _Decoding:
    """State between two steps: ids of all rows, which are active, and the model's features.

    The watcher's modes are entered for each computation, since a generator would leak them.
    """

    def __init__(
        self,
        model: Transformer,
        prompts: Prompts,
        given: Sequence[int],
        room: int,
        source: Batch | None,
        watch: Watch | None,
    ):
        self.model, self.context = model, model.config.max_length
        prompt_ids = [tokens_of(prompt) for prompt in prompts]
        self.rows = [[*ids, *given] for ids in prompt_ids]
        self.begins = [begin(len(ids), len(given), self.context) for ids in prompt_ids]
        """Index of the first element of each row in the context."""
        self.active = list(range(len(prompts)))
        self.watcher = Watcher(model, watch)
        rows, self.capacity = self.windows(), self.context
        if isinstance(prompts[0], Example):  # not cut: a slot for every token that is still to come
            rows = examples_of(prompts, given)
            self.capacity = max(one.length for one in rows) + room
        with self.watcher.computing():
            self.prefill(rows, encoded(source, model))

    def windows(self) -> list[list[int]]:
        """Elements of each active row that are in the context."""
        return [self.rows[i][self.begins[i] :] for i in self.active]

    def prefill(self, rows: Prompts, memory: Memory | None) -> None:
        """Compute the features of these rows with an empty cache."""
        cache = FixedCache(capacity=self.capacity)
        self.features = prefill(self.model, rows, memory, cache)

    def choose(
        self,
        config: GenerateConfig,
        step: int,
        only: range | None,
        forced: Sequence[int],
        ends: Sequence[int],
        room: Sequence[int],
    ) -> Step:
        """Choose the next token of each active row, or take the `forced` one, and append it."""
        seen = [self.rows[i] for i in self.active]
        rows = Rows(seen, step, ends, [step + 1 == room[i] for i in self.active])
        with evaluating(self.model):
            logits = next_logits(self.model, self.features)
            allowed = logits if only is None else limited(logits, only)
            ids = next_tokens(allowed, rows, config)
            ids = torch.full_like(ids, forced[0]) if forced else ids
            log_probs = logits.log_softmax(-1).gather(-1, ids[:, None])[:, 0]
        check_numbers(log_probs)
        begins = [self.begins[i] for i in self.active]
        known = self.watcher.choices(self.features, logits, allowed, ids, rows, begins, config)
        self.ids, chosen = ids, ids.tolist()
        for row, token in zip(seen, chosen, strict=True):
            row.append(token)
        return Step(tuple(self.active), tuple(chosen), tuple(log_probs.tolist()), known)

    def advance(self, going: list[int]) -> None:
        """Compute the features of the new tokens for the rows `going`, indices into `active`."""
        self.active = [self.active[at] for at in going]
        full = [i for i in self.active if len(self.rows[i]) - self.begins[i] > self.context]
        for i in full:
            self.begins[i] = len(self.rows[i]) - half(self.context)
        ids = self.ids
        with self.watcher.computing():
            if len(going) < len(ids):
                index = torch.tensor(going, device=ids.device)
                self.features, ids = selected(self.features, index), ids[index]
            cache = self.features.cache
            assert cache is not None
            assert cache.positions is not None
            # The cache keeps a slot for every element of the longest row, even a finished one.
            if full or cache.positions.length == self.capacity:
                self.prefill(self.windows(), self.features.memory)
            else:
                self.features = advance(self.model, self.features, ids)
