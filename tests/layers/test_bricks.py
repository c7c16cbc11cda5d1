"""Embedding, feed-forward network and the attention module against their formulas."""

import math

import pytest
import torch
from torch.testing import assert_close

from glassformer.core.batch import Positions
from glassformer.layers.attention.attend import attend_reference
from glassformer.layers.attention.context import AttentionContext
from glassformer.layers.attention.mask import Allowed
from glassformer.layers.attention.multi_head import (
    Attention,
    merge_heads,
    score_scale,
    split_heads,
)
from glassformer.layers.embed import Embedding, PartEmbeddings, PatchEmbedding, TokenEmbedding
from glassformer.layers.feedforward import FeedForward, activation_function
from glassformer.layers.norm import rms_norm
from glassformer.layers.tap import Tape, recording
from tiny import EXACT, stir

ACTIVATIONS = {
    "relu": lambda x: max(0.0, x),
    "relu_squared": lambda x: max(0.0, x) ** 2,
    "gelu": lambda x: x * 0.5 * (1 + math.erf(x / 2**0.5)),
    "gelu_tanh": lambda x: 0.5 * x * (1 + math.tanh((2 / math.pi) ** 0.5 * (x + 0.044715 * x**3))),
    "silu": lambda x: x / (1 + math.exp(-x)),
    "identity": lambda x: x,
}


@pytest.mark.parametrize("kind", ACTIVATIONS)
@pytest.mark.parametrize("gated", [False, True])
def test_feed_forward(kind, gated):
    x = torch.linspace(-3, 3, 13, dtype=torch.float64)
    phi = activation_function(kind)
    assert_close(
        phi(x), torch.tensor([ACTIVATIONS[kind](float(v)) for v in x], dtype=torch.float64), **EXACT
    )
    ffn = stir(FeedForward(4, 6, activation=kind, gated=gated, bias=True).double())
    x = torch.randn(2, 3, 4, dtype=torch.float64)
    hidden = x @ ffn.up_proj.weight.T + ffn.up_proj.bias
    hidden = hidden * phi(x @ ffn.gate_proj.weight.T + ffn.gate_proj.bias) if gated else phi(hidden)
    assert_close(ffn(x), hidden @ ffn.down_proj.weight.T + ffn.down_proj.bias, **EXACT)
    assert (FeedForward(4, 6, activation=kind, gated=gated, bias=False).up_proj.bias) is None


def test_note_b_picks_rows_of_the_embedding_matrix():
    table = stir(TokenEmbedding(12000, 3))
    ids = torch.tensor([[5, 4000, 10532, 2224]])
    assert torch.equal(table(ids)[0], table.weight[[5, 4000, 10532, 2224]])
    one_hot = torch.nn.functional.one_hot(ids, 12000).float()
    assert_close(table(ids), one_hot @ table.weight)


def test_note_d_patches_times_w_emb():
    patches = stir(PatchEmbedding(16 * 16 * 3, 8, class_token=True, n_registers=2))
    x = torch.randn(2, 5, 768)
    got = patches(x)
    assert_close(got[:, 3:], x @ patches.proj.weight.T + patches.proj.bias)
    assert torch.equal(got[:, 0], patches.class_token[0].expand(2, -1))
    assert torch.equal(got[:, 1:3], patches.registers.expand(2, -1, -1))


def test_an_embedding_is_a_sum():
    element = TokenEmbedding(7, 4, factor=2.0)
    none = PartEmbeddings({}, {}, 4)
    embed = Embedding(element, None, n_token_types=2, d_model=4, norm=None, dropout=0.0, parts=none)
    stir(embed)
    ids, kinds = torch.tensor([[1, 2]]), torch.tensor([[0, 1]])
    assert_close(
        embed(ids, Positions.arange(2), kinds), 2 * element.weight[ids] + embed.kind.weight[kinds]
    )


def test_split_heads_cuts_consecutive_columns():
    x = torch.arange(12.0).view(1, 2, 6)
    assert split_heads(x, 3)[0, :, 0].tolist() == [[0, 1], [2, 3], [4, 5]]
    assert torch.equal(merge_heads(split_heads(x, 3)), x)


def test_scale():
    assert [score_scale(kind, 16, 64) for kind in ("head", "model", "none")] == [0.25, 0.125, 1.0]


@pytest.mark.parametrize("n_kv_heads", [1, 2, 4])
@pytest.mark.parametrize("qk_norm", [True, False])
def test_attention_is_its_formula(n_kv_heads, qk_norm):
    """A width of head that is free of d_model, grouped heads, query/key norm: W_O concat(z¹ ..
    zᴴ)."""
    ours = Attention(
        10, 4, n_kv_heads, 6, bias=True, out_bias=True, qk_norm=qk_norm, epsilon=1e-3
    ).double()
    stir(ours)
    x = torch.randn(2, 5, 10, dtype=torch.float64)
    linear = lambda proj: x @ proj.weight.T + proj.bias
    normed = lambda t, norm: t if norm is None else rms_norm(t, norm.weight, 1e-3)
    z = []
    for head in range(4):
        own, group = slice(6 * head, 6 * head + 6), head // (4 // n_kv_heads)
        shared = slice(6 * group, 6 * group + 6)
        q, k = (
            normed(linear(ours.q_proj)[..., own], ours.q_norm),
            normed(linear(ours.k_proj)[..., shared], ours.k_norm),
        )
        weights = (q @ k.mT / 6**0.5).softmax(-1)
        z.append(weights @ linear(ours.v_proj)[..., shared])
    expected = torch.cat(z, -1) @ ours.out_proj.weight.T + ours.out_proj.bias
    assert_close(ours(x, AttentionContext(Allowed())), expected, **EXACT)


def test_note_e_one_key_alone_gives_its_value():
    """a_{3,2} = 1 gives o_3 = v_2."""
    v = torch.randn(1, 1, 4, 5)
    only = torch.zeros(1, 1, 4, 4, dtype=torch.bool)
    only[0, 0, 2, 1] = True
    z = attend_reference(
        torch.randn(1, 1, 4, 5), torch.randn(1, 1, 4, 5), v, Allowed(dense=only), None, 1.0
    )
    assert torch.equal(z[0, 0, 2], v[0, 0, 1])


@pytest.mark.parametrize("n_kv_heads", [1, 2, 4])
def test_scores_are_those_of_the_forward_pass_for_all_heads_or_one(n_kv_heads):
    """Recomputed from recorded queries and keys, with mask and a bias of each head."""
    ours = Attention(10, 4, n_kv_heads, 6, scale="model").double()
    stir(ours)
    x, bias = torch.randn(2, 5, 10).double(), torch.randn(1, 4, 5, 5).double()
    context = AttentionContext(Allowed(causal=True), bias)
    with recording(Tape(ours, ("q", "k", "scores"))) as tape:
        ours(x, context)
    q, k, expected = (tape.kept[name] for name in ("q", "k", "scores"))
    assert torch.equal(ours.scores(q, k, context), expected)
    for head in range(4):
        assert_close(ours.scores(q, k, context, head), expected[:, head : head + 1], **EXACT)
