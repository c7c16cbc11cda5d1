"""The architectures of llama.cpp as tables: their classes, their values, their tensors.

    fields     embedding_length = d_model    a value of the file, and the property of ModelConfig
    tensors    decoder.norm  output_norm     as in `interop/families`

Source: ggml-org/llama.cpp, src/llama-model.cpp.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor

from glassformer.families.fit import Fit, fits, narrowed
from glassformer.interop.parity import CLOSE
from glassformer.layers.position import slowing
from glassformer.models.config import ModelConfig

ROUGH = 4e-3
"""On a CPU, llama.cpp reads GELU from a table of float16: each value is wrong by up to 1e-3 of it
(the argument and the value are rounded to 11 bits), and those of all layers add up."""


@dataclass(frozen=True)
class Architecture:
    """One of llama.cpp's."""

    name: str
    classes: tuple[str, ...]
    """The published classes whose models it computes."""
    fields: Mapping[str, str]
    tensors: str
    only: Mapping[str, Any]
    """The values of fields that it computes alone."""
    close: float = CLOSE
    """Largest difference of outputs of about 1."""


SIZES = {
    "context_length": "max_length",
    "embedding_length": "d_model",
    "block_count": "n_layers",
    "feed_forward_length": "ff_width",
    "attention.head_count": "n_heads",
}
NORMS = """
    embed.element                           token_embd
    embed.position                          position_embd
    decoder.blocks.#.attention_norm         blk.#.attn_norm
    decoder.blocks.#.attention.out_proj     blk.#.attn_output
    decoder.blocks.#.feedforward_norm       blk.#.ffn_norm
    decoder.blocks.#.feedforward.up_proj    blk.#.ffn_up
    decoder.blocks.#.feedforward.gate_proj  blk.#.ffn_gate
    decoder.blocks.#.feedforward.down_proj  blk.#.ffn_down
    decoder.norm                            output_norm
    head                                    output"""
ROTARY = f"""{NORMS}
    decoder.blocks.#.attention.q_proj       blk.#.attn_q
    decoder.blocks.#.attention.k_proj       blk.#.attn_k
    decoder.blocks.#.attention.v_proj       blk.#.attn_v
    decoder.blocks.#.attention.q_norm       blk.#.attn_q_norm
    decoder.blocks.#.attention.k_norm       blk.#.attn_k_norm
"""
GPT2 = Architecture(
    "gpt2",
    ("GPT2LMHeadModel",),
    SIZES | {"attention.layer_norm_epsilon": "epsilon"},
    f"""{NORMS}
    decoder.blocks.#.attention.q_proj       blk.#.attn_qkv  0/3
    decoder.blocks.#.attention.k_proj       blk.#.attn_qkv  1/3
    decoder.blocks.#.attention.v_proj       blk.#.attn_qkv  2/3
    """,
    {"activation": "gelu_tanh"},
    ROUGH,
)
LLAMA = Architecture(
    "llama",
    ("LlamaForCausalLM", "MistralForCausalLM", "Qwen2ForCausalLM"),
    SIZES
    | {
        "attention.head_count_kv": "kv_heads",
        "attention.layer_norm_rms_epsilon": "epsilon",
        "attention.key_length": "head_width",
        "attention.value_length": "head_width",
        "rope.dimension_count": "head_width",
        "rope.freq_base": "rotary_base",
    },
    ROTARY.replace("blk.#.attn_q\n", "blk.#.attn_q  pairs\n").replace(
        "blk.#.attn_k\n", "blk.#.attn_k  pairs\n"
    ),
    {"activation": "silu", "window": None},
)
HALVES = replace(LLAMA, tensors=ROTARY)
"""Whose rotary angles turn the numbers i and i + half, as here."""
PLAIN = {"rotary_wavelengths": None, "attention_bias": False, "bias": False}
QWEN3 = replace(
    HALVES, name="qwen3", classes=("Qwen3ForCausalLM",), only=PLAIN | {"activation": "silu"}
)
GEMMA = replace(
    HALVES,
    name="gemma",
    classes=("GemmaForCausalLM",),
    only=PLAIN | {"activation": "gelu_tanh", "tied": True},
    close=ROUGH,
)
ARCHITECTURES = (GPT2, LLAMA, QWEN3, GEMMA)


def nearest_architecture(model: ModelConfig, task: str) -> tuple[Architecture, Fit] | None:
    """The architecture in which the model differs least, and the published class as which it is
    one, with all the differences; None: there is none for the task."""
    found = [
        (of, narrowed(fit, model, of.only))
        for fit in fits(model, task)
        for of in ARCHITECTURES
        if fit.name in of.classes
    ]
    return min(found, key=lambda one: len(one[1].differences), default=None)


def values_of(of: Architecture, model: ModelConfig) -> dict[str, str | int | float]:
    """The values of a model of this architecture."""
    own = {name: getattr(model, field) for name, field in of.fields.items()}
    if model.rotary_factor != 1 and model.rotary_wavelengths is None:
        own |= {"rope.scaling.type": "linear", "rope.scaling.factor": model.rotary_factor}
    named = {f"{of.name}.{name}": value for name, value in own.items()}
    return {"general.architecture": of.name, **named}


def as_stored(of: Architecture, fit: Fit) -> Fit:
    """The class with the names that its tensors have in this architecture."""
    family = replace(fit.family, prefix="", tensors=of.tensors, tied={})
    return replace(fit, family=family, head=replace(fit.head, tensors=""))


def rotary_divisors(model: ModelConfig) -> dict[str, Tensor]:
    """The tensor of what each rotary frequency is divided by, where these differ."""
    if model.rotary_wavelengths is None:
        return {}
    changes = model.rotary_factor, model.rotary_wavelengths
    slower = slowing(model.head_width, model.rotary_base, *changes, torch.device("cpu"))
    return {"rope_freqs.weight": 1 / slower}
