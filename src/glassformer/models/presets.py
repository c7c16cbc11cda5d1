"""Known models as functions that return a configuration; their fields are a table, `presets.toml`.

    gpt2("small")  bert("base")  t5("small")  vit("B/16")  original_2017("base")
    modern("small")  qwen3("small")  llama("7b")  note("B")

Any field can be overridden: gpt2("small", max_length=512).
"""

import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import Any

from glassformer.core.errors import ConfigError, suggest
from glassformer.models.config import ModelConfig

TABLE = tomllib.loads(Path(__file__).with_suffix(".toml").read_text(encoding="utf-8"))
"""Fields of each preset; `sizes`: those of each size."""


def gpt2(size: str = "small", **changes: Any) -> ModelConfig:
    """GPT-2: decoder, pre-norm, learned positions, GELU by tanh, tied head; small has 124,439,808
    parameters."""
    return _config("gpt2", size, changes)


def bert(size: str = "base", **changes: Any) -> ModelConfig:
    """BERT: encoder, post-norm, learned positions, segments, pooler; base has 109,482,240
    parameters."""
    return _config("bert", size, changes)


def t5(size: str = "small", **changes: Any) -> ModelConfig:
    """T5 1.0: encoder-decoder, RMS pre-norm, bucketed relative bias, no score scale, ReLU; small
    has 60,506,624 parameters."""
    return _config("t5", size, changes)


def vit(size: str = "B/16", **changes: Any) -> ModelConfig:
    """Vision Transformer on 224 x 224 images: 196 patches and a class token; B/16 has 86,567,656
    parameters."""
    unknown = {"grid": None} if "max_length" in changes else {}
    return _config("vit", size, unknown | changes)


def original_2017(size: str = "base", **changes: Any) -> ModelConfig:
    """The 2017 Transformer: encoder-decoder, post-norm, sinusoidal positions, ReLU, one shared
    embedding matrix."""
    return _config("original-2017", size, changes)


def modern(size: str = "tiny", **changes: Any) -> ModelConfig:
    """Later choices: RMSNorm, rotary positions, query/key norm, squared ReLU, no biases, untied
    head."""
    return _config("modern", size, changes)


def qwen3(size: str = "tiny", **changes: Any) -> ModelConfig:
    """`modern` with SwiGLU instead of squared ReLU, in the sizes of `modern`: its models export as
    Qwen 3."""
    return _config("qwen3", size, changes)


def llama(size: str = "7b", **changes: Any) -> ModelConfig:
    """Llama 2: decoder, RMS pre-norm, rotary positions, SwiGLU, no biases, untied head; 7b has
    6,738,415,616 parameters."""
    return _config("llama", size, changes)


def note(name: str = "B", **changes: Any) -> ModelConfig:
    """The exact variant of one of the five notes, A to E, in a small size; ε is 0 as the notes
    write LayerNorm."""
    if name not in (notes := TABLE["note"]["sizes"]):
        raise ConfigError(f"There is no note {name!r}; {suggest(name, notes)}")
    if name == "D":  # square feed-forward maps
        changes.setdefault("d_ff", changes.get("d_model", TABLE["note"]["d_model"]))
    return _config("note", name, changes)


PRESETS: dict[str, Callable[..., ModelConfig]] = {
    "original-2017": original_2017,
    "gpt2": gpt2,
    "bert": bert,
    "t5": t5,
    "vit": vit,
    "modern": modern,
    "qwen3": qwen3,
    "llama": llama,
    "note": note,
}


def preset(name: str, size: str | None = None, **changes: Any) -> ModelConfig:
    """Configuration of a preset by name, as in recipes: `model: {preset: gpt2, size: small}`."""
    if name not in PRESETS:
        raise ConfigError(f"There is no model.preset {name!r}; {suggest(name, PRESETS)}")
    return PRESETS[name](size, **changes) if size is not None else PRESETS[name](**changes)


def _config(name: str, size: str, changes: dict[str, Any]) -> ModelConfig:
    values = {**TABLE[name]}
    sizes = values.pop("sizes")
    if size not in sizes:
        raise ConfigError(f"The preset {name} has no size {size!r}; known are {', '.join(sizes)}.")
    return ModelConfig.parse(values | sizes[size] | changes)
