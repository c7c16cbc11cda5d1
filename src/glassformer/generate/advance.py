"""Model side of decoding: prompts into a cache, then one more token for each row or some rows.

features = prefill(model, rows, memory, cache)
features = advance(model, selected(features, going), tokens)
"""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import torch

from glassformer.axes import Float, Int, Tensor
from glassformer.batch import Batch, Positions
from glassformer.data.collate import padded
from glassformer.data.example import Example
from glassformer.errors import ConfigError, GlassformerError
from glassformer.generate.config import GenerateConfig
from glassformer.layers.cache import Cache
from glassformer.losses import at_least_float32
from glassformer.models.transformer import Features, Memory, Transformer

Prompt = Sequence[int] | Example
"""Beginning of a row: ids, or ids with patches among them, which are never cut."""
Prompts = Sequence[Sequence[int]] | Sequence[Example]
"""Prompts of a batch, all of one kind."""


def alone(prompt: Prompt) -> Prompts:
    """A batch of one prompt."""
    if isinstance(prompt, Example):
        return [prompt]
    return [prompt]


def check_language_model(model: Transformer) -> None:
    """Raise ConfigError unless the model predicts the next token from those before it."""
    config = model.config
    if not config.predicts_next:
        raise ConfigError(
            f"Only a decoder or encoder-decoder with a language model head predicts next "
            f"tokens; this model has "
            f"architecture={config.architecture!r} and head={config.head!r}."
        )


def check_ids(ids: Sequence[int], model: Transformer, what: str) -> None:
    """Raise ConfigError for an id outside the model's vocabulary."""
    size = model.config.vocab_size
    if wrong := [token for token in ids if not 0 <= token < size]:
        raise ConfigError(
            f"{what} holds token id {wrong[0]}; this model's ids run from 0 to {size - 1}."
        )


def check_given(ids: Sequence[int], model: Transformer, room: int) -> None:
    """Raise ConfigError for given tokens outside the vocabulary, or more of them than `room`."""
    check_ids(ids, model, "The given beginning")
    if len(ids) > room:
        raise ConfigError(
            f"The given beginning has {len(ids)} tokens and {room} may come; raise max_new_tokens."
        )


def examples_of(prompts: Prompts) -> list[Example]:
    """Prompts with patches, without their answers; none for prompts of ids."""
    return [
        replace(prompt, answer=None, targets=None)
        for prompt in prompts
        if isinstance(prompt, Example)
    ]


def tokens_of(prompt: Prompt) -> list[int]:
    """Ids of a prompt without the placeholders of patches."""
    if not isinstance(prompt, Example):
        return list(prompt)
    token = np.ones(len(prompt.ids), bool)
    for patches in prompt.patches:
        token[patches.begin : patches.begin + len(patches.values)] = False
    return prompt.ids[token].tolist()


def rooms(prompts: Prompts, model: Transformer, config: GenerateConfig) -> list[int]:
    """Maximum number of new tokens of each row; rows with patches, never cut, must fit the
    context."""
    context, most = model.config.max_length, config.max_new_tokens
    return [
        min(most, context - len(p.ids) + 1) if isinstance(p, Example) else most for p in prompts
    ]


def grown(prompts: Prompts, ids: Sequence[int]) -> Prompts:
    """The prompts with these ids appended to each."""
    if examples := examples_of(prompts):
        return [
            replace(one, ids=np.concatenate([one.ids, np.array(ids, one.ids.dtype)]))
            for one in examples
        ]
    return [[*tokens_of(prompt), *ids] for prompt in prompts]


def begin(length: int, more: int, context: int) -> int:
    """Index of the context's first element, for a prompt of `length` tokens after `more` steps."""
    first = 0 if length <= context else length - half(context)
    for size in range(length + 1, length + more + 1):
        first = size - half(context) if size - first > context else first
    return first


def check_prompts(prompts: Prompts, model: Transformer, config: GenerateConfig) -> None:
    """Raise ConfigError for an empty prompt, an id outside the vocabulary, or a prompt longer than
    the context that may not be cut."""
    context = model.config.max_length
    for prompt in prompts:
        if isinstance(prompt, Example):
            check_ids(tokens_of(prompt), model, "The prompt")
            if len(prompt.ids) > context:
                patches = sum(len(own.values) for own in prompt.patches)
                raise ConfigError(
                    f"The prompt has {len(prompt.ids)} elements ({patches} of them patches) "
                    f"and the context {context}; "
                    "shorten its text, or train with a larger model.max_length."
                )
            continue
        if not prompt:
            raise ConfigError(
                "The prompt is empty; give at least one token, for instance a newline."
            )
        check_ids(prompt, model, "The prompt")
        if len(prompt) > context and config.overflow == "refuse":
            raise ConfigError(
                f"The prompt has {len(prompt)} tokens and the context {context}; shorten it, "
                f"or go on from its last "
                "part with --window (overflow='window' in Python)."
            )


