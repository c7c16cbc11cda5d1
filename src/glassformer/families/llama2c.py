"""Files of llama2.c (Karpathy 2023): a Llama whose rotary angles turn neighbouring numbers."""

from dataclasses import replace

from glassformer.families.family import Head
from glassformer.families.llama import LLAMA

LLAMA2C = replace(
    LLAMA,
    model_type="llama2.c",
    library="llama2.c",
    prefix="",
    fixed={
        **LLAMA.fixed,
        **{"activation": "silu", "attention_bias": False, "bias": False, "epsilon": 1e-5},
    },
    fields={
        "vocab_size": "vocab_size",
        "max_length": "max_seq_len",
        "d_model": "dim",
        "d_ff": "hidden_dim",
        "n_layers": "n_layers",
        "n_heads": "n_heads",
        "n_kv_heads": "n_kv_heads",
        "tied": "shared_classifier",
    },
    computed=(),
    defaults={},
    tensors="""
    embed.element                           tok_embeddings
    decoder.blocks.#.attention_norm         layers.#.attention_norm
    decoder.blocks.#.attention.q_proj       layers.#.attention.wq     pairs
    decoder.blocks.#.attention.k_proj       layers.#.attention.wk     pairs
    decoder.blocks.#.attention.v_proj       layers.#.attention.wv
    decoder.blocks.#.attention.out_proj     layers.#.attention.wo
    decoder.blocks.#.feedforward_norm       layers.#.ffn_norm
    decoder.blocks.#.feedforward.gate_proj  layers.#.feed_forward.w1
    decoder.blocks.#.feedforward.down_proj  layers.#.feed_forward.w2
    decoder.blocks.#.feedforward.up_proj    layers.#.feed_forward.w3
    decoder.norm                            norm
    """,
    heads={"Transformer": Head("text-generation", "documents", {"head": "lm"}, "head  output")},
    tied={},
    unused=r"freqs_(cos|sin)",
)
