"""Known models as functions that return a configuration; sizes are tables, not code.

    gpt2("small")  bert("base")  t5("small")  vit("B/16")  original_2017("base")
    modern("small")  note("B")

Any field can be overridden: gpt2("small", max_length=512).
"""

from collections.abc import Callable
from typing import Any, TypeVar

from glassformer.errors import ConfigError, suggest
from glassformer.models.config import ModelConfig

Row = TypeVar("Row")

GPT2 = {  # Radford et al. 2019, table 2: n_layers, d_model, n_heads
    "small": (12, 768, 12),
    "medium": (24, 1024, 16),
    "large": (36, 1280, 20),
    "xl": (48, 1600, 25),
}
BERT = {"base": (12, 768, 12), "large": (24, 1024, 16)}  # Devlin et al. 2019
T5 = {
    "small": (6, 512, 8, 2048),
    "base": (12, 768, 12, 3072),
}  # Raffel et al. 2020; heads are 64 wide
# Dosovitskiy et al. 2021, table 1; "tiny" is DeiT's: n_layers, d_model, n_heads, patch side
VIT = {
    "B/16": (12, 768, 12, 16),
    "tiny": (12, 192, 3, 16),
}
ORIGINAL_2017 = {  # Vaswani et al. 2017, table 3: n_layers, d_model, n_heads, d_ff, dropout
    "tiny": (2, 64, 2, 256, 0.0),
    "base": (6, 512, 8, 2048, 0.1),
    "big": (6, 1024, 16, 4096, 0.3),
}
MODERN = {
    "tiny": (4, 128, 4),
    "small": (6, 384, 6),
    "medium": (12, 768, 12),
    "large": (24, 1024, 16),
}


def gpt2(size: str = "small", **changes: Any) -> ModelConfig:
    """GPT-2: decoder, pre-norm, learned positions, GELU by tanh, tied head; small has 124,439,808
    parameters."""
    n_layers, d_model, n_heads = _sizes("gpt2", GPT2, size)
    return _config(
        changes,
        architecture="decoder",
        vocab_size=50257,
        max_length=1024,
        d_model=d_model,
        n_layers=n_layers,
        n_heads=n_heads,
        activation="gelu_tanh",
        init="gpt2",
    )


def bert(size: str = "base", **changes: Any) -> ModelConfig:
    """BERT: encoder, post-norm, learned positions, segments, pooler; base has 109,482,240
    parameters."""
    n_layers, d_model, n_heads = _sizes("bert", BERT, size)
    return _config(
        changes,
        architecture="encoder",
        vocab_size=30522,
        max_length=512,
        d_model=d_model,
        n_layers=n_layers,
        n_heads=n_heads,
        activation="gelu",
        norm_placement="post",
        epsilon=1e-12,
        embedding_norm=True,
        n_token_types=2,
        head="pool",
        pool="first",
        pooler=True,
        dropout=0.1,
        attention_dropout=0.1,
        init="bert",
    )


def t5(size: str = "small", **changes: Any) -> ModelConfig:
    """T5 1.0: encoder-decoder, RMS pre-norm, bucketed relative bias, no score scale, ReLU; small
    has 60,506,624."""
    n_layers, d_model, n_heads, d_ff = _sizes("t5", T5, size)
    return _config(
        changes,
        architecture="encoder_decoder",
        vocab_size=32128,
        max_length=512,
        d_model=d_model,
        n_layers=n_layers,
        n_heads=n_heads,
        d_head=64,
        d_ff=d_ff,
        activation="relu",
        norm="rms",
        epsilon=1e-6,
        position="buckets",
        scale="none",
        attention_bias=False,
        bias=False,
        head_scale=True,
        dropout=0.1,
        attention_dropout=0.1,
        init="t5",
    )


