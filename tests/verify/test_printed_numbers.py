"""Numbers that the notes and papers print: production gives them to the last digit printed.

Others are beside the layer that they are about: sizes in `tests/models/test_presets.py`, position
vectors in `tests/layers/test_position.py`, limits of τ in `tests/runtime/test_logits.py`.
"""

import numpy as np
import pytest
import torch
from torch.utils.flop_counter import FlopCounterMode

from glassformer.core.batch import Positions
from glassformer.layers.attention.attend import (
    attend_reference,
    attention_pattern,
    attention_scores,
)
from glassformer.layers.attention.context import AttentionContext
from glassformer.layers.attention.mask import Allowed, Causal, allowed
from glassformer.layers.attention.multi_head import Attention, score_scale
from glassformer.layers.position.vectors import sinusoidal
from glassformer.layers.tap import Tape, recording
from glassformer.media.image import ImageConfig, ImageReader
from glassformer.models import presets
from glassformer.models.config import ModelConfig


def test_note_d_queries_and_keys_of_the_scores_102_and_99():
    q = torch.tensor([[[[6.0, 3.0, 1.0]]]], dtype=torch.float64)
    k = torch.tensor([[[[15.0, 3.0, 3.0], [14.0, 4.0, 3.0]]]], dtype=torch.float64)
    products = attention_scores(q, k, Allowed(), None, 1.0)
    assert products.flatten().tolist() == [102, 99]
    scaled = attention_scores(q, k, Allowed(), None, score_scale("head", 3, 3))
    assert scaled.flatten().tolist() == pytest.approx([58.890, 57.158], abs=5e-4)
    assert attention_pattern(scaled).flatten().tolist() == pytest.approx([0.85, 0.15], abs=5e-3)


def test_note_d_patches_of_the_usual_image():
    fields = {"size": 224, "patch": 16, "channels": 3, "mean": (0.5,) * 3, "std": (0.5,) * 3}
    reader = ImageReader(ImageConfig.parse(fields))
    cut = reader.patches(reader.normalize(np.zeros((1, 224, 224, 3), np.uint8)))
    config = presets.vit("B/16")
    assert cut.shape[1:] == (196, 768) == (config.max_length, config.patch_width)


def test_note_e_table_of_the_tallest_building_in_nyc():
    place, printed = Positions.arange(5), torch.ones(5, 5).tril()
    assert torch.equal(Causal().table(place, place)[0], printed.bool())
    q, k = torch.randn(2, 1, 1, 5, 4, dtype=torch.float64)
    scores = attention_scores(q, k, allowed(Causal(), place, place), None, 0.5)
    pattern = attention_pattern(scores)[0, 0]
    assert torch.equal(pattern > 0, printed.bool())
    assert pattern.sum(-1).tolist() == pytest.approx([1] * 5)
    # Future scores of 0, or weights that are zeroed after softmax, do not do.
    leaked = attention_pattern(scores.where(scores.isfinite(), 0.0))[0, 0]
    assert leaked.triu(1).sum() > 0.1
    assert attention_pattern(attention_scores(q, k, Allowed(), None, 0.5)).tril().sum() < 4.9


def test_note_c_mask_inside_or_outside_the_division_is_the_same():
    q, k, v = torch.randn(3, 1, 1, 5, 4, dtype=torch.float64)
    place = Positions.arange(5)
    m = torch.zeros(5, 5, dtype=torch.float64).masked_fill(torch.ones(5, 5).triu(1) > 0, -torch.inf)
    inside = (((q @ k.mT + m) / 2).softmax(-1) @ v)[0]
    got = attend_reference(q, k, v, allowed(Causal(), place, place), None, 0.5)[0]
    torch.testing.assert_close(got, inside)


def test_frequencies_of_sinusoids_fall_with_the_dimension():
    p = sinusoidal(torch.tensor(1), 64, dtype=torch.float64)
    angle = torch.atan2(p[0::2], p[1::2])
    assert angle.tolist() == pytest.approx([10000 ** (-2 * k / 64) for k in range(32)])
    assert (angle.diff() < 0).all()


def test_note_e_h_heads_cost_as_much_as_one_of_full_width():
    x, place = torch.zeros(1, 12, 32), Positions.arange(12)
    context = AttentionContext(allowed(Causal(), place, place))
    for heads in (1, 2, 4, 8):
        module = Attention(32, heads, heads, 32 // heads)
        # The tape makes attention write its two products out: a fused kernel is not counted.
        with FlopCounterMode(display=False) as counter, recording(Tape(module, keep=("pattern",))):
            module(x, context)
        # Four projections 2·T·d·d and two products 2·T·T·d, for any number of heads.
        assert counter.get_total_flops() == 4 * 2 * 12 * 32 * 32 + 2 * 2 * 12 * 12 * 32
        assert sum(parameter.numel() for parameter in module.parameters()) == 4 * 32 * 32
    assert ModelConfig.parse({"d_model": 512, "n_heads": 8}).head_width == 64
