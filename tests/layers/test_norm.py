"""Norms against their formulas."""

import pytest
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


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_rms_norm_under_autocast_has_exact_scales_and_gradients(dtype):
    """Autocast would compute the scale in bfloat16, and mix dtypes in the gradient."""
    x = torch.randn(3, 5, 16).to(dtype)
    weight = torch.linspace(0.5, 2, 16)
    found = []
    for autocast in (False, True):
        norm, given = RMSNorm(16), x.clone().requires_grad_()
        norm.weight.data.copy_(weight)
        with torch.autocast("cpu", torch.bfloat16, enabled=autocast):
            out = norm(given)
        out.float().square().sum().backward()
        found.append((out, given.grad, norm.weight.grad))
    for plain, under in zip(*found, strict=True):
        assert plain.dtype == under.dtype
        assert torch.equal(plain, under)


def test_a_frozen_rms_norm_passes_the_same_gradient_on_and_has_none():
    found = []
    for trained in (True, False):
        norm, x = RMSNorm(6), torch.linspace(-1, 2, 12).view(2, 6).requires_grad_()
        norm.weight.data.copy_(torch.linspace(0.5, 2, 6))
        norm.requires_grad_(trained)(x).square().sum().backward()
        assert (norm.weight.grad is not None) == trained
        found.append(x.grad)
    assert torch.equal(*found)
