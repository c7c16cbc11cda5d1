"""Which published class a model fits, and what is told where it fits none."""

import pytest
import torch
from torch.testing import assert_close

import tiny
from glassformer.core.errors import ConfigError
from glassformer.families.fit import nearest
from glassformer.interop.targets.transformers import fitting, save_model
from glassformer.models import Transformer, presets

transformers = pytest.importorskip("transformers", reason="the oracle of these tests")
TASKS = {"text": "text-generation", "pairs": "text-to-text", "vectors": "feature-extraction"}


@pytest.mark.parametrize(
    ("name", "size", "task", "expected"),
    [
        ("gpt2", "small", "text", "GPT2LMHeadModel"),
        ("qwen3", "small", "text", "Qwen3ForCausalLM"),
        ("bert", "base", "vectors", "BertModel"),
        ("t5", "small", "pairs", "T5ForConditionalGeneration"),
    ],
)
def test_a_preset_is_exported_as_its_class(name, size, task, expected):
    config = presets.preset(name, size, **({"vocab_size": 99} if name == "qwen3" else {}))
    assert fitting(config, TASKS[task]).name == expected


def test_the_nearest_class_is_told_with_what_keeps_the_model_from_it():
    fit = nearest(presets.modern("small", vocab_size=99), "text-generation")
    assert fit.name == "Qwen3ForCausalLM"
    assert [one.partition("=")[0] for one in fit.differences] == ["activation", "gated"]
    with pytest.raises(ConfigError, match=r"The nearest, Qwen3ForCausalLM, differs in activation="):
        fitting(presets.modern("small", vocab_size=99), "text-generation")
    with pytest.raises(ConfigError, match="transformers has no models for task='text-to-image'"):
        fitting(tiny.config(), "text-to-image")


@pytest.mark.parametrize(
    "changes",
    [
        {"window": 3, "position": "learned"},
        {"n_kv_heads": 2, "position": "learned"},
        {"embedding_norm": True},
        {"residual": False},
        {"first_position": 1, "position": "sinusoidal"},
        {"tied": True, "head_scale": True},
        {"scale": "model"},
        {"rotary_factor": 2.0, "position": "rotary"},  # of a LayerNorm model
        {"position_combination": "concatenate", "tied": False},
    ],
    ids=str,
)
def test_no_field_that_changes_numbers_is_lost(changes):
    """Each is another model than GPT-2, which fits without it, and than all others."""
    assert fitting(tiny.config(), "text-generation").name == "GPT2LMHeadModel"
    assert nearest(tiny.config(**changes), "text-generation").differences


def test_biases_that_a_class_has_and_the_model_lacks_are_zero(tmp_path, no_grad):
    model = tiny.stir(Transformer(tiny.config(bias=False, attention_bias=False))).eval()
    save_model(fitting(model.config, "text-generation"), model, tmp_path)
    theirs = transformers.GPT2LMHeadModel.from_pretrained(tmp_path).eval()
    ids = tiny.tokens(2, 7)
    # float32, sums of a dozen terms of about 1
    assert_close(model(ids).logits, theirs(ids).logits, rtol=0, atol=1e-5)
    assert not theirs.transformer.h[0].attn.c_attn.bias.any()
    assert torch.equal(theirs.transformer.wte.weight, model.embed.element.weight)
