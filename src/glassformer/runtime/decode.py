"""Decoding: x_{t+1} ~ softmax(f(x_1 .. x_t)), append, repeat (Note D); one `Step` at a time.

Rows of any lengths are decoded together by an engine of their own, each as it would be alone:
attention reads the own elements, random numbers depend on (seed, step). A row that fills the
context continues from the last half of it; one with patches among its tokens ends there. With an
encoder-decoder the rows are targets, the prompts their beginnings (<bos>), and the source is
encoded once.
"""

from collections import deque
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, replace

from glassformer.batch import Batch
from glassformer.errors import ConfigError
from glassformer.layers.cache import Layers
from glassformer.models.transformer import Transformer, evaluating
from glassformer.runtime.config import GenerateConfig
from glassformer.runtime.engine import Engine
from glassformer.runtime.prompts import Prompts, check_request
from glassformer.runtime.request import Event, Request
from glassformer.runtime.speculative import Drafts
from glassformer.runtime.trace import Choice, Watch


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
    drafts: Drafts | None = None,
) -> Iterator[Step]:
    """Yield one `Step` after another until every row has a token of `ends`, `max_new_tokens`, or as
    many as its own of `limits`.

    A row with patches also ends where prompt and answer fill the context. Only tokens in `only` are
    chosen. The first tokens of every row are those `given`, as if chosen; the first step yields the
    last of them. A caller that finds a stop string adds the row's number to its `finished`. By
    `drafts` several tokens may be computed in a step, which changes none of them.

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
    how = Request((), config, tuple(ends), only=only, given=tuple(given))
    most = limits or [config.max_new_tokens] * len(prompts)
    rows = zip(prompts, most, _sources(model, source, len(prompts)), strict=True)
    own = [replace(how, prompt=prompt, limit=limit, source=of) for prompt, limit, of in rows]
    requests = own if drafts is None else [drafts.drafted(one) for one in own]
    yield from _steps(Engine.of(model, requests, watch), len(prompts), finished)


def _steps(engine: Engine, n: int, finished: Collection[int]) -> Iterator[Step]:
    """A token of each of n rows after another; one that is ahead of the others waits."""
    going = set(range(n))
    news: list[deque[Event]] = [deque() for _ in going]
    while going:
        while not all(news[row] for row in going):
            for event in engine.step():
                if event.error is not None:
                    raise event.error
                news[event.request - 1].append(event)
        events = [news[row].popleft() for row in sorted(going)]
        yield _step(events)
        going -= {event.request - 1 for event in events if event.finish}
        for row in going.intersection(finished):
            engine.abort(row + 1)
            going.remove(row)


def _sources(model: Transformer, source: Batch | None, n: int) -> list[Layers]:
    """Keys and values of the source of each of n rows at every layer, without padding."""
    if source is None or model.decoder is None:
        return [{}] * n
    with evaluating(model):
        memory = model.encode(source.to(next(model.parameters()).device))
        layers = model.decoder.source_keys_values(memory.hidden)
        valid = memory.positions.valid
        real = [slice(None)] * n if valid is None else valid.expand(n, -1).unbind()
        return [
            {
                layer: (keys[row : row + 1, :, own], values[row : row + 1, :, own])
                for layer, (keys, values) in layers.items()
            }
            for row, own in enumerate(real)
        ]


def _step(events: Sequence[Event]) -> Step:
    tokens = [event.token for event in events if event.token is not None]
    return Step(
        rows=tuple(event.request - 1 for event in events),
        ids=tuple(one.id for one in tokens),
        log_probs=tuple(one.log_prob for one in tokens if one.log_prob is not None),
        choices=tuple(event.choice for event in events if event.choice is not None),
    )
