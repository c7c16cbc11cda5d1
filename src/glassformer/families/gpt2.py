"""GPT-2 (Radford et al. 2019); its maps are stored transposed, q, k and v in one. The state
dictionaries of nanoGPT and minGPT (Karpathy 2020, 2022) are GPT-2 with ordinary linear maps.

The latter have no `config.json`; `docs/published-models.md` shows how one is written beside them.
"""

from dataclasses import replace

from glassformer.families.family import TAGS, TEXT, VECTORS, Family

GPT2 = Family(
    model_type="gpt2",
    prefix="transformer",
    fixed={"architecture": "decoder", "position": "learned", "init": "gpt2"},
    fields="""
    vocab_size         vocab_size
    max_length         n_positions
    d_model            n_embd
    n_layers           n_layer
    n_heads            n_head
    d_ff               n_inner
    epsilon            layer_norm_epsilon
    activation         activation_function
    dropout            resid_pdrop
    attention_dropout  attn_pdrop
    tied               tie_word_embeddings
    """,
    defaults={"activation_function": "gelu_new", "tie_word_embeddings": True},
    only={
        "scale_attn_weights": (True,),
        "scale_attn_by_inverse_layer_idx": (False,),
        "add_cross_attention": (False,),
    },
    tensors="""
    embed.element                           wte
    embed.position                          wpe
    decoder.blocks.#.attention_norm         h.#.ln_1
    decoder.blocks.#.attention.q_proj       h.#.attn.c_attn     transposed 0/3
    decoder.blocks.#.attention.k_proj       h.#.attn.c_attn     transposed 1/3
    decoder.blocks.#.attention.v_proj       h.#.attn.c_attn     transposed 2/3
    decoder.blocks.#.attention.out_proj     h.#.attn.c_proj     transposed
    decoder.blocks.#.feedforward_norm       h.#.ln_2
    decoder.blocks.#.feedforward.up_proj    h.#.mlp.c_fc        transposed
    decoder.blocks.#.feedforward.down_proj  h.#.mlp.c_proj      transposed
    decoder.norm                            ln_f
    """,
    heads={
        "GPT2LMHeadModel": TEXT,
        "GPT2Model": VECTORS,
        "GPT2ForTokenClassification": TAGS,
    },
    tied={"lm_head.weight": "wte.weight"},
    unused=r"h\.\d+\.attn\.(masked_)?bias",  # the causal mask
)
SIZES = """
    vocab_size  vocab_size
    max_length  block_size
    d_model     n_embd
    n_layers    n_layer
    n_heads     n_head
    activation  activation_function
"""
NANOGPT = replace(
    GPT2,
    model_type="nanogpt",
    library="nanoGPT",
    fixed={**GPT2.fixed, "tied": True},
    fields=f"""{SIZES}
    attention_bias  bias
    bias            bias
    dropout         dropout
    """,
    defaults={"bias": True, "activation_function": "gelu"},
    only={},
    tensors=GPT2.tensors.replace("transposed", ""),
    heads={"GPT": TEXT},
)
MINGPT = replace(
    NANOGPT,
    model_type="mingpt",
    library="minGPT",
    fixed={**GPT2.fixed, "tied": False},
    fields=f"""{SIZES}
    dropout            resid_pdrop
    attention_dropout  attn_pdrop
    """,
    defaults={"activation_function": "gelu_new"},
    tied={},
)
