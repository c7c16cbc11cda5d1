"""The one decoding loop: x_{t+1} ~ softmax(f(x_1 .. x_t)), append, repeat (Note D); it yields a
step at a time.

Rows of any lengths are decoded together, padded on the left, and each comes out as it would alone:
masks read places, random numbers depend on (seed, step). When a row fills the context, it goes on
from the last half of it, but one with patches among its tokens ends there. With an encoder-decoder
the rows are targets, of which the prompts are the beginnings (<bos>), and the source is encoded
once.
"""

from collections.abc import Collection, Generator, Sequence
from dataclasses import dataclass
from functools import partial

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
from glassformer.models.transformer import Transformer, evaluating


@dataclass(frozen=True)
class Step:
    """The new token of each unfinished row: row number, token id, its log-probability under the
    model itself.

    `choices`: what else is known of each, if somebody watches.
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
    """Yield one `Step` after another until every row produced a token of `ends` or
    `max_new_tokens`.

    A row with patches also ends where prompt and answer fill the context. Tokens outside `only` are
    never chosen. The first tokens of every row are those `given`, as if they had been chosen; the
    last of them is the first that is told.

    The caller may `send` the numbers of rows that need no more (a stop string was found). Errors: a
    model without a language model head, an encoder-decoder without a `source` for each prompt or
    another model with one, an empty prompt, an id outside the vocabulary, a prompt longer than the
    context unless `config.overflow` is "window" and it has no patches, `config.beams` (see
    `beam_search`), more tokens `given` than may come, a layer or head to `watch` that there is not,
    logits that are not numbers.
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
    room, context, begun = rooms(prompts, model, config), model.config.max_length, len(given[:-1])
    check_given(given, model, min(room))
    prompts = grown(prompts, given[:begun])
    rows, whole = [tokens_of(prompt) for prompt in prompts], examples_of(prompts)
    begins = [begin(len(row) - begun, begun, context) for row in rows]
    active = list(range(len(rows)))
    # What cannot be cut needs a slot for every token that is still to come, however long the others
    # are.
    capacity = max(len(one.ids) for one in whole) + max(room) if whole else context
    # The modes are entered for each computation, not around the loop: a generator would leak them
    # to its caller.
    watcher = None if watch is None else Watcher(model, watch)
    computing = partial(evaluating, model) if watcher is None else watcher.computing
    with computing():
        first = whole or [rows[i][begins[i] :] for i in active]
        features = prefill(model, first, encoded(source, model), FixedCache(capacity=capacity))
    for step in range(begun, max(room)):
        seen = [rows[i] for i in active]
        with evaluating(model):
            logits = next_logits(model, features)
            allowed = logits if only is None else limited(logits, only)
            ids = next_tokens(allowed, seen, config, step)
            if step < len(given):
                ids = torch.full_like(ids, given[step])
            log_probs = logits.log_softmax(-1).gather(-1, ids[:, None])[:, 0]
        check_numbers(log_probs)
        known: tuple[Choice, ...] = ()
        if watcher is not None:
            left = remaining(allowed.cpu(), seen, config)
            known = watcher.choices(features, logits, left, ids, [begins[i] for i in active])
        chosen = ids.tolist()
        for i, token in zip(active, chosen, strict=True):
            rows[i].append(token)
        done = (yield Step(tuple(active), tuple(chosen), tuple(log_probs.tolist()), known)) or ()
        ended = {i for i in active if step + 1 == room[i]}.union(done)
        going = [at for at, i in enumerate(active) if chosen[at] not in ends and i not in ended]
        if not going:
            return
        active = [active[at] for at in going]
        full = [i for i in active if len(rows[i]) - begins[i] > context]
        for i in full:
            begins[i] = len(rows[i]) - half(context)
        with computing():
            if len(going) < len(ids):
                index = torch.tensor(going, device=ids.device)
                features, ids = selected(features, index), ids[index]
            # The cache has a slot for every element of the longest row, even after that row has
            # ended.
            if full or slots(features) == capacity:
                again = [rows[i][begins[i] :] for i in active]
                features = prefill(model, again, features.memory, FixedCache(capacity=capacity))
            else:
                features = advance(model, features, ids)
