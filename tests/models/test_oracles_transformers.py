"""Against the published implementations, tiny and with random weights copied over: the same logits.

One file, so that one worker pays for importing transformers.
"""

import pytest
import torch
from torch.testing import assert_close

import tiny
from glassformer.core.batch import Batch, Positions
from glassformer.models import ModelConfig, Transformer

transformers = pytest.importorskip("transformers", reason="the oracle of this file")
pytestmark = pytest.mark.usefixtures("no_grad")

# float64 on both sides; transformers computes a few things (rotary angles, norms) in float32
# whatever the model
EXACT = {"rtol": 1e-9, "atol": 1e-9}
FLOAT32 = {"rtol": 2e-5, "atol": 2e-5}
EAGER = {"attn_implementation": "eager"}


def ready(oracle):
    return tiny.stir(oracle.double()).eval()


def ours(oracle, config: ModelConfig, names: dict[str, str], linear: bool = True) -> Transformer:
    """Our model with the oracle's weights: `names` maps ours to theirs, `{}` standing for the
    number of a block.

    Every parameter of ours is filled, every one of theirs is used.
    """
    model, theirs = Transformer(config).double().eval(), dict(oracle.named_parameters())
    unused = set(theirs)
    for name, parameter in model.named_parameters():
        parts = name.split(".")
        at = next((part for part in parts if part.isdigit()), "")
        key = ".".join("{}" if part == at else part for part in parts)
        source = names[key]
        columns = None
        if isinstance(source, tuple):  # (name, which third of the columns)
            source, columns = source
        value = theirs[source.format(at)]
        if columns is not None:
            value = value.chunk(3, -1)[columns]
        if not linear and value.ndim == 2 and "proj" in name:
            value = value.T
        assert parameter.shape == value.shape, (name, parameter.shape, value.shape)
        parameter.data.copy_(value)
        unused.discard(source.format(at))
    assert not unused, unused
    return model


def both(ours_: str, theirs: str) -> dict[str, str]:
    return {f"{ours_}.{part}": f"{theirs}.{part}" for part in ("weight", "bias")}


def test_gpt2():
    oracle = ready(
        transformers.GPT2LMHeadModel(
            transformers.GPT2Config(
                vocab_size=13,
                n_positions=16,
                n_embd=8,
                n_layer=2,
                n_head=2,
                bos_token_id=0,
                eos_token_id=0,
                **EAGER,
            )
        )
    )
    h = "transformer.h.{}"
    names = {
        "embed.element.weight": "transformer.wte.weight",
        "embed.position.weight": "transformer.wpe.weight",
    }
    b = "decoder.blocks.{}"
    for i, which in enumerate("qkv"):
        for part in ("weight", "bias"):
            names[f"{b}.attention.{which}_proj.{part}"] = (f"{h}.attn.c_attn.{part}", i)
    names |= both(f"{b}.attention.out_proj", f"{h}.attn.c_proj")
    names |= both(f"{b}.feedforward.up_proj", f"{h}.mlp.c_fc") | both(
        f"{b}.feedforward.down_proj", f"{h}.mlp.c_proj"
    )
    names |= both(f"{b}.attention_norm", f"{h}.ln_1") | both(f"{b}.feedforward_norm", f"{h}.ln_2")
    names |= both("decoder.norm", "transformer.ln_f")
    config = tiny.config(n_heads=2, d_ff=None, max_length=16, activation="gelu_tanh")
    model = ours(oracle, config, names, linear=False)
    ids = tiny.tokens(2, 7)
    assert_close(model(ids).logits, oracle(ids).logits, **EXACT)
    positions = Positions.pad([7, 4], "left")
    position = positions.position
    expected = oracle(ids, attention_mask=positions.valid.long(), position_ids=position).logits
    assert_close(
        model(Batch(ids, positions)).logits[positions.valid], expected[positions.valid], **EXACT
    )
    single, theirs = model.float(), oracle.float()
    assert_close(single(ids).logits, theirs(ids).logits, **FLOAT32)


def bert_names(prefix=""):
    e, layer, b = f"{prefix}embeddings", prefix + "encoder.layer.{}", "encoder.blocks.{}"
    names = {
        "embed.element.weight": f"{e}.word_embeddings.weight",
        "embed.position.weight": f"{e}.position_embeddings.weight",
        "embed.kind.weight": f"{e}.token_type_embeddings.weight",
    } | both("embed.norm", f"{e}.LayerNorm")
    for which, name in {"q": "query", "k": "key", "v": "value"}.items():
        names |= both(f"{b}.attention.{which}_proj", f"{layer}.attention.self.{name}")
    names |= both(f"{b}.attention.out_proj", f"{layer}.attention.output.dense")
    names |= both(f"{b}.attention_norm", f"{layer}.attention.output.LayerNorm")
    names |= both(f"{b}.feedforward.up_proj", f"{layer}.intermediate.dense")
    names |= both(f"{b}.feedforward.down_proj", f"{layer}.output.dense")
    return names | both(f"{b}.feedforward_norm", f"{layer}.output.LayerNorm")


