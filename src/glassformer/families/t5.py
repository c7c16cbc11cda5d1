"""T5 (Raffel et al. 2020), also 1.1 and mT5's form with gated feed-forward networks."""

from glassformer.core.files import Values
from glassformer.families.bart import BART
from glassformer.families.family import ACTIVATIONS, Computed, Family, Head, depths
from glassformer.models.config import ModelConfig


def read_feedforward(keys: Values) -> Values:
    """`relu`, or `gated-gelu`, in which GELU is that by tanh."""
    name = str(keys.get("feed_forward_proj", "relu"))
    own = name.removeprefix("gated-")
    activation = "gelu_tanh" if name == "gated-gelu" else ACTIVATIONS[own]
    return {"gated": own != name, "activation": activation}


def write_feedforward(model: ModelConfig) -> Values:
    """The name of the network."""
    names = {ours: theirs for theirs, ours in reversed(ACTIVATIONS.items())}
    if model.gated and model.activation == "gelu_tanh":
        return {"feed_forward_proj": "gated-gelu"}
    if model.activation not in names:
        raise ValueError(f"activation={model.activation!r} (not {' or '.join(names)})")
    return {"feed_forward_proj": "gated-" * model.gated + names[model.activation]}


def read_head(keys: Values) -> Values:
    """A tied head reads the stream scaled; transformers 5 has a key of its own for that."""
    tied = keys.get("tie_word_embeddings") is not False
    return {"tied": tied, "head_scale": bool(keys.get("scale_decoder_outputs", tied))}


HEAD = Computed(
    read_head,
    lambda model: {"tie_word_embeddings": model.tied, "scale_decoder_outputs": model.head_scale},
)
BLOCK = """
    encoder.bias  encoder.block.0.layer.0.SelfAttention.relative_attention_bias
    encoder.blocks.#.attention_norm         encoder.block.#.layer.0.layer_norm
    encoder.blocks.#.attention.q_proj       encoder.block.#.layer.0.SelfAttention.q
    encoder.blocks.#.attention.k_proj       encoder.block.#.layer.0.SelfAttention.k
    encoder.blocks.#.attention.v_proj       encoder.block.#.layer.0.SelfAttention.v
    encoder.blocks.#.attention.out_proj     encoder.block.#.layer.0.SelfAttention.o
    encoder.blocks.#.feedforward_norm       encoder.block.#.layer.1.layer_norm
    encoder.blocks.#.feedforward.up_proj    encoder.block.#.layer.1.DenseReluDense.wi    gated=false
    encoder.blocks.#.feedforward.gate_proj  encoder.block.#.layer.1.DenseReluDense.wi_0
    encoder.blocks.#.feedforward.up_proj    encoder.block.#.layer.1.DenseReluDense.wi_1  gated=true
    encoder.blocks.#.feedforward.down_proj  encoder.block.#.layer.1.DenseReluDense.wo
    encoder.norm                            encoder.final_layer_norm
"""
DECODER = BLOCK.replace("encoder", "decoder").replace("layer.1", "layer.2")
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
    fields="""
    vocab_size    vocab_size
    max_length    n_positions
    d_model       d_model
    d_head        d_kv
    d_ff          d_ff
    n_heads       num_heads
    n_buckets     relative_attention_num_buckets
    max_distance  relative_attention_max_distance
    epsilon       layer_norm_epsilon
    dropout       dropout_rate
    """,
    aliases={"T5WithLMHeadModel": "T5ForConditionalGeneration"},
    computed=(
        depths("num_layers", "num_decoder_layers"),
        Computed(read_feedforward, write_feedforward),
        HEAD,
    ),
    defaults={
        "num_decoder_layers": None,
        "n_positions": 512,
        "relative_attention_max_distance": 128,
        "layer_norm_epsilon": 1e-6,
    },
    tensors=f"""{BLOCK} {DECODER}
    decoder.blocks.#.cross_norm      decoder.block.#.layer.1.layer_norm
    decoder.blocks.#.cross.q_proj    decoder.block.#.layer.1.EncDecAttention.q
    decoder.blocks.#.cross.k_proj    decoder.block.#.layer.1.EncDecAttention.k
    decoder.blocks.#.cross.v_proj    decoder.block.#.layer.1.EncDecAttention.v
    decoder.blocks.#.cross.out_proj  decoder.block.#.layer.1.EncDecAttention.o
    embed.element                    shared
    """,
    heads={
        "T5ForConditionalGeneration": Head(
            "text-to-text", "pairs", {"head": "lm"}, "head  lm_head"
        ),
    },
    tied=BART.tied,
    unused=r"decoder\.block\.0\.layer\.1\.EncDecAttention\.relative_attention_bias\.weight",
)