def check_source(source: Batch | None, rows: int, model: Transformer) -> None:
    """Raise ConfigError unless an encoder-decoder has a source for each row, others none."""
    config = model.config
    if (config.architecture == "encoder_decoder") != (source is not None):
        raise ConfigError(
            f"An encoder-decoder reads a source, for which it writes a target; give "
            f"source=Batch(...) for {rows} rows."
            if source is None
            else f"A source was given, and a model of architecture={config.architecture!r} "
            f"reads none; leave it out."
        )
    if source is None:
        return
    if len(source.elements) != rows:
        raise ConfigError(
            f"{len(source.elements)} sources were given for {rows} targets; each needs one of "
            f"its own."
        )
    if not source.elements.shape[1]:
        raise ConfigError(
            "The source is empty; give at least one token, for instance the one that ends it."
        )
    size, last = config.source_vocab_size or config.vocab_size, source.elements.amax()
    wrong = last if last >= size else source.elements.amin()
    if not 0 <= wrong < size:
        raise ConfigError(
            f"The source holds token id {int(wrong)}; this model's sources run from 0 to "
            f"{size - 1}."
        )


def encoded(source: Batch | None, model: Transformer) -> Memory | None:
    """Encoder output of a source, on the model's device; None without a source."""
    return None if source is None else model.encode(source.to(next(model.parameters()).device))


def half(context: int) -> int:
    """Number of elements kept of a row that has outgrown the context."""
    return max(1, context // 2)


def slots(features: Features) -> int:
    """Number of elements of each row of the cache, padding included."""
    assert features.cache is not None
    assert features.cache.positions is not None
    return features.cache.positions.length


def prefill(model: Transformer, rows: Prompts, memory: Memory | None, cache: Cache) -> Features:
    """Run the rows into an empty cache; rows of one length need no padding and no mask table."""
    device = next(model.parameters()).device
    if examples := examples_of(rows):
        return model.features(padded(examples, "left").to(device), memory, cache)
    rows = [tokens_of(row) for row in rows]
    lengths = [len(row) for row in rows]
    width = max(lengths)
    tokens = torch.tensor([[0] * (width - len(row)) + row for row in rows], device=device)
    even = min(lengths) == width
    positions = (
        Positions.arange(width, device=device)
        if even
        else Positions.padded(lengths, "left", device)
    )
    return model.features(Batch(tokens, positions), memory, cache)


def selected(features: Features, rows: Int[Tensor, "N"], same_sources: bool = False) -> Features:
    """Features of the given rows, in that order, for a next step.

    `same_sources`: row i keeps the i-th source and the i-th positions, as hypotheses of one
    sentence do.
    """
    assert features.cache is not None
    cache = features.cache.selected(rows, same_sources)
    if same_sources:
        return replace(features, hidden=features.hidden.index_select(0, rows), cache=cache)
    memory = None if features.memory is None else features.memory.selected(rows)
    return Features(
        features.hidden.index_select(0, rows), features.positions.selected(rows), memory, cache
    )


def advance(model: Transformer, features: Features, tokens: Int[Tensor, "B"]) -> Features:
    """Append one token to each row."""
    positions = features.positions
    start = None if positions.start is None else positions.start + positions.length
    new = Positions(positions.position[:, -1:] + 1, start=start)
    return model.features(Batch(tokens[:, None], new), features.memory, features.cache)


def next_logits(model: Transformer, features: Features) -> Float[Tensor, "B V"]:
    """Logits of the token after the last of each row, in float32 or better."""
    return at_least_float32(model.head(features.hidden[:, -1:], features.positions)[:, 0])


def check_numbers(log_probs: Float[Tensor, "*rows"]) -> None:
    """Raise GlassformerError for a log-probability that is NaN."""
    if bool(log_probs.isnan().any()):
        raise GlassformerError(
            "The model's output is not a number; its weights are damaged or training failed."
        )
