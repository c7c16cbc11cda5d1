"""Decoding: x_{t+1} ~ softmax(f(x_1 .. x_t)), append, repeat (Note D); one `Step` at a time.

One engine decodes rows of any lengths together; except for rounding each is what it would be by
itself: attention reads only its own elements, random numbers depend on (seed, step). A row that
fills the context continues from the last half of it; one with patches among its tokens ends there.
With an encoder-decoder the rows are targets, the prompts their beginnings (<bos>), and the source
is encoded once.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from glassformer.core.errors import ConfigError
from glassformer.models.transformer import Transformer
from glassformer.runtime.config import GenerateConfig
from glassformer.runtime.engine import Engine
from glassformer.runtime.prompts import Prompts, example_of
from glassformer.runtime.request import Event, Request
from glassformer.runtime.selectors.hypotheses import Hypothesis
from glassformer.runtime.trace import Choice, Watch

AT_ONCE = 128
"""Sentences that are searched at the same time, about."""


@dataclass(frozen=True)
class Step:
    """New token of each unfinished row: row number, token id, log-probability under the model.

    `choices`: records of a `Watch`, one for each row.
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
    sources: Prompts | None = None,
    only: range | None = None,
    watch: Watch | None = None,
    given: Sequence[int] = (),
) -> Iterator[Step]:
    """Yield one `Step` after another until every row has a token of `ends`, or `max_new_tokens`.

    A row with patches also ends where prompt and answer fill the context. Only tokens in `only` are
    chosen. The first tokens of every row are those `given`, as if chosen; the first step yields the
    last of them.

    ConfigError: no language model head, a source missing or not expected, an empty prompt, an id
    outside the vocabulary, a prompt longer than the context that may not be cut. Also
    `config.beams` (see `beam_search`), more tokens `given` than `max_new_tokens`, an unknown layer
    or head in `watch`. GlassformerError: logits that are not numbers.
    """
    if config.beams:
        raise ConfigError(
            f"Decoding goes token by token and beams={config.beams}; use beam_search, or beams=0."
        )
    how = Request((), config, tuple(ends), only=only, given=tuple(given))
    if requests := _requests(how, prompts, sources):
        for events in steps(Engine.of(model, requests, watch)):
            tokens = [event.token for event in events if event.token is not None]
            yield Step(
                rows=tuple(event.request - 1 for event in events),
                ids=tuple(one.id for one in tokens),
                log_probs=tuple(one.log_prob for one in tokens if one.log_prob is not None),
                choices=tuple(event.choice for event in events if event.choice is not None),
            )


def beam_search(
    model: Transformer,
    prompts: Prompts,
    config: GenerateConfig,
    ends: Sequence[int] = (),
    sources: Prompts | None = None,
    limits: Sequence[int] | None = None,
    at_once: int = AT_ONCE,
) -> list[list[Hypothesis]]:
    """Return the `n_best` best hypotheses for each prompt, best first, as found with beams of
    `beams` hypotheses; see `runtime.selectors.beam_search`.

    A sentence ends at `max_new_tokens`, its own of `limits`, or the end of the context. The log p
    of a token is after the constraints of `config`: 0 of a forced one.
    Errors: those of `decode`, and `config.beams` 0.
    """
    if not config.beams:
        raise ConfigError(
            "A beam search needs beams of at least 1 hypothesis, and beams=0; raise it, or use "
            "decode."
        )
    requests = _requests(Request((), config, tuple(ends)), prompts, sources, limits)
    if not requests:
        return []
    engine = Engine.of(model, requests, max_rows=min(at_once, len(requests)) * config.beams)
    ended = (event for events in steps(engine) for event in events if event.finish)
    found = {event.request: [*event.hypotheses] for event in ended}
    return [found[number] for number in sorted(found)]


def steps(engine: Engine) -> Iterator[list[Event]]:
    """Yield the events of each step until the engine is idle; raise the error of a request."""
    while not engine.idle:
        events = engine.step()
        for event in events:
            if event.error is not None:
                raise event.error
        yield events


def _requests(
    how: Request,
    prompts: Prompts,
    sources: Prompts | None,
    limits: Sequence[int] | None = None,
) -> list[Request]:
    """Return a request for each prompt."""
    if sources is not None and len(sources) != len(prompts):
        raise ConfigError(
            f"{len(sources)} sources were given for {len(prompts)} targets; each needs one of its "
            "own."
        )
    nothing = [None] * len(prompts)
    read = nothing if sources is None else map(example_of, sources)
    rows = zip(prompts, limits or nothing, read, strict=True)
    return [replace(how, prompt=prompt, limit=limit, source=of) for prompt, limit, of in rows]
