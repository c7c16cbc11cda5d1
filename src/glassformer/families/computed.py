"""Fields of a configuration that follow from several keys of config.json, and back."""

import math
from collections.abc import Callable
from typing import NamedTuple

from glassformer.core.files import Values
from glassformer.models.config import ModelConfig

ACTIVATIONS = {
    "gelu": "gelu",
    "gelu_python": "gelu",
    "gelu_new": "gelu_tanh",
    "gelu_pytorch_tanh": "gelu_tanh",
    "relu": "relu",
    "silu": "silu",
    "swish": "silu",
    "tanh": "tanh",
}
"""Functions by the names of config.json, and by ours."""


class Computed(NamedTuple):
    """Fields that follow from keys, and the keys that follow from a configuration."""

    read: Callable[[Values], Values]
    write: Callable[[ModelConfig], Values]


def depths(encoder: str, decoder: str) -> Computed:
    """The numbers of blocks by their keys; null for a decoder means the encoder's number."""

    def read(keys: Values) -> Values:
        n, own = keys[encoder], keys[decoder]
        own = n if own is None else own
        return {"n_layers": own, "n_encoder_layers": None if n == own else n}

    return Computed(read, lambda model: {encoder: model.depth("encoder"), decoder: model.n_layers})


def read_rotary(keys: Values) -> Values:
    """Base and scaling of the angles; `rope_parameters` holds both since transformers 5."""
    own = {**(keys.get("rope_scaling") or {}), **(keys.get("rope_parameters") or {})}
    found = {"rotary_base": own.get("rope_theta", keys.get("rope_theta", 10000.0))}
    if own.get("partial_rotary_factor", keys.get("partial_rotary_factor", 1.0)) != 1.0:
        raise ValueError("angles for a part of each head alone")
    match own.get("rope_type", own.get("type", "default")):
        case "default":
            return found
        case "linear":
            return found | {"rotary_factor": own["factor"]}
        case "llama3":
            length = own["original_max_position_embeddings"]
            bounds = [length / own[name] for name in ("high_freq_factor", "low_freq_factor")]
            return found | {"rotary_factor": own["factor"], "rotary_wavelengths": bounds}
        case kind:
            raise ValueError(f"angles scaled as {kind!r}; default, linear and llama3 are known")


def write_rotary(model: ModelConfig) -> Values:
    """`rope_parameters` of a configuration, and the keys that transformers 4 reads."""
    own: Values = {"rope_type": "default"}
    if model.rotary_factor != 1:
        own = {"rope_type": "linear", "factor": model.rotary_factor}
    if model.rotary_wavelengths is not None:
        short, long = model.rotary_wavelengths
        own |= {
            "rope_type": "llama3",
            "high_freq_factor": long / short,
            "low_freq_factor": 1.0,
            "original_max_position_embeddings": math.ceil(long),
        }
    base = {"rope_theta": model.rotary_base}
    scaled = own if model.rotary_factor != 1 else None
    return {**base, "rope_scaling": scaled, "rope_parameters": own | base}


def read_biases(keys: Values) -> Values:
    """Biases of Llama: `attention_bias` is also that of the output map; missing ones are 0."""
    attention = bool(keys.get("attention_bias"))
    return {"attention_bias": attention, "bias": attention or bool(keys.get("mlp_bias"))}


def read_feedforward(keys: Values) -> Values:
    """`relu`, or `gated-gelu`, in which GELU is that by tanh (T5)."""
    name = str(keys.get("feed_forward_proj", "relu"))
    own = name.removeprefix("gated-")
    activation = "gelu_tanh" if name == "gated-gelu" else ACTIVATIONS[own]
    return {"gated": own != name, "activation": activation}


def write_feedforward(model: ModelConfig) -> Values:
    """The name of T5's network."""
    names = {ours: theirs for theirs, ours in reversed(ACTIVATIONS.items())}
    if model.gated and model.activation == "gelu_tanh":
        return {"feed_forward_proj": "gated-gelu"}
    if model.activation not in names:
        raise ValueError(f"activation={model.activation!r} (not {' or '.join(names)})")
    return {"feed_forward_proj": "gated-" * model.gated + names[model.activation]}


def read_head(keys: Values) -> Values:
    """A tied head of T5 reads the stream scaled; transformers 5 has a separate key for that."""
    tied = keys.get("tie_word_embeddings") is not False
    return {"tied": tied, "head_scale": bool(keys.get("scale_decoder_outputs", tied))}


def read_patches(keys: Values) -> Values:
    """The grid of patches of an image of `image_size`."""
    (height, width), (p, q) = (
        own if isinstance(own := keys[name], list) else [own, own]
        for name in ("image_size", "patch_size")
    )
    rows, columns = height // p, width // q
    return {
        "grid": [rows, columns],
        "patch": [p, q],
        "patch_width": p * q * keys.get("num_channels", 3),
        "max_length": rows * columns,
    }


def write_patches(model: ModelConfig) -> Values:
    """Sizes of image and patch, as one number where they are square."""
    if model.grid is None or model.patch is None:
        raise ValueError("grid and patch, which are not known")
    size = [n * p for n, p in zip(model.grid, model.patch, strict=True)]
    image, patch = (one[0] if one[0] == one[1] else [*one] for one in (size, model.patch))
    channels = model.patch_width // math.prod(model.patch)
    return {"image_size": image, "patch_size": patch, "num_channels": channels}


COMPUTED = {
    "rotary": Computed(read_rotary, write_rotary),
    "biases": Computed(
        read_biases,
        lambda model: {
            "attention_bias": model.attention_bias or model.bias,
            "mlp_bias": model.bias,
        },
    ),
    "roberta_length": Computed(
        lambda keys: {"max_length": keys["max_position_embeddings"] - 2},
        lambda model: {"max_position_embeddings": model.max_length + 2},
    ),
    "bart_depths": depths("encoder_layers", "decoder_layers"),
    "t5_depths": depths("num_layers", "num_decoder_layers"),
    "t5_feedforward": Computed(read_feedforward, write_feedforward),
    "t5_head": Computed(
        read_head,
        lambda model: {
            "tie_word_embeddings": model.tied,
            "scale_decoder_outputs": model.head_scale,
        },
    ),
    "patches": Computed(read_patches, write_patches),
}
"""By the names in the tables of families."""
