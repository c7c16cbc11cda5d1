"""Dropout: how often, by how much, and from which randomness."""

import math

import pytest
import torch

from glassformer.layers.attention.attend import attend, attend_reference
from glassformer.layers.attention.mask import Allowed
from glassformer.layers.cpu_kernels import STEPS
from glassformer.layers.dropout import Dropout, dropout
from glassformer.layers.feedforward import relu_squared
from glassformer.layers.norm import rms_norm


@pytest.mark.parametrize("p", [0.001, 0.1, 0.2, 0.5, 0.9])
def test_zeroes_with_probability_p_and_keeps_the_mean(p):
    torch.manual_seed(0)
    n = 400_003  # not a multiple of four: the last word is used in part
    y = dropout(torch.ones(n), p)
    share = (y == 0).float().mean().item()
    assert abs(share - p) < 5 * math.sqrt(
        p * (1 - p) / n
    )  # five standard deviations of a binomial share
    exact = STEPS / (STEPS - round(p * STEPS))
    assert y.unique().tolist() == pytest.approx([0.0, exact], rel=1e-6)  # float32


def test_neighbours_are_independent():
    torch.manual_seed(1)
    kept = (
        dropout(torch.ones(400_000), 0.5).reshape(-1, 4) > 0
    )  # the four that share one random word
    pairs = torch.corrcoef(kept.double().T) - torch.eye(4, dtype=torch.double)
    assert pairs.abs().max() < 5 / math.sqrt(
        len(kept)
    )  # five standard deviations of a sample correlation


def test_is_a_function_of_the_seed_and_its_gradient_is_its_mask():
    x = torch.randn(7, 5, dtype=torch.double, requires_grad=True)
    torch.manual_seed(3)
    y = dropout(x, 0.3)
    torch.manual_seed(3)
    assert torch.equal(y, dropout(x, 0.3))
    y.sum().backward()
    assert torch.equal(x.grad * x, y)


def test_does_nothing_in_evaluation_and_at_zero():
    x = torch.randn(5)
    assert Dropout(0.5).eval()(x) is x
    assert Dropout(0.0).train()(x) is x
    assert not torch.equal(Dropout(0.5).train()(x), x)


def test_attention_with_dropout_has_the_mean_of_attention_without():
    torch.manual_seed(0)
    q, k, v = (torch.randn(1, 2, 3, 4, dtype=torch.double) for _ in range(3))
    exact = attend_reference(q, k, v, Allowed(causal=True), None, 0.5)
    draws = torch.stack(
        [attend(q, k, v, Allowed(causal=True), None, 0.5, dropout=0.5) for _ in range(4000)]
    )
    error = draws.std(0) / math.sqrt(len(draws))
    assert ((draws.mean(0) - exact).abs() <= 5 * error + 1e-12).all()  # five standard errors
    assert error.max() > 0


def test_hand_written_derivatives_are_right_to_the_second_order():
    torch.manual_seed(0)
    x, weight = (torch.randn(*s, dtype=torch.double, requires_grad=True) for s in ((2, 3, 5), (5,)))
    for function, inputs in (
        (lambda x, w: rms_norm(x, w, 1e-6), (x, weight)),
        (relu_squared, (x,)),
    ):
        assert torch.autograd.gradcheck(function, inputs)
        assert torch.autograd.gradgradcheck(function, inputs)
