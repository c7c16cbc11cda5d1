"""The linear map of every projection, whichever kernel computes it."""

import numpy as np
import pytest
import torch

from glassformer.layers import cpu_kernels
from glassformer.layers.cpu_kernels import (
    LARGE_PRODUCT,
    LARGE_WEIGHT,
    MIN_ROWS,
    ONE_DNN,
    batch_invariant,
    linear,
)

SHAPES = {
    "small": (2, 3, 8, 16),
    "large weight, one row": (1, 1, 512, 1024),
    "large product": (2, 64, 256, 256),
    "no row": (0, 3, 512, 1024),
}


@pytest.mark.parametrize("grad", [False, True], ids=["inference", "training"])
@pytest.mark.parametrize("biased", [False, True], ids=["plain", "bias"])
@pytest.mark.parametrize("shape", SHAPES.values(), ids=SHAPES)
def test_it_is_the_product_of_numpy(shape, biased, grad):
    rows, length, d, f = shape
    x, weight = torch.randn(rows, d, length).mT, torch.randn(f, d)  # not contiguous
    bias = torch.randn(f) if biased else None
    with torch.set_grad_enabled(grad):
        y = linear(x, weight, bias)
    expected = x.double().numpy() @ weight.double().numpy().T
    expected += 0 if bias is None else bias.numpy()
    # sums of d products of standard normals: rounding of 2**-24 each
    np.testing.assert_allclose(y.numpy(), expected, atol=d * 2**-21)


def test_a_large_product_without_gradients_takes_the_other_kernel(monkeypatch):
    used = []

    def noted(x, weight, *others):
        used.append(tuple(x.shape))
        return x.new_zeros(*x.shape[:-1], len(weight))

    monkeypatch.setattr(cpu_kernels, "ONE_DNN", noted)
    weight = torch.zeros(1024, LARGE_WEIGHT // 1024)
    cases = {
        "large weight, one row": (torch.zeros(1, 128), weight),
        "large product": (torch.zeros(LARGE_PRODUCT // (128 * 8), 128), weight[:8]),
    }
    with torch.no_grad():
        for x, w in cases.values():
            linear(x, w, None)
        assert used == [tuple(x.shape) for x, _ in cases.values()]
        linear(torch.zeros(1, 127), weight[:, 1:], None)
        linear(torch.zeros(LARGE_PRODUCT // (128 * 8) - 1, 128), weight[:8], None)
        linear(torch.zeros(1, 128).double(), weight.double(), None)
        with torch.autocast("cpu", torch.bfloat16):
            assert linear(torch.zeros(1, 128), weight, None).dtype == torch.bfloat16
    y = linear(torch.zeros(1, 128), weight.requires_grad_(), None)
    y.sum().backward()
    assert len(used) == len(cases)


def test_without_the_operator_the_numbers_are_the_same(monkeypatch):
    x, weight = torch.randn(4, 512), torch.randn(1024, 512)
    with torch.no_grad():
        y = linear(x, weight, None)
        monkeypatch.setattr(cpu_kernels, "ONE_DNN", None)
        torch.testing.assert_close(linear(x, weight, None), y, rtol=0, atol=512 * 2**-21)


@pytest.mark.skipif(ONE_DNN is None, reason="the promise is oneDNN's")
@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("shape", [(65, 64), (384, 384), (1536, 384), (384, 1536)], ids=str)
def test_the_bits_of_a_row_do_not_depend_on_the_others(shape, threads):
    f, d = shape
    x, weight, bias = torch.randn(130, d), torch.randn(f, d), torch.randn(f)
    torch.set_num_threads(threads)
    with torch.inference_mode(), batch_invariant():
        whole = linear(x, weight, bias)
        for n in (MIN_ROWS, 3, 5, 16, 31, 64):
            assert torch.equal(linear(x[:n].contiguous(), weight, bias), whole[:n])
            assert torch.equal(linear(x[-n:].contiguous(), weight, bias), whole[-n:])
        # the law says something: one row alone has other bits
        assert not torch.equal(linear(x[:1].contiguous(), weight, bias), whole[:1])
