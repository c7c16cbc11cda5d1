"""Known models as functions that return a configuration; their fields are tables, `presets.toml`.

    gpt2("small")  bert("base")  t5("small")  vit("B/16")  original_2017("base")
    modern("small")  qwen3("small")  llama("7b")  note("B")

Any field can be overridden: gpt2("small", max_length=512).
"""

import tomllib
from pathlib import Path
from typing import Any

from glassformer.core.errors import ConfigError, suggest
from glassformer.models.config import ModelConfig

TABLE = tomllib.loads(Path(__file__).with_suffix(".toml").read_text(encoding="utf-8"))
"""Fields of each preset; `size`: the usual one, `sizes`: the fields of each size."""


def preset(name: str, size: str | None = None, **changes: Any) -> ModelConfig:
    """Configuration of a preset by name, as in recipes: `model: {preset: gpt2, size: small}`."""
    if name not in TABLE:
        raise ConfigError(f"There is no model.preset {name!r}; {suggest(name, TABLE)}")
    values = {**TABLE[name]}
    sizes, usual = values.pop("sizes"), values.pop("size")
    own: str = usual if size is None else size
    if own not in sizes:
        problem = f"The preset {name} has no size {own!r}; known are {', '.join(sizes)}."
        if name == "note":
            problem = f"There is no note {own!r}; {suggest(own, sizes)}"
        raise ConfigError(problem)
    values |= sizes[own]
    if values.pop("square", False):  # feed-forward maps
        values["d_ff"] = changes.get("d_model", values["d_model"])
    if "max_length" in changes:
        values["grid"] = None  # not known
    return ModelConfig.parse(values | changes)


def gpt2(size: str | None = None, **changes: Any) -> ModelConfig:
    """GPT-2: decoder, pre-norm, learned positions, GELU by tanh, tied head; small has 124,439,808
    parameters."""
    return preset("gpt2", size, **changes)


def bert(size: str | None = None, **changes: Any) -> ModelConfig:
    """BERT: encoder, post-norm, learned positions, segments, pooler; base has 109,482,240
    parameters."""
    return preset("bert", size, **changes)


def t5(size: str | None = None, **changes: Any) -> ModelConfig:
    """T5 1.0: encoder-decoder, RMS pre-norm, bucketed relative bias, no score scale, ReLU; small
    has 60,506,624 parameters."""
    return preset("t5", size, **changes)


def vit(size: str | None = None, **changes: Any) -> ModelConfig:
    """Vision Transformer on 224 x 224 images: 196 patches and a class token; B/16 has 86,567,656
    parameters."""
    return preset("vit", size, **changes)


def original_2017(size: str | None = None, **changes: Any) -> ModelConfig:
    """The 2017 Transformer: encoder-decoder, post-norm, sinusoidal positions, ReLU, one shared
    embedding matrix."""
    return preset("original-2017", size, **changes)


def modern(size: str | None = None, **changes: Any) -> ModelConfig:
    """Later choices: RMSNorm, rotary positions, query/key norm, squared ReLU, no biases, untied
    head."""
    return preset("modern", size, **changes)


def qwen3(size: str | None = None, **changes: Any) -> ModelConfig:
    """`modern` with SwiGLU instead of squared ReLU, in the sizes of `modern`: its models export as
    Qwen 3."""
    return preset("qwen3", size, **changes)


def llama(size: str | None = None, **changes: Any) -> ModelConfig:
    """Llama 2: decoder, RMS pre-norm, rotary positions, SwiGLU, no biases, untied head; 7b has
    6,738,415,616 parameters."""
    return preset("llama", size, **changes)


def note(size: str | None = None, **changes: Any) -> ModelConfig:
    """The exact variant of one of the five notes, A to E, in a small size; ε is 0 as the notes
    write LayerNorm."""
    return preset("note", size, **changes)
