"""BART (Lewis et al. 2020) and Marian (Junczys-Dowmunt et al. 2018)."""

from collections.abc import Mapping
from typing import Any

from glassformer.families.family import Computed, Family, Head, Named, depths
from glassformer.models.config import ModelConfig


def read_depth(keys: Mapping[str, Any]) -> dict[str, Any]:
    """Blocks of both sides."""
    return depths(keys["encoder_layers"], keys["decoder_layers"])


def write_depth(model: ModelConfig) -> dict[str, Any]:
    """Both keys."""
    return {"encoder_layers": model.depth("encoder"), "decoder_layers": model.n_layers}


def side(name: str) -> str:
    """The lines of the encoder or decoder."""
    block, theirs = f"{name}.blocks.#", f"{name}.layers.#"
    parts = [("attention", "self_attn"), ("cross", "encoder_attn")][: 1 + (name == "decoder")]
    lines = [
        f"{block}.feedforward_norm  {theirs}.final_layer_norm",
        f"{block}.feedforward.up_proj  {theirs}.fc1",
        f"{block}.feedforward.down_proj  {theirs}.fc2",
    ]
    for ours, module in parts:
        lines.append(f"{block}.{ours}_norm  {theirs}.{module}_layer_norm")
        lines += [
            f"{block}.{ours}.{one}_proj  {theirs}.{module}.{one}_proj"
            for one in ("q", "k", "v", "out")
        ]
    return "\n".join(lines)


BLOCKS = f"embed.element  shared\n{side('encoder')}\n{side('decoder')}"
SAME = ("attention_heads", "ffn_dim")
"""What the encoder and the decoder of a model here have alike."""
DEPTH = Computed(read_depth, write_depth)
WRITES = Head(
    "text-to-text",
    "pairs",
    {"head": "lm", "head_bias": True},
    """
    head.weight  lm_head.weight     whole
    head.bias    final_logits_bias  whole row zero
    """,
)
BART = Family(
    model_type="bart",
    prefix="model",
    fixed={
        "architecture": "encoder_decoder",
        "position": "learned",
        "own_source_positions": True,
        "norm_placement": "post",
        "embedding_norm": True,
        "init": "bert",
    },
    fields={
        "vocab_size": "vocab_size",
        "max_length": "max_position_embeddings",
        "d_model": "d_model",
        "n_heads": "decoder_attention_heads",
        "d_ff": "decoder_ffn_dim",
        "activation": Named("activation_function"),
        "embedding_scale": "scale_embedding",
        "dropout": "dropout",
        "attention_dropout": "attention_dropout",
        "tied": "tie_word_embeddings",
    },
    defaults={
        "activation_function": "gelu",
        "scale_embedding": False,
        "tie_word_embeddings": True,
    },
    only={
        "normalize_before": (False,),
        "add_final_layer_norm": (False,),
        "normalize_embedding": (True,),
    },
    aliases={"BartModel": "BartForConditionalGeneration"},
    computed=(DEPTH,),
    alike=tuple((f"encoder_{name}", f"decoder_{name}") for name in SAME),
    tensors=f"""{BLOCKS}
    embed.position         decoder.embed_positions      from:2
    embed.norm             decoder.layernorm_embedding
    source_embed.position  encoder.embed_positions      from:2
    source_embed.norm      encoder.layernorm_embedding
    """,
    heads={"BartForConditionalGeneration": WRITES},
    tied={
        "encoder.embed_tokens.weight": "shared.weight",
        "decoder.embed_tokens.weight": "shared.weight",
        "lm_head.weight": "shared.weight",
    },
)
MARIAN = Family(
    model_type="marian",
    prefix="model",
    fixed={
        "architecture": "encoder_decoder",
        "position": "sinusoidal_halves",
        "norm_placement": "post",
        "init": "bert",
    },
    fields=BART.fields,
    defaults=BART.defaults,
    only={
        "normalize_before": (False,),
        "add_final_layer_norm": (False,),
        "normalize_embedding": (False,),
        "static_position_embeddings": (True,),
        "share_encoder_decoder_embeddings": (True,),
    },
    computed=(DEPTH,),
    alike=BART.alike,
    tensors=BLOCKS,
    heads={"MarianMTModel": WRITES},
    tied=BART.tied,
    unused=r"(en|de)coder\.embed_positions\.weight",  # computed
)
