"""Matrices of few bits: what they stand for by NumPy's rounding, and one row's bits in any
company."""

import copy

import numpy as np
import pytest
import torch

import tiny
from glassformer.core.batch import Batch
from glassformer.core.errors import ConfigError
from glassformer.layers.linear import packed
from glassformer.layers.linear.linear import Linear, pack_together, together
from glassformer.layers.linear.packed import PackedMatrix
from glassformer.models.packing import FORMATS, pack
from glassformer.runtime.config import GenerateConfig
from glassformer.runtime.decode import decode

BRAIN = 2.0**-8
"""Relative error of rounding to bfloat16, at most half of it."""


def rounded_to_bfloat16(x):
    return torch.from_numpy(x).bfloat16().double().numpy()


def stood_for(w, bits):
    """W as its bits say, float64."""
    match bits:
        case "fp16":
            return w.astype(np.float16).astype(np.float64)
        case "bf16":
            return rounded_to_bfloat16(w)
        case "int8":
            step = np.abs(w).max(1, keepdims=True) / np.float32(127)
            return np.rint(w / step).astype(np.float64) * step
    groups = w.reshape(len(w), -1, 32)
    least, most = groups.min(2, keepdims=True), groups.max(2, keepdims=True)
    step = rounded_to_bfloat16((most - least) / 15)
    zero = rounded_to_bfloat16(least + 8 * ((most - least) / 15))
    levels = np.clip(np.rint((groups - zero) / step + 8), 0, 15)
    return (step * (levels - 8) + zero).reshape(w.shape)


def most(x, w, bits):
    """The largest error of x Wᵀ beside that of W, by what is rounded on the way."""
    size = np.abs(x) @ np.abs(w).T
    exact = x.shape[1] * 2.0**-22 * size  # a sum in float32
    match bits:
        case "fp16":
            return exact
        case "int8":  # half a step of x, in 63 steps on processors without VNNI
            return exact + np.abs(x).max(1, keepdims=True) / 63 / 2 * np.abs(w).sum(1)
    return exact + 2 * BRAIN * size  # x, W of 4 bits in registers, and the result


@pytest.mark.parametrize("bits", FORMATS)
@pytest.mark.parametrize("shape", [(48, 64), (160, 96), (33, 40)], ids=str)
@pytest.mark.parametrize("plain", [False, True], ids=["kernel", "fallback"])
@torch.no_grad()
def test_it_is_the_product_with_what_the_bits_stand_for(shape, bits, plain, monkeypatch):
    if plain:
        monkeypatch.setattr(packed, "_kernel", lambda *_: None)
    weight, bias, x = torch.randn(shape), torch.randn(shape[0]), torch.randn(2, 3, shape[1]) * 4
    x[0, 1] = 0
    matrix = PackedMatrix(weight, bits)
    w = stood_for(weight.numpy(), matrix.bits)
    rows = x.flatten(0, 1).double().numpy()
    found = matrix.linear(x, bias).flatten(0, 1).double().numpy()
    assert (np.abs(found - rows @ w.T - bias.numpy()) <= most(rows, w, matrix.bits) + 1e-5).all()
    # of 4 bits the kernel rounds to bfloat16
    close = {"rtol": 0, "atol": BRAIN * np.abs(w).max() if matrix.bits == "int4" else 1e-6}
    np.testing.assert_allclose(matrix.matrix.numpy(), w, **close)
    assert matrix.linear(x[:0], None).shape == (0, 3, shape[0])
    torch.testing.assert_close(matrix.linear(x[:1, 1], bias)[0], bias, rtol=0, atol=0)


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("bits", FORMATS)
@torch.no_grad()
def test_a_row_has_the_same_bits_in_any_company(bits, threads):
    torch.set_num_threads(threads)
    matrix, row = PackedMatrix(torch.randn(320, 256), bits), torch.randn(1, 256)
    alone = matrix.linear(row, None)[0]
    for n in (2, 3, 4, 6, 7, 16, 33, 64):
        for at in {0, n // 2, n - 1}:
            others = torch.randn(n, 256) * torch.rand(n, 1) * 9
            others[at] = row
            assert torch.equal(matrix.linear(others, None)[at], alone)


@pytest.mark.skipif(not torch.cpu._is_avx512_bf16_supported(), reason="no such instructions here")
@pytest.mark.parametrize("bits", FORMATS)
def test_torch_has_the_kernel(bits):
    """Its operators are private: another version may lack them, and only be slow."""
    assert packed._kernel(torch.randn(32, 64), bits) is not None


@pytest.mark.parametrize("bits", FORMATS)
@torch.no_grad()
def test_matrices_packed_together_are_what_each_is_alone(bits):
    layers = [Linear(64, rows) for rows in (64, 32, 32)]
    for layer in layers:
        for parameter in layer.parameters():
            parameter.normal_()
    apart, x = copy.deepcopy(layers), torch.randn(2, 3, 64)
    whole = pack_together(layers, bits)
    for one, alone, y in zip(layers, apart, together(x, layers, whole), strict=True):
        alone.pack(bits)
        close = {"rtol": 0, "atol": 1e-5}  # the bias may be added in another rounding
        torch.testing.assert_close(y, alone(x), **close)
        torch.testing.assert_close(one(x), y, **close)
        torch.testing.assert_close(one.matrix, alone.matrix, rtol=0, atol=0)
    assert [one.holds_weight for one in layers] == [False] * 3


def test_shapes_and_numbers_that_a_format_lacks():
    assert PackedMatrix(torch.randn(32, 40), "int4").bits == "int8"  # no groups of 32
    assert PackedMatrix(torch.full((2, 32), 1e5), "fp16").bits == "bf16"  # infinite in half


@pytest.mark.parametrize("tied", [True, False])
@pytest.mark.parametrize("bits", FORMATS)
def test_a_quantized_model_decodes_and_lets_gradients_pass(bits, tied):
    changes = {"d_model": 64, "d_ff": 96, "vocab_size": 64, "tied": tied}
    model, same = (copy.deepcopy(tiny.model(**changes)).float() for _ in range(2))
    batch = Batch(torch.randint(64, (1, 9)))
    rows = model.embed.element.weight.clone()
    pack(model, bits)
    assert torch.equal(model.embed.element.weight, rows)
    greedy = GenerateConfig(temperature=0.0, max_new_tokens=5)
    assert len(list(decode(model, [[1, 2, 3]], greedy))) == 5
    with torch.no_grad():
        quick, exact = model(batch).logits, same(batch).logits
    # 4 bits: a step is 1/15 of a range of 4 deviations; bounded by the spread of the logits
    error = (quick - exact).std() / exact.std()
    assert error < {"fp16": 1e-3, "bf16": 0.03, "int8": 0.06, "int4": 0.4}[bits]
    logits = model(batch).logits  # with gradients: by the matrices that the bits stand for
    torch.testing.assert_close(logits.std(), quick.std(), rtol=0.1, atol=0)
    logits.sum().backward()
    assert model.embed.element.weight.grad is not None
    with pytest.raises(ConfigError, match="is quantized or compiled; load it again"):
        pack(model, bits)