def bert_config():
    return transformers.BertConfig(
        vocab_size=13, hidden_size=8, num_hidden_layers=2, num_attention_heads=2,
        intermediate_size=12, max_position_embeddings=16, type_vocab_size=3, **EAGER,
    )  # fmt: skip


BERT = {
    "architecture": "encoder",
    "n_heads": 2,
    "max_length": 16,
    "norm_placement": "post",
    "epsilon": 1e-12,
    "embedding_norm": True,
    "n_token_types": 3,
}


def bert_inputs():
    positions = Positions.pad([6, 4])
    kinds = torch.tensor([[0, 0, 1, 1, 2, 2], [0, 1, 1, 2, 0, 0]])
    batch = Batch(tiny.tokens(2, 6), positions, token_type_ids=kinds)
    return batch, {
        "input_ids": batch.elements,
        "token_type_ids": kinds,
        "attention_mask": positions.valid.long(),
    }


def test_bert_with_pooler():
    oracle = ready(transformers.BertModel(bert_config()))
    names = bert_names() | both("head.dense", "pooler.dense")
    model = ours(oracle, tiny.config(head="pool", pool="first", pooler=True, **BERT), names)
    batch, inputs = bert_inputs()
    expected = oracle(**inputs)
    assert_close(model(batch).logits, expected.pooler_output, **EXACT)
    valid = batch.positions.valid
    assert_close(model.features(batch).hidden[valid], expected.last_hidden_state[valid], **EXACT)


def test_bert_for_masked_language_modelling():
    oracle = ready(transformers.BertForMaskedLM(bert_config()))
    names = bert_names("bert.") | both("head.dense", "cls.predictions.transform.dense")
    names |= both("head.norm", "cls.predictions.transform.LayerNorm")
    names["head.unembed.bias"] = "cls.predictions.bias"
    model = ours(oracle, tiny.config(head="masked_lm", **BERT), names)
    batch, inputs = bert_inputs()
    valid = batch.positions.valid
    assert_close(model(batch).logits[valid], oracle(**inputs).logits[valid], **EXACT)


def test_t5():
    oracle = ready(
        transformers.T5ForConditionalGeneration(
            transformers.T5Config(
                vocab_size=13, d_model=8, d_kv=3, d_ff=12, num_layers=2, num_heads=4,
                dropout_rate=0.0, relative_attention_num_buckets=8,
                relative_attention_max_distance=20, decoder_start_token_id=0, **EAGER,
            )
        )
    )  # fmt: skip
    names = {"embed.element.weight": "shared.weight"}
    for side in ("encoder", "decoder"):
        b, layer = side + ".blocks.{}", side + ".block.{}.layer"
        first = f"{side}.block.0.layer.0.SelfAttention.relative_attention_bias.weight"
        names |= {
            f"{side}.bias.weight": first,
            f"{side}.norm.weight": f"{side}.final_layer_norm.weight",
        }
        parts = [("attention", 0, "SelfAttention")] + (
            [("cross", 1, "EncDecAttention")] if side == "decoder" else []
        )
        for part, at, name in parts:
            names[f"{b}.{part}_norm.weight"] = f"{layer}.{at}.layer_norm.weight"
            for which in ("q", "k", "v"):
                names[f"{b}.{part}.{which}_proj.weight"] = f"{layer}.{at}.{name}.{which}.weight"
            names[f"{b}.{part}.out_proj.weight"] = f"{layer}.{at}.{name}.o.weight"
        last = f"{layer}.{len(parts)}"
        names[f"{b}.feedforward_norm.weight"] = f"{last}.layer_norm.weight"
        names[f"{b}.feedforward.up_proj.weight"] = f"{last}.DenseReluDense.wi.weight"
        names[f"{b}.feedforward.down_proj.weight"] = f"{last}.DenseReluDense.wo.weight"
    config = tiny.config(
        architecture="encoder_decoder", d_head=3, activation="relu", norm="rms", epsilon=1e-6,
        position="buckets", scale="none", attention_bias=False, bias=False, head_scale=True,
    )  # fmt: skip
    model = ours(oracle, config, names)
    source = Batch(tiny.tokens(2, 25, seed=1), Positions.pad([25, 9]))
    ids = tiny.tokens(2, 24)
    valid = source.positions.valid.long()
    expected = oracle(input_ids=source.elements, attention_mask=valid, decoder_input_ids=ids).logits
    # transformers takes the T5 norm's square mean in float32
    assert_close(model(Batch(ids, source=source)).logits, expected, **FLOAT32)


