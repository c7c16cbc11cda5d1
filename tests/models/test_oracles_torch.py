"""Against torch's own layers, with random weights copied over: the same numbers to float64
precision."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import nn
from torch.testing import assert_close

import tiny
from glassformer.core.batch import Positions
from glassformer.layers.attention.context import AttentionContext
from glassformer.layers.attention.mask import Allowed, Causal, Valid, allowed
from glassformer.layers.attention.multi_head import Attention
from glassformer.layers.block import Block
from glassformer.layers.feedforward import FeedForward
from glassformer.layers.norm import LayerNorm
from tiny import EXACT

D, HEADS, F = 12, 3, 20


def copy_attention(ours: Attention, theirs: nn.MultiheadAttention) -> None:
    weights, biases = theirs.in_proj_weight.chunk(3), theirs.in_proj_bias.chunk(3)
    for proj, weight, bias in zip(
        (ours.q_proj, ours.k_proj, ours.v_proj), weights, biases, strict=True
    ):
        proj.weight.data, proj.bias.data = weight.data.clone(), bias.data.clone()
    ours.out_proj.load_state_dict(theirs.out_proj.state_dict())


def attention() -> Attention:
    return Attention(D, HEADS, HEADS, D // HEADS, bias=True, out_bias=True).double()


@given(st.integers(1, 5), st.integers(1, 6), st.booleans())
def test_multihead_attention(queries, keys, causal):
    theirs = tiny.stir(nn.MultiheadAttention(D, HEADS, batch_first=True).double())
    ours = attention()
    copy_attention(ours, theirs)
    x = torch.randn(2, queries, D, dtype=torch.float64)
    source = x if causal else torch.randn(2, keys, D, dtype=torch.float64)
    padding = torch.zeros(source.shape[:2], dtype=torch.bool)
    if not causal:
        padding[0, 1:] = True
    mask = torch.ones(queries, queries, dtype=torch.bool).triu(1) if causal else None
    expected, _ = theirs(
        x, source, source, key_padding_mask=None if causal else padding, attn_mask=mask
    )
    allow = (
        Allowed(causal=True)
        if causal
        else Allowed(dense=~padding[:, None, None, :].expand(-1, 1, queries, -1))
    )
    assert_close(ours(x, AttentionContext(allow), source), expected, **EXACT)


@pytest.mark.parametrize("pre", [True, False])
@pytest.mark.parametrize("activation", ["relu", "gelu"])
@pytest.mark.parametrize("crossed", [True, False])
def test_encoder_and_decoder_layers(pre, activation, crossed):
    kind = nn.TransformerDecoderLayer if crossed else nn.TransformerEncoderLayer
    theirs = kind(D, HEADS, F, dropout=0.0, activation=activation, norm_first=pre, batch_first=True)
    tiny.stir(theirs.double())
    ours = Block(
        attention(),
        FeedForward(D, F, activation=activation, gated=False, bias=True),
        [LayerNorm(D) for _ in range(3 if crossed else 2)],
        attention() if crossed else None,
        pre_norm=pre,
    ).double()
    copy_attention(ours.attention, theirs.self_attn)
    norms = [ours.attention_norm, ours.feedforward_norm]
    if crossed:
        copy_attention(ours.cross, theirs.multihead_attn)
        norms.insert(1, ours.cross_norm)
    for i, norm in enumerate(norms):
        norm.load_state_dict(getattr(theirs, f"norm{i + 1}").state_dict())
    ours.feedforward.up_proj.load_state_dict(theirs.linear1.state_dict())
    ours.feedforward.down_proj.load_state_dict(theirs.linear2.state_dict())

    x, memory = torch.randn(2, 5, D, dtype=torch.float64), torch.randn(2, 4, D, dtype=torch.float64)
    positions, source_positions = Positions.pad([5, 3]), Positions.pad([2, 4])
    masked = {"tgt_key_padding_mask" if crossed else "src_key_padding_mask": ~positions.valid}
    triangle = torch.ones(5, 5, dtype=torch.bool).triu(1)
    context = AttentionContext(allowed(Causal() & Valid(), positions, positions))
    if crossed:
        expected = theirs(
            x, memory, triangle, memory_key_padding_mask=~source_positions.valid, **masked
        )
        source_context = AttentionContext(allowed(Valid(), positions, source_positions))
        got = ours(x, context, source=memory, source_context=source_context)
    else:
        expected, got = theirs(x, triangle, **masked), ours(x, context)
    assert_close(got, expected, **EXACT)
