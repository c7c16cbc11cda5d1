"""GPT-2 (Radford et al. 2019); its maps are stored transposed, q, k and v in one."""

from glassformer.families.family import Family, Head, Named

GPT2 = Family(
    model_type="gpt2",
    prefix="transformer",
    fixed={"architecture": "decoder", "position": "learned", "init": "gpt2"},
    fields={
        "vocab_size": "vocab_size",
        "max_length": "n_positions",
        "d_model": "n_embd",
        "n_layers": "n_layer",
        "n_heads": "n_head",
        "d_ff": "n_inner",
        "epsilon": "layer_norm_epsilon",
        "activation": Named("activation_function"),
        "dropout": "resid_pdrop",
        "attention_dropout": "attn_pdrop",
        "tied": "tie_word_embeddings",
    },
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
        "GPT2LMHeadModel": Head("text-generation", "documents", {"head": "lm"}, "head  lm_head"),
        "GPT2Model": Head("feature-extraction", "text", {"head": "none", "pool": "last"}),
        "GPT2ForTokenClassification": Head(
            "token-classification",
            "words",
            {"head": "tag"},
            "head.proj  classifier",
            processor={"tag_piece": "first"},
        ),
    },
    tied={"lm_head.weight": "wte.weight"},
    unused=r"h\.\d+\.attn\.(masked_)?bias",  # the causal mask
)