def vit(size: str = "B/16", **changes: Any) -> ModelConfig:
    """Vision Transformer on 224 x 224 images: 196 patches and a class token; B/16 has 86,567,656
    parameters."""
    n_layers, d_model, n_heads, side = _sizes("vit", VIT, size)
    return _config(
        changes if "max_length" in changes else {"grid": (224 // side, 224 // side), **changes},
        architecture="encoder",
        elements="patches",
        patch_width=side * side * 3,
        max_length=(224 // side) ** 2,
        d_model=d_model,
        n_layers=n_layers,
        n_heads=n_heads,
        activation="gelu",
        epsilon=1e-6,
        head="classify",
        n_classes=1000,
        pool="first",
        init="bert",
    )


def original_2017(size: str = "base", **changes: Any) -> ModelConfig:
    """The 2017 Transformer: encoder-decoder, post-norm, sinusoidal positions, ReLU, one shared
    embedding matrix."""
    n_layers, d_model, n_heads, d_ff, dropout = _sizes("original-2017", ORIGINAL_2017, size)
    return _config(
        changes,
        architecture="encoder_decoder",
        vocab_size=37000,
        max_length=512,
        d_model=d_model,
        n_layers=n_layers,
        n_heads=n_heads,
        d_ff=d_ff,
        activation="relu",
        norm_placement="post",
        position="sinusoidal",
        attention_bias=False,
        embedding_scale=True,
        dropout=dropout,
        init="xavier",
    )


def modern(size: str = "tiny", **changes: Any) -> ModelConfig:
    """Later choices: RMSNorm, rotary positions, query/key norm, squared ReLU, no biases, untied
    head."""
    n_layers, d_model, n_heads = _sizes("modern", MODERN, size)
    return _config(
        changes,
        d_model=d_model,
        n_layers=n_layers,
        n_heads=n_heads,
        activation="relu_squared",
        norm="rms",
        epsilon=1e-6,
        position="rotary",
        qk_norm=True,
        attention_bias=False,
        bias=False,
        tied=False,
        init="modern",
    )


NOTES: dict[str, dict[str, Any]] = {
    # Note A, chapter 9: decoder with a causal mask, sinusoidal positions added to the embedding,
    # MLP blocks.
    "A": {
        "architecture": "decoder",
        "position": "sinusoidal",
        "activation": "relu",
        "attention_bias": False,
    },
    # Note B: learned positions, pre-norm block, ReLU with biases, tied unembedding; its parallel
    # form is post-norm.
    "B": {
        "architecture": "decoder",
        "position": "learned",
        "activation": "relu",
        "attention_bias": False,
        "tied": True,
    },
    # Note C: encoder-decoder, post-norm, positions as printed and counted from 1, q, k, v without
    # biases, scores divided by √d of the embedding. Its LayerNorm has β, so `bias` stays (and
    # W_O is the Linear that the note names).
    "C": {
        "architecture": "encoder_decoder",
        "position": "sinusoidal_printed",
        "first_position": 1,
        "norm_placement": "post",
        "activation": "relu",
        "attention_bias": False,
        "scale": "model",
    },
    # Note D: learned positions, pre-norm, square feed-forward maps without biases, class from the
    # last element.
    "D": {
        "architecture": "decoder",
        "position": "learned",
        "activation": "gelu",
        "attention_bias": False,
        "bias": False,
    },
    # Note E: encoder-decoder, post-norm formula, paired sinusoids from 0, GELU with biases, untied
    # head with bias.
    "E": {
        "architecture": "encoder_decoder",
        "position": "sinusoidal",
        "norm_placement": "post",
        "activation": "gelu",
        "attention_bias": False,
        "tied": False,
        "head_bias": True,
    },
}


def note(name: str = "B", **changes: Any) -> ModelConfig:
    """The exact variant of one of the five notes, A to E, in a small size; ε is 0 as the notes
    write LayerNorm."""
    if name not in NOTES:
        raise ConfigError(f"There is no note {name!r}; {suggest(name, NOTES)}")
    values = {
        "vocab_size": 256,
        "max_length": 128,
        "d_model": 128,
        "epsilon": 0.0,
        **NOTES[name],
        **changes,
    }
    if name == "D":
        values.setdefault("d_ff", values["d_model"])
    return _config(values)


PRESETS: dict[str, Callable[..., ModelConfig]] = {
    "original-2017": original_2017,
    "gpt2": gpt2,
    "bert": bert,
    "t5": t5,
    "vit": vit,
    "modern": modern,
    "note": note,
}


def preset(name: str, size: str | None = None, **changes: Any) -> ModelConfig:
    """Configuration of a preset by name, as in recipes: `model: {preset: gpt2, size: small}`."""
    if name not in PRESETS:
        raise ConfigError(f"There is no model.preset {name!r}; {suggest(name, PRESETS)}")
    return PRESETS[name](size, **changes) if size is not None else PRESETS[name](**changes)


def _sizes(name: str, table: dict[str, Row], size: str) -> Row:
    if size not in table:
        raise ConfigError(f"The preset {name} has no size {size!r}; known are {', '.join(table)}.")
    return table[size]


def _config(changes: dict[str, Any], **values: Any) -> ModelConfig:
    return ModelConfig.parse(values | changes)
