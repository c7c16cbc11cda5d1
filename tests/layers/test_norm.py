"""Norms against their formulas."""

import torch
from torch.testing import assert_close

from glassformer.layers.norm import LayerNorm, RMSNorm, build_norm, layer_norm, rms_norm
from tiny import EXACT


def test_layer_norm_is_its_formula_with_epsilon_0():
    x, weight, bias = (
        torch.randn(2, 3, 8, dtype=torch.float64),
        *torch.randn(2, 8, dtype=torch.float64),
    )
    mean = x.mean(-1, keepdim=True)
    sigma = (
        (x - mean).square().mean(-1, keepdim=True).sqrt()
    )  # of the population: divided by D, not D - 1
    assert_close(layer_norm(x, weight, bias, 0.0), weight * (x - mean) / sigma + bias, **EXACT)
    plain = layer_norm(x, torch.ones(8, dtype=torch.float64), None, 0.0)
    assert_close(plain.mean(-1), torch.zeros(2, 3, dtype=torch.float64), **EXACT)
    assert_close(plain.var(-1, correction=0), torch.ones(2, 3, dtype=torch.float64), **EXACT)
    assert (
        layer_norm(torch.ones(1, 4), torch.ones(4), None, 0.0).isnan().all()
    )  # σ = 0: undefined, as documented


def test_epsilon_stands_under_the_root():
    x = torch.randn(5, 8, dtype=torch.float64) * 0.01
    one = torch.ones(8, dtype=torch.float64)
    centred = x - x.mean(-1, keepdim=True)
    expected = centred / (centred.square().mean(-1, keepdim=True) + 0.3).sqrt()
    assert_close(layer_norm(x, one, None, 0.3), expected, **EXACT)
    assert_close(
        rms_norm(x, one, 0.3), x / (x.square().mean(-1, keepdim=True) + 0.3).sqrt(), **EXACT
    )


def test_modules_use_what_they_are_given():
    x = torch.randn(2, 4)
    assert_close(LayerNorm(4, epsilon=0.5)(x), layer_norm(x, torch.ones(4), torch.zeros(4), 0.5))
    assert_close(RMSNorm(4, epsilon=0.5)(x), rms_norm(x, torch.ones(4), 0.5))
    assert build_norm("layer", 4, bias=False, epsilon=0.0).bias is None
    assert isinstance(build_norm("rms", 4, bias=True, epsilon=0.0), RMSNorm)
