"""Llama (Touvron et al. 2023) and those of its form: Mistral, Qwen 2 and 3, Gemma."""

import math
from dataclasses import replace

from glassformer.core.files import Values
from glassformer.families.family import TAGS, TEXT, VECTORS, Computed, Family, Head
from glassformer.models.config import ModelConfig


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


ROTARY = Computed(read_rotary, write_rotary)


def read_biases(keys: Values) -> Values:
    """Of Llama, `attention_bias` is also that of the output map; biases that are not there are
    0."""
    attention = bool(keys.get("attention_bias"))
    return {"attention_bias": attention, "bias": attention or bool(keys.get("mlp_bias"))}


BIASES = Computed(
    read_biases,
    lambda model: {"attention_bias": model.attention_bias or model.bias, "mlp_bias": model.bias},
)
TENSORS = """
    embed.element                           embed_tokens
    decoder.blocks.#.attention_norm         layers.#.input_layernorm
    decoder.blocks.#.attention.q_proj       layers.#.self_attn.q_proj       zero
    decoder.blocks.#.attention.k_proj       layers.#.self_attn.k_proj       zero
    decoder.blocks.#.attention.v_proj       layers.#.self_attn.v_proj       zero
    decoder.blocks.#.attention.q_norm       layers.#.self_attn.q_norm
    decoder.blocks.#.attention.k_norm       layers.#.self_attn.k_norm
    decoder.blocks.#.attention.out_proj     layers.#.self_attn.o_proj       zero
    decoder.blocks.#.feedforward_norm       layers.#.post_attention_layernorm
    decoder.blocks.#.feedforward.gate_proj  layers.#.mlp.gate_proj          zero
    decoder.blocks.#.feedforward.up_proj    layers.#.mlp.up_proj            zero
    decoder.blocks.#.feedforward.down_proj  layers.#.mlp.down_proj          zero
    decoder.norm                            norm
"""


def heads(name: str) -> dict[str, Head]:
    """The classes of one of these families."""
    return {
        f"{name}ForCausalLM": TEXT,
        f"{name}Model": VECTORS,
        f"{name}ForSequenceClassification": Head(
            "text-classification",
            "text",
            {"head": "classify", "pool": "last"},
            "head.proj  score  zero",
        ),
        f"{name}ForTokenClassification": replace(TAGS, tensors="head.proj  score"),
    }


LLAMA = Family(
    model_type="llama",
    prefix="model",
    fixed={
        "architecture": "decoder",
        "position": "rotary",
        "norm": "rms",
        "gated": True,
        "init": "gpt2",
    },
    fields="""
    vocab_size         vocab_size
    max_length         max_position_embeddings
    d_model            hidden_size
    n_layers           num_hidden_layers
    n_heads            num_attention_heads
    n_kv_heads         num_key_value_heads
    d_head             head_dim
    d_ff               intermediate_size
    activation         hidden_act
    epsilon            rms_norm_eps
    attention_dropout  attention_dropout
    tied               tie_word_embeddings
    """,
    computed=(ROTARY, BIASES),
    defaults={"hidden_act": "silu", "rms_norm_eps": 1e-6, "tie_word_embeddings": False},
    tensors=TENSORS,
    heads=heads("Llama"),
    tied={"lm_head.weight": "embed_tokens.weight"},
    unused=r"layers\.\d+\.self_attn\.rotary_emb\.inv_freq",
)
MISTRAL = replace(
    LLAMA,
    model_type="mistral",
    fixed={**LLAMA.fixed, "attention_bias": False, "bias": False},
    fields=f"{LLAMA.fields} window  sliding_window",
    computed=(ROTARY,),
    defaults={**LLAMA.defaults, "sliding_window": 4096},
    heads=heads("Mistral"),
)
QWEN2 = replace(
    LLAMA,
    model_type="qwen2",
    fixed={**LLAMA.fixed, "attention_bias": True, "bias": False},
    computed=(ROTARY,),
    only={"use_sliding_window": (False,)},
    heads=heads("Qwen2"),
)
QWEN3 = replace(
    LLAMA,
    model_type="qwen3",
    fixed={**LLAMA.fixed, "qk_norm": True},
    only={"use_sliding_window": (False,)},
    heads=heads("Qwen3"),
)
GEMMA = replace(
    LLAMA,
    model_type="gemma",
    fixed={**LLAMA.fixed, "embedding_scale": True},
    # a first name of the same function, see GemmaConfig
    names={"activation": {"gelu_pytorch_tanh": "gelu_tanh", "gelu": "gelu_tanh"}},
    defaults={**LLAMA.defaults, "hidden_act": "gelu_pytorch_tanh", "tie_word_embeddings": True},
    only={
        "use_bidirectional_attention": (False, None),
        "hidden_activation": (None, "gelu_pytorch_tanh"),
    },
    tensors="\n".join(
        line + (" plus:1" if line.endswith("norm") else "") for line in TENSORS.splitlines()
    ),
    heads=heads("Gemma"),
)
