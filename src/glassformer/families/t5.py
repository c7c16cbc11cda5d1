"""T5 (Raffel et al. 2020), also 1.1 and mT5's form with gated feed-forward networks."""

from collections.abc import Mapping
from typing import Any

from glassformer.families.family import ACTIVATIONS, Computed, Family, Head, depths
from glassformer.models.config import ModelConfig


def read_feedforward(keys: Mapping[str, Any]) -> dict[str, Any]:
    """`relu`, or `gated-gelu`, in which GELU is that by tanh."""
    name = str(keys.get("feed_forward_proj", "relu"))
    gated = name.startswith("gated-")
    own = name.removeprefix("gated-")
    activation = "gelu_tanh" if name == "gated-gelu" else ACTIVATIONS[own]
    return {"gated": gated, "activation": activation}


def write_feedforward(model: ModelConfig) -> dict[str, Any]:
    """The name of the network."""
    names = {ours: theirs for theirs, ours in reversed(ACTIVATIONS.items())}
    if model.gated and model.activation == "gelu_tanh":
        return {"feed_forward_proj": "gated-gelu"}
    if model.activation not in names:
        raise ValueError(f"activation={model.activation!r} (not {' or '.join(names)})")
    return {"feed_forward_proj": "gated-" * model.gated + names[model.activation]}


def read_head(keys: Mapping[str, Any]) -> dict[str, Any]:
    """A tied head reads the stream scaled; transformers 5 has a key of its own for that."""
    tied = keys.get("tie_word_embeddings") is not False
    return {"tied": tied, "head_scale": bool(keys.get("scale_decoder_outputs", tied))}


def write_head(model: ModelConfig) -> dict[str, Any]:
    """Both keys."""
    return {"tie_word_embeddings": model.tied, "scale_decoder_outputs": model.head_scale}


def read_depth(keys: Mapping[str, Any]) -> dict[str, Any]:
    """Blocks of both sides, as many where the decoder's are not named."""
    encoder, decoder = keys["num_layers"], keys.get("num_decoder_layers")
    return depths(encoder, encoder if decoder is None else decoder)


def write_depth(model: ModelConfig) -> dict[str, Any]:
    """Both keys."""
    return {"num_layers": model.depth("encoder"), "num_decoder_layers": model.n_layers}


def side(name: str, last: int) -> str:
    """The lines of the encoder or decoder, whose feed-forward network is sub-layer `last`."""
    block, theirs = f"{name}.blocks.#", f"{name}.block.#.layer"
    parts = [("attention", 0, "SelfAttention"), ("cross", 1, "EncDecAttention")][:last]
    lines = [
        f"{name}.bias  {name}.block.0.layer.0.SelfAttention.relative_attention_bias",
        f"{name}.norm  {name}.final_layer_norm",
        f"{block}.feedforward_norm  {theirs}.{last}.layer_norm",
        f"{block}.feedforward.up_proj  {theirs}.{last}.DenseReluDense.wi  gated=false",
        f"{block}.feedforward.gate_proj  {theirs}.{last}.DenseReluDense.wi_0",
        f"{block}.feedforward.up_proj  {theirs}.{last}.DenseReluDense.wi_1  gated=true",
        f"{block}.feedforward.down_proj  {theirs}.{last}.DenseReluDense.wo",
    ]
    for ours, number, module in parts:
        lines.append(f"{block}.{ours}_norm  {theirs}.{number}.layer_norm")
        lines += [
            f"{block}.{ours}.{one}_proj  {theirs}.{number}.{module}.{one[0]}"
            for one in ("q", "k", "v", "out")
        ]
    return "\n".join(lines)


T5 = Family(
    model_type="t5",
    prefix="",
    fixed={
        "architecture": "encoder_decoder",
        "norm": "rms",
        "position": "buckets",
        "scale": "none",
        "attention_bias": False,
        "bias": False,
        "init": "t5",
    },
    fields={
        "vocab_size": "vocab_size",
        "max_length": "n_positions",
        "d_model": "d_model",
        "d_head": "d_kv",
        "d_ff": "d_ff",
        "n_heads": "num_heads",
        "n_buckets": "relative_attention_num_buckets",
        "max_distance": "relative_attention_max_distance",
        "epsilon": "layer_norm_epsilon",
        "dropout": "dropout_rate",
    },
    aliases={"T5WithLMHeadModel": "T5ForConditionalGeneration"},
    computed=(
        Computed(read_depth, write_depth),
        Computed(read_feedforward, write_feedforward),
        Computed(read_head, write_head),
    ),
    defaults={
        "n_positions": 512,
        "relative_attention_max_distance": 128,
        "layer_norm_epsilon": 1e-6,
    },
    tensors=f"embed.element  shared\n{side('encoder', 1)}\n{side('decoder', 2)}",
    heads={
        "T5ForConditionalGeneration": Head(
            "text-to-text", "pairs", {"head": "lm"}, "head  lm_head"
        ),
    },
    tied={
        "encoder.embed_tokens.weight": "shared.weight",
        "decoder.embed_tokens.weight": "shared.weight",
        "lm_head.weight": "shared.weight",
    },
    unused=r"decoder\.block\.0\.layer\.1\.EncDecAttention\.relative_attention_bias\.weight",
)
