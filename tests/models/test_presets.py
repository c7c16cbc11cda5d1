"""Presets: published sizes to the parameter, and every one of them runs and learns."""

import pytest
import torch

from glassformer.core.batch import Batch
from glassformer.core.errors import ConfigError
from glassformer.models import Transformer, presets
from learning import learn

PUBLISHED = {
    ("gpt2", "small"): 124_439_808,
    ("gpt2", "medium"): 354_823_168,
    ("gpt2", "large"): 774_030_080,
    ("gpt2", "xl"): 1_557_611_200,
    ("bert", "base"): 109_482_240,
    ("bert", "large"): 335_141_888,
    ("t5", "small"): 60_506_624,
    ("t5", "base"): 222_903_552,
    ("llama", "7b"): 6_738_415_616,
    ("llama", "13b"): 13_015_864_320,
    ("vit", "B/16"): 86_567_656,
    ("vit", "tiny"): 5_717_416,  # DeiT-Ti, Touvron et al. 2021
}


@pytest.mark.parametrize(("name", "size"), PUBLISHED)
def test_published_sizes(name, size):
    model = Transformer(presets.preset(name, size), device="meta")
    assert model.n_parameters == PUBLISHED[name, size]
    assert all(parameter.is_meta for parameter in model.parameters())


def test_the_2017_base_model_has_about_65_million():
    model = Transformer(presets.original_2017("base"), device="meta")
    assert model.n_parameters == pytest.approx(
        65e6, rel=0.05
    )  # table 3 gives it to two digits, for 37,000 words


SMALL = {"vocab_size": 17, "max_length": 8, "d_model": 24, "n_heads": 3, "n_layers": 2}
VARIANTS = [
    *((name, None) for name in presets.TABLE),
    *(("original-2017", size) for size in presets.TABLE["original-2017"]["sizes"]),
    *(("modern", size) for size in presets.TABLE["modern"]["sizes"]),
    *(("note", note) for note in presets.TABLE["note"]["sizes"]),
]


@pytest.mark.parametrize(("name", "size"), VARIANTS)
def test_every_preset_runs_and_learns(name, size):
    """At a small size: the shape of each is the preset's, its width is not."""
    small = SMALL if name != "vit" else SMALL | {"patch_width": 12, "n_classes": 5}
    config = presets.preset(name, size, **small)
    for parameter, gradient in learn(config).items():
        if not parameter.endswith("k_proj.bias"):  # softmax does not see it
            assert gradient.abs().sum() > 0, parameter


@pytest.mark.parametrize(
    ("name", "size"), [("note", note) for note in presets.TABLE["note"]["sizes"]]
)
def test_the_notes_run_at_their_own_size(name, size):
    config = presets.preset(name, size)
    model = Transformer(config)
    ids = torch.arange(10)[None]
    source = Batch(ids) if config.architecture == "encoder_decoder" else None
    logits = model(Batch(ids, source=source)).logits
    assert logits.shape == (1, 10, 256)
    assert logits.isfinite().all()
    assert config.epsilon == 0


def test_note_c_is_as_printed():
    """q_i = W_Q x_i, exp(q · k / √d) with d the embedding dimension, γ (x - μ) / σ + β."""
    model = Transformer(presets.note("C"))
    attention = model.decoder.blocks[0].attention
    assert attention.q_proj.bias is attention.k_proj.bias is attention.v_proj.bias is None
    assert attention.scale == model.config.d_model**-0.5
    assert model.decoder.blocks[0].attention_norm.bias is not None


def test_presets_can_be_changed():
    assert presets.gpt2("small", max_length=512).max_length == 512
    assert presets.note("D").d_ff == presets.note("D").d_model
    assert presets.note("D", d_ff=7).d_ff == 7


@pytest.mark.parametrize(
    ("call", "sentence"),
    [
        (lambda: presets.preset("gtp2"), r"no model\.preset 'gtp2'; did you mean 'gpt2'"),
        (
            lambda: presets.gpt2("huge"),
            "gpt2 has no size 'huge'; known are small, medium, large, xl",
        ),
        (lambda: presets.note("F"), "no note 'F'; known are A, B, C, D, E"),
        (lambda: presets.gpt2("small", lenght=3), r"Unknown key model\.lenght"),
        (lambda: presets.gpt2("small", n_heads=7), "n_heads=7 does not divide d_model=768"),
    ],
)
def test_misspelt_presets(call, sentence):
    with pytest.raises(ConfigError, match=sentence):
        call()
