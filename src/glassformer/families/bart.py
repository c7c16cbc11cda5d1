"""BART (Lewis et al. 2020) and Marian (Junczys-Dowmunt et al. 2018)."""

from dataclasses import replace

from glassformer.families.family import Family, Head, depths

BLOCK = """
    encoder.blocks.#.attention_norm         encoder.layers.#.self_attn_layer_norm
    encoder.blocks.#.attention.q_proj       encoder.layers.#.self_attn.q_proj
    encoder.blocks.#.attention.k_proj       encoder.layers.#.self_attn.k_proj
    encoder.blocks.#.attention.v_proj       encoder.layers.#.self_attn.v_proj
    encoder.blocks.#.attention.out_proj     encoder.layers.#.self_attn.out_proj
    encoder.blocks.#.feedforward_norm       encoder.layers.#.final_layer_norm
    encoder.blocks.#.feedforward.up_proj    encoder.layers.#.fc1
    encoder.blocks.#.feedforward.down_proj  encoder.layers.#.fc2
"""
BLOCKS = f"""{BLOCK} {BLOCK.replace("encoder", "decoder")}
    decoder.blocks.#.cross_norm      decoder.layers.#.encoder_attn_layer_norm
    decoder.blocks.#.cross.q_proj    decoder.layers.#.encoder_attn.q_proj
    decoder.blocks.#.cross.k_proj    decoder.layers.#.encoder_attn.k_proj
    decoder.blocks.#.cross.v_proj    decoder.layers.#.encoder_attn.v_proj
    decoder.blocks.#.cross.out_proj  decoder.layers.#.encoder_attn.out_proj
    embed.element                    shared
"""
SAME = ("attention_heads", "ffn_dim")
"""What the encoder and the decoder of a model here have alike."""
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
    fields="""
    vocab_size         vocab_size
    max_length         max_position_embeddings
    d_model            d_model
    n_heads            decoder_attention_heads
    d_ff               decoder_ffn_dim
    activation         activation_function
    embedding_scale    scale_embedding
    dropout            dropout
    attention_dropout  attention_dropout
    tied               tie_word_embeddings
    """,
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
    computed=(depths("encoder_layers", "decoder_layers"),),
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
MARIAN = replace(
    BART,
    model_type="marian",
    fixed={
        "architecture": "encoder_decoder",
        "position": "sinusoidal_halves",
        "norm_placement": "post",
        "init": "bert",
    },
    only={
        **BART.only,
        "normalize_embedding": (False,),
        "static_position_embeddings": (True,),
        "share_encoder_decoder_embeddings": (True,),
    },
    aliases={},
    tensors=BLOCKS,
    heads={"MarianMTModel": WRITES},
    unused=r"(en|de)coder\.embed_positions\.weight",  # computed
)
