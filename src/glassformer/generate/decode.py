"""The one decoding loop: x_{t+1} ~ softmax(f(x_1 .. x_t)), append, repeat (Note D); it yields a step at a time.

Rows of any lengths are decoded together, padded on the left, and each comes out as it would alone: masks read places,
random numbers depend on (seed, step). When a row fills the context, it goes on from the last half of it.
Knows: models, token ids. Does not know: text.
"""

import math
from collections.abc import Collection, Generator, Sequence
from dataclasses import dataclass

import torch

from glassformer.batch import Batch, Places
from glassformer.errors import ConfigError, GlassformerError
from glassformer.generate.config import GenerateConfig
from glassformer.generate.logits import next_tokens
from glassformer.layers.cache import FixedCache
from glassformer.losses import at_least_float32
from glassformer.models.transformer import Features, Transformer, evaluating


@dataclass(frozen=True)
class Step:
    """The new token of each unfinished row: row number, token id, its log-probability under the model itself."""

    rows: tuple[int, ...]
    ids: tuple[int, ...]
    log_probs: tuple[float, ...]


def decode(
    model: Transformer, prompts: Sequence[Sequence[int]], config: GenerateConfig, ends: Sequence[int] = ()
) -> Generator[Step, Collection[int] | None, None]:
    """Yield one `Step` after another until every row produced a token of `ends` or `max_new_tokens`.

    The caller may `send` the numbers of rows that need no more (a stop string was found). Errors: a model that is no
    decoder with a language model head, an empty prompt, an id outside the vocabulary, a prompt longer than the context
    unless `config.overflow` is "window", logits that are not numbers.
    """
    context = model.config.max_length
    rows = [list(prompt) for prompt in prompts]
    check_language_model(model)
    for prompt in rows:
        _check(prompt, model, config)
    if not rows:
        return
    begins = [0 if len(row) <= context else len(row) - _kept(context) for row in rows]
    active = list(range(len(rows)))
    # The modes are entered for each computation, not around the loop: a generator would leak them to its caller.
    with evaluating(model):
        features = _prefill(model, [rows[i][begins[i] :] for i in active])
    for step in range(config.max_new_tokens):
        with evaluating(model):
            logits = at_least_float32(model.head(features.hidden[:, -1:], features.places)[:, 0])
            ids = next_tokens(logits, [rows[i] for i in active], config, step)
            log_probs = logits.log_softmax(-1).gather(-1, ids[:, None])[:, 0].tolist()
        if any(math.isnan(log_prob) for log_prob in log_probs):
            raise GlassformerError("The model's output is not a number; its weights are damaged or training failed.")
        chosen = ids.tolist()
        for i, token in zip(active, chosen, strict=True):
            rows[i].append(token)
        done = (yield Step(tuple(active), tuple(chosen), tuple(log_probs))) or ()
        going = [at for at, i in enumerate(active) if chosen[at] not in ends and i not in done]
        if not going or step + 1 == config.max_new_tokens:
            return
        active = [active[at] for at in going]
        full = [i for i in active if len(rows[i]) - begins[i] > context]
        for i in full:
            begins[i] = len(rows[i]) - _kept(context)
        with evaluating(model):
            # The cache has a slot for every element of the longest row, even after that row has ended.
            if full or _slots(features) == context:
                features = _prefill(model, [rows[i][begins[i] :] for i in active])
            else:
                features = _advance(model, features, ids, going)


def _kept(context: int) -> int:
    return max(1, context // 2)


def _slots(features: Features) -> int:
    assert features.cache is not None
    assert features.cache.places is not None
    return features.cache.places.length


def check_language_model(model: Transformer) -> None:
    """Raise ConfigError unless the model predicts the next token from those before it."""
    config = model.config
    if config.architecture != "decoder" or config.head != "lm":
        raise ConfigError(
            f"Only a decoder with a language model head predicts next tokens; this model has "
            f"architecture={config.architecture!r} and head={config.head!r}."
        )


def check_ids(ids: Sequence[int], model: Transformer, what: str) -> None:
    """Raise ConfigError for an id outside the model's vocabulary."""
    size = model.config.vocab_size
    if wrong := [token for token in ids if not 0 <= token < size]:
        raise ConfigError(f"{what} holds token id {wrong[0]}; this model's ids run from 0 to {size - 1}.")


def _check(prompt: list[int], model: Transformer, config: GenerateConfig) -> None:
    context = model.config.max_length
    if not prompt:
        raise ConfigError("The prompt is empty; give at least one token, for instance a newline.")
    check_ids(prompt, model, "The prompt")
    if len(prompt) > context and config.overflow == "refuse":
        raise ConfigError(
            f"The prompt has {len(prompt)} tokens and the context {context}; shorten it, or go on from its last part "
            "with --window (overflow='window' in Python)."
        )


def _prefill(model: Transformer, rows: list[list[int]]) -> Features:
    """Run the rows through the model into a fresh cache; rows of one length need no padding and no mask table."""
    lengths, device = [len(row) for row in rows], next(model.parameters()).device
    width = max(lengths)
    tokens = torch.tensor([[0] * (width - len(row)) + row for row in rows], device=device)
    even = min(lengths) == width
    places = Places.arange(width, device=device) if even else Places.padded(lengths, "left", device)
    cache = FixedCache(capacity=max(model.config.max_length, width))
    return model.features(Batch(tokens, places), cache=cache)


def _advance(model: Transformer, features: Features, ids: torch.Tensor, going: list[int]) -> Features:
    """One more token for the rows at `going`."""
    cache, places = features.cache, features.places
    assert cache is not None
    if len(going) < len(ids):
        index = torch.tensor(going, device=ids.device)
        ids, cache, places = ids[index], cache.selected(index), places.selected(index)
    start = None if places.start is None else places.start + places.length
    new = Places(places.position[:, -1:] + 1, start=start)
    return model.features(Batch(ids[:, None], new), cache=cache)
