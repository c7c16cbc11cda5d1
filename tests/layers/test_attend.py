"""The seam: the fused form gives the reference's numbers, and rows without a key give 0 with finite
gradients."""

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch.testing import assert_close

from glassformer.layers.attention.attend import (
    attend,
    attend_reference,
    attention_pattern,
    attention_scores,
)
from glassformer.layers.attention.mask import Allowed
from tiny import EXACT

NOTHING_SEEN = 2  # the query whose row allows no key in the tests below


@st.composite
def calls(draw):
    """Arguments of `attend` in every combination of heads, mask and bias."""
    groups, per = draw(st.sampled_from([(1, 1), (1, 3), (2, 2), (3, 1)]))
    batch, queries, keys = draw(st.integers(1, 3)), draw(st.integers(1, 5)), draw(st.integers(1, 6))
    mask = draw(st.sampled_from(["none", "causal", "dense", "one row"]))
    keys = queries if mask == "causal" else keys
    make = lambda *shape: torch.randn(*shape, dtype=torch.float64, requires_grad=True)
    torch.manual_seed(draw(st.integers(0, 1000)))
    q, k, v = (
        make(batch, groups * per, queries, 4),
        make(batch, groups, keys, 4),
        make(batch, groups, keys, 3),
    )
    dense = torch.rand(1 if mask == "one row" else batch, 1, queries, keys) < 0.5
    if queries > NOTHING_SEEN:
        dense[0, :, NOTHING_SEEN] = False
    allow = Allowed(mask == "causal", dense if mask in ("dense", "one row") else None)
    biased = draw(st.sampled_from([0, 1, batch]))
    bias = make(biased, groups * per, queries, keys) if biased else None
    return q, k, v, allow, bias, draw(st.sampled_from([1.0, 0.5, 0.1]))


@given(calls())
def test_fused_equals_reference_forwards_and_backwards(call):
    q, k, v, allow, bias, _ = call
    fused, written_out = attend(*call), attend_reference(*call)
    assert_close(fused, written_out, **EXACT)
    inputs = [t for t in (q, k, v, bias) if t is not None]
    weight = torch.randn_like(fused)
    for one, other in zip(
        torch.autograd.grad((fused * weight).sum(), inputs),
        torch.autograd.grad((written_out * weight).sum(), inputs),
        strict=True,
    ):
        assert one.isfinite().all()
        assert_close(one, other, **EXACT)
    if allow.dense is not None and q.shape[2] > NOTHING_SEEN:
        assert (fused[0, :, NOTHING_SEEN] == 0).all()
        assert (written_out[0, :, NOTHING_SEEN] == 0).all()


@given(calls())
@torch.no_grad()
def test_the_reference_is_the_formula(call):
    """softmax(q kᵀ scale + bias + mask) v by loops: z_i = Σ_j a_ij v_j."""
    q, k, v, allow, bias, scale = call
    table = allow.as_table(q.shape[2], k.shape[2], q.device)
    z = attend_reference(*call)
    per = q.shape[1] // k.shape[1]
    b, h = q.shape[0] - 1, q.shape[1] - 1
    for i in range(q.shape[2]):
        keys = [j for j in range(k.shape[2]) if table is None or table[b % len(table), 0, i, j]]
        scores = [float(q[b, h, i] @ k[b, h // per, j]) * scale for j in keys]
        if bias is not None:
            scores = [
                s + float(bias[b % len(bias), h, i, j]) for s, j in zip(scores, keys, strict=True)
            ]
        total = sum(math.exp(s) for s in scores)
        expected = sum(
            (math.exp(s) / total * v[b, h // per, j] for s, j in zip(scores, keys, strict=True)),
            torch.zeros(3, dtype=torch.float64),
        )
        assert_close(z[b, h, i], expected, **EXACT)


def test_note_d_example_scores_102_and_99():
    scores = torch.tensor([[[[102.0, 99.0]]]], dtype=torch.float64) / 3**0.5
    assert_close(
        scores.flatten().tolist(), [58.890, 57.158], atol=5e-4, rtol=0
    )  # D_K = 3, printed to 3 digits
    assert_close(
        attention_pattern(scores).flatten().tolist(), [0.84967, 0.15033], atol=5e-6, rtol=0
    )


@pytest.mark.parametrize("size", [1e4, 1e30])
def test_large_scores_do_not_overflow(size):
    pattern = attention_pattern(torch.tensor([[[[size, -size, size]]]]))
    assert pattern.flatten().tolist() == [0.5, 0.0, 0.5]


def test_a_batch_row_that_sees_nothing_leaves_all_gradients_finite():
    """A row that sees nothing: no NaN forwards or backwards, in both forms (pytorch#41508)."""
    for form in (attend, attend_reference):
        q, k, v = (torch.randn(2, 2, 3, 4, requires_grad=True) for _ in range(3))
        allow = Allowed(dense=torch.tensor([True, False]).view(2, 1, 1, 1).expand(2, 1, 3, 3))
        z = form(q, k, v, allow, None, 0.5)
        z.square().sum().backward()
        for t in (q, k, v):
            assert t.grad.isfinite().all()
            assert (t.grad[1] == 0).all()
            assert (t.grad[0] != 0).any()
        assert (z[1] == 0).all()


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_half_precision_agrees_and_keeps_its_type(dtype):
    q, k, v = (torch.randn(1, 2, 5, 8).to(dtype) for _ in range(3))
    bias = torch.randn(1, 2, 5, 5)
    for allow in (Allowed(), Allowed(causal=True)):
        fused, reference = (
            attend(q, k, v, allow, bias, 0.5),
            attend_reference(q, k, v, allow, bias, 0.5),
        )
        assert fused.dtype == reference.dtype == dtype
        # values of size 1: a few units in the last place of bf16 (2^-8), from rounding bias and
        # pattern
        assert_close(fused, reference, atol=0.05, rtol=0.05)


def test_dropout_acts_on_the_pattern_and_keeps_its_mean():
    v = torch.ones(1, 1, 400, 1)
    q, k = torch.zeros(1, 1, 2000, 4), torch.zeros(1, 1, 400, 4)
    z = attend_reference(q, k, v, Allowed(), None, 1.0, dropout=0.25)
    assert z.std() > 0.01
    # mean of 2000 x 400 Bernoulli draws / 0.75: standard error 0.0006
    assert_close(z.mean(), torch.tensor(1.0), atol=0.004, rtol=0)


def test_scaling_keeps_attention_soft_at_random():
    """Note D: without 1/√d_k the softmax is sharp at initialization, with it nearly uniform."""
    q, k = torch.randn(1, 1, 50, 256), torch.randn(1, 1, 50, 256)
    sharp = attention_pattern(attention_scores(q, k, Allowed(), None, 1.0)).amax(-1).mean()
    soft = attention_pattern(attention_scores(q, k, Allowed(), None, 256**-0.5)).amax(-1).mean()
    assert sharp > 0.7
    assert soft < 0.3
