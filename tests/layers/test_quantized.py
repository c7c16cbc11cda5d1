"""A frozen matrix of 8-bit integers: close to the weight, and exactly the same wherever it is used."""

import hypothesis.extra.numpy as arrays
import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch.nn import functional as F

import variants
from glassformer import finetune
from glassformer.core.batch import IGNORE
from glassformer.finetune.adapters import adapt
from glassformer.finetune.config import FinetuneConfig
from glassformer.layers.linear.linear import Linear
from glassformer.layers.linear.quantized import dequantized, quantized, quantized_linear
from glassformer.layers.lora import plain_parameters
from small_adapters import logits, stir

NUMBERS = st.floats(-1e3, 1e3, width=32, allow_subnormal=False)
MATRICES = arrays.arrays(
    np.float32, st.tuples(st.integers(1, 5), st.integers(1, 7)), elements=NUMBERS
)


@given(MATRICES)
def test_each_number_is_at_most_half_a_step_away(rows):
    weight = torch.from_numpy(rows)
    levels, scale = quantized(weight)
    assert levels.dtype is torch.int8
    assert int(levels.min()) >= -127
    # one rounding of w / s and one of s q, each of 1 part in 2^24 of up to 127 s
    assert ((dequantized(levels, scale) - weight).abs() <= scale * (0.5 + 127 * 2**-22)).all()
    again, _ = quantized(dequantized(levels, scale))
    assert torch.equal(again, levels)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16])
def test_values_and_gradients_are_those_of_the_float_matrix(dtype):
    """And the backward pass keeps no float matrix."""
    random = torch.Generator().manual_seed(0)
    weight, bias, x = (torch.randn(s, generator=random) for s in [(6, 5), (6,), (2, 3, 5)])
    levels, scale = (
        part if part.dtype is torch.int8 else part.to(dtype) for part in quantized(weight)
    )
    ours, theirs = (x.clone().to(dtype).requires_grad_() for _ in range(2))
    kept = []
    with torch.autograd.graph.saved_tensors_hooks(lambda t: kept.append(t) or t, lambda t: t):
        y = quantized_linear(ours, levels, scale, bias.to(dtype))
    assert [one.dtype for one in kept if one.shape == (6, 5)] == [torch.int8]
    expected = F.linear(theirs, dequantized(levels, scale), bias.to(dtype))
    assert torch.equal(y, expected)
    y.square().sum().backward()
    expected.square().sum().backward()
    assert torch.equal(ours.grad, theirs.grad)


def test_under_autocast_it_computes_in_bfloat16():
    levels, scale = quantized(torch.eye(4))
    x = torch.ones(2, 4, requires_grad=True)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        y = quantized_linear(x, levels, scale, None)
    assert y.dtype is torch.bfloat16
    y.sum().backward()
    assert x.grad is not None
    assert x.grad.dtype is torch.float32


@pytest.mark.parametrize("variant", ["causal learned", "both buckets", "root mean square, gated"])
def test_a_model_of_integers_is_the_model_of_what_they_stand_for(variant):
    """With adapters, which alone learn; folded, it has the plain weights again."""
    config = FinetuneConfig.parse(
        {"method": "lora", "quantize": "int8", "targets": ["q_proj", "up_proj"]}
        | {"train_also": ["*.out_proj"]}
    )
    model, batch = variants.made(variant, torch.float64)
    names = [name for name, _ in model.named_parameters()]
    before = sum(p.nbytes for p in model.parameters())
    adapt(model, config, seed=0)
    stir(model)
    maps = {n: m for n, m in model.named_modules() if isinstance(m, Linear) and ".blocks." in n}
    assert {n.rpartition(".")[2] for n, m in maps.items() if m.levels is None} == {"out_proj"}
    held = sum(p.nbytes for p in model.parameters() if p.requires_grad is False)
    held += sum(m.levels.nbytes for m in maps.values() if m.levels is not None)
    assert held < before
    found = logits(model, batch)
    loss = F.cross_entropy(
        model(batch).logits.flatten(0, -2), batch.elements.flatten(), ignore_index=IGNORE
    )
    loss.backward()
    assert all((p.grad is not None) == p.requires_grad for p in model.parameters())
    named = {name: one.clone() for name, one in plain_parameters(model)}
    assert sorted(named) == sorted(names)
    finetune.fold(model)
    assert [name for name, _ in model.named_parameters()] == names
    assert all(torch.equal(p, named[name]) for name, p in model.named_parameters())
    # float64 has 16 digits; the product is added before or after the sum
    torch.testing.assert_close(logits(model, batch), found, rtol=1e-11, atol=1e-11)
