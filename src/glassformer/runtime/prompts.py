"""Prompts and sources of a decoder: their kinds, the part that a context holds, and what is
refused."""

from collections.abc import Iterable, Sequence
from dataclasses import replace
from operator import ne

import numpy as np

from glassformer.core.axes import Float, Tensor
from glassformer.core.errors import ConfigError, GlassformerError
from glassformer.data.example import Example
from glassformer.models.transformer import Transformer
from glassformer.runtime.config import GenerateConfig

Prompt = Sequence[int] | Example
"""Beginning of a row: ids, or ids with patches among them, which are never cut."""
Prompts = Sequence[Prompt]
"""Prompts of a batch, all of one kind."""


def example_of(prompt: Prompt) -> Example:
    """Return a prompt as an example without its answer."""
    one = prompt if isinstance(prompt, Example) else Example(np.array(prompt, np.int32))
    return replace(one, answer=None, targets=None)


def tokens_of(prompt: Prompt) -> list[int]:
    """Ids of a prompt without the placeholders of patches."""
    if not isinstance(prompt, Example):
        return list(prompt)
    token = np.ones(len(prompt.ids), bool)
    for patches in prompt.patches:
        token[patches.begin : patches.begin + len(patches.values)] = False
    return prompt.ids[token].tolist()


def common(one: Sequence[int], other: Sequence[int]) -> int:
    """Number of first elements that two texts have in common."""
    return [*map(ne, one, other), True].index(True)


def half(context: int) -> int:
    """Number of elements kept of a row that has outgrown the context."""
    return max(1, context // 2)


def begin(length: int, more: int, context: int) -> int:
    """Index of the context's first element, for a prompt of `length` tokens after `more` steps."""
    first = 0 if length <= context else length - half(context)
    for size in range(length + 1, length + more + 1):
        first = size - half(context) if size - first > context else first
    return first


def check_language_model(model: Transformer) -> None:
    """Raise ConfigError unless the model predicts the next token from those before it."""
    config = model.config
    if not config.predicts_next:
        raise ConfigError(
            "Only a decoder or encoder-decoder with a language model head predicts next tokens; "
            f"this model has architecture={config.architecture!r} and head={config.head!r}."
        )


def check_ids(ids: Sequence[int], model: Transformer, what: str) -> None:
    """Raise ConfigError for an id outside the model's vocabulary."""
    _check_range(ids, model.config.vocab_size, what)


def _check_range(ids: Iterable[int], size: int, what: str, kind: str = "ids") -> None:
    if wrong := [token for token in ids if not 0 <= token < size]:
        raise ConfigError(
            f"{what} holds token id {wrong[0]}; this model's {kind} run from 0 to {size - 1}."
        )


def check_settings(config: GenerateConfig, vocab_size: int) -> None:
    """Raise ConfigError for a setting that names an id outside the vocabulary."""
    for name, ids in config.named_ids.items():
        _check_range(ids, vocab_size, f"generate.{name}")


def check_prompt(model: Transformer, prompt: Prompt, config: GenerateConfig) -> None:
    """Raise ConfigError for a model that predicts no next token, an empty prompt, an id outside the
    vocabulary (also in a setting), or a prompt longer than the context that may not be cut."""
    check_language_model(model)
    check_settings(config, model.config.vocab_size)
    check_ids(tokens_of(prompt), model, "The prompt")
    context = model.config.max_length
    if isinstance(prompt, Example):
        if len(prompt.ids) > context:
            patches = sum(len(own.values) for own in prompt.patches)
            raise ConfigError(
                f"The prompt has {len(prompt.ids)} elements ({patches} of them patches) and "
                f"the context {context}; shorten its text, or train with a larger "
                "model.max_length."
            )
    elif not prompt:
        raise ConfigError("The prompt is empty; give at least one token, for instance a newline.")
    elif len(prompt) > context and config.overflow == "refuse":
        raise ConfigError(
            f"The prompt has {len(prompt)} tokens and the context {context}; shorten it, or "
            "go on from its last part with --overflow window (overflow='window' in Python)."
        )


def check_source(model: Transformer, source: Example | None) -> None:
    """Raise ConfigError unless an encoder-decoder has a source, others none."""
    config = model.config
    if source is None and config.is_encoder_decoder:
        raise ConfigError(
            "An encoder-decoder reads a source, for which it writes a target; give one for each."
        )
    if source is None:
        return
    if not config.is_encoder_decoder:
        raise ConfigError(
            f"A source was given, and a model of architecture={config.architecture!r} reads none; "
            "leave it out."
        )
    if not len(source.ids):
        raise ConfigError(
            "The source is empty; give at least one token, for instance the one that ends it."
        )
    size = config.source_vocab_size or config.vocab_size
    _check_range(source.ids.tolist(), size, "The source", "sources")


def check_numbers(log_probs: Float[Tensor, "*rows"]) -> None:
    """Raise GlassformerError for a log-probability that is NaN."""
    if bool(log_probs.isnan().any()):
        raise GlassformerError(
            "The model's output is not a number; its weights are damaged or training failed."
        )