def test_vit():
    oracle = ready(
        transformers.ViTForImageClassification(
            transformers.ViTConfig(
                hidden_size=8, num_hidden_layers=2, num_attention_heads=2, intermediate_size=12,
                image_size=8, patch_size=4, num_labels=5, layer_norm_eps=1e-6, **EAGER,
            )
        )
    )  # fmt: skip
    theirs = dict(oracle.named_parameters())
    model = Transformer(
        tiny.config(
            architecture="encoder", elements="patches", patch_width=48, max_length=4, n_heads=2,
            epsilon=1e-6, head="classify", pool="first", n_classes=5,
        )
    ).double()  # fmt: skip
    state = {
        "embed.element.class_token": theirs["vit.embeddings.cls_token"],
        "embed.position.weight": theirs["vit.embeddings.position_embeddings"][0],
        # their kernel is (channel, row, column); our patch is (row, column, channel) flattened, as
        # in Note D
        "embed.element.proj.weight": theirs["vit.embeddings.patch_embeddings.projection.weight"]
        .permute(0, 2, 3, 1)
        .flatten(1),
        "embed.element.proj.bias": theirs["vit.embeddings.patch_embeddings.projection.bias"],
    }
    theirs = {
        name.replace("attention.attention.", "attention."): value for name, value in theirs.items()
    }
    find = lambda *tails: next(
        v for k, v in theirs.items() if any(k.endswith(tail) for tail in tails)
    )
    for part in ("weight", "bias"):
        state |= {
            f"head.proj.{part}": find(f"classifier.{part}"),
            f"encoder.norm.{part}": find(f"vit.layernorm.{part}"),
        }
        for i in range(2):

            def layer(*names, i=i, part=part):
                return find(
                    *(
                        f"{where}.{i}.{name}.{part}"
                        for name in names
                        for where in ("layer", "layers")
                    )
                )

            block = f"encoder.blocks.{i}"
            state |= {
                f"{block}.attention.q_proj.{part}": layer("attention.query", "attention.q_proj"),
                f"{block}.attention.k_proj.{part}": layer("attention.key", "attention.k_proj"),
                f"{block}.attention.v_proj.{part}": layer("attention.value", "attention.v_proj"),
                f"{block}.attention.out_proj.{part}": layer(
                    "attention.output.dense", "attention.o_proj"
                ),
                f"{block}.attention_norm.{part}": layer("layernorm_before"),
                f"{block}.feedforward_norm.{part}": layer("layernorm_after"),
                f"{block}.feedforward.up_proj.{part}": layer("intermediate.dense", "mlp.fc1"),
                f"{block}.feedforward.down_proj.{part}": layer("output.dense", "mlp.fc2"),
            }
    model.load_state_dict(state)
    assert model.n_parameters == sum(p.numel() for p in oracle.parameters())
    pictures = torch.randn(2, 3, 8, 8, dtype=torch.float64)
    patches = (
        pictures.unfold(2, 4, 4).unfold(3, 4, 4).permute(0, 2, 3, 4, 5, 1).flatten(3).flatten(1, 2)
    )
    # transformers takes this softmax in float32
    assert_close(model(Batch(patches)).logits, oracle(pictures).logits, **FLOAT32)


def test_llama():
    oracle = ready(
        transformers.LlamaForCausalLM(
            transformers.LlamaConfig(
                vocab_size=13, hidden_size=8, intermediate_size=12, num_hidden_layers=2,
                num_attention_heads=4, num_key_value_heads=2, max_position_embeddings=32,
                tie_word_embeddings=False, rms_norm_eps=1e-6, **EAGER,
            )
        )
    )  # fmt: skip
    b, layer = "decoder.blocks.{}", "model.layers.{}"
    names = {"embed.element.weight": "model.embed_tokens.weight", "head.weight": "lm_head.weight"}
    for which in ("q", "k", "v", "out"):
        their = "o" if which == "out" else which
        names[f"{b}.attention.{which}_proj.weight"] = f"{layer}.self_attn.{their}_proj.weight"
    for which in ("up", "gate", "down"):
        names[f"{b}.feedforward.{which}_proj.weight"] = f"{layer}.mlp.{which}_proj.weight"
    names |= {
        f"{b}.attention_norm.weight": f"{layer}.input_layernorm.weight",
        f"{b}.feedforward_norm.weight": f"{layer}.post_attention_layernorm.weight",
        "decoder.norm.weight": "model.norm.weight",
    }
    config = tiny.config(
        n_kv_heads=2, activation="silu", gated=True, norm="rms", epsilon=1e-6, position="rotary",
        attention_bias=False, bias=False, tied=False,
    )  # fmt: skip
    model = ours(oracle, config, names)
    ids, positions = tiny.tokens(2, 9), Positions.pad([9, 5], "left")
    # transformers takes rotary angles and the square mean of RMSNorm in float32
    assert_close(model(ids).logits, oracle(ids).logits, **FLOAT32)
    # a row of padding is NaN over there in float64: its softmax's float32 cannot hold the smallest
    # float64
    model, oracle = model.float(), oracle.float()
    expected = oracle(
        ids, attention_mask=positions.valid.long(), position_ids=positions.position
    ).logits
    got = model(Batch(ids, positions)).logits
    assert got.isfinite().all()
    assert_close(got[positions.valid], expected[positions.valid], **FLOAT32)
