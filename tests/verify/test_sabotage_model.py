"""Negative controls on a model's own weights: a model that is wrong in one place fails in the rows
of that place."""

import pytest
import torch
from torch.nn import functional as F

from glassformer import verify
from glassformer.layers import attend, attention, mask
from glassformer.models import presets
from verify.models import WORDS, batch_for, moved
from verify.test_sabotage import Sabotage, backwards, breaks, instead, printed_swapped, sample_norm

GPT, NOTE_A, MODERN = presets.gpt2(**WORDS), presets.note("A", **WORDS), presets.modern(**WORDS)
T5 = presets.t5(**WORDS, d_ff=48)
NORM, FFN = "γ (x − μ) / √(σ² + ε) + β", "φ(x W₁ + b₁) W₂ + b₂"
WHOLE, MIXED = "the whole forward pass, elements to output", "concat(Z¹ .. Zᴴ) W_O"
SCORES, FUSED = "S = Q Kᵀ / √d_k + M", "Z by the fused kernel = softmax(S) V"
GRADIENT, AHEAD = "∂x_{i+1}/∂x_i = 1 + ∂f_i/∂x_i", "changing token t+1 changes nothing up to t"
CACHED = "with cache = without"


def failing(model):
    """The formulas that fail on a model."""
    rows = verify.model_rows(model, batch_for(model.config))
    return {row.formula for row in rows if not row.passed}


def in_single_precision(right):
    """Position vectors rounded to float32."""
    return lambda *args, dtype=torch.float32, **kwargs: right(*args, **kwargs).to(dtype)


def queries_without_bias(self, x, _):
    """q = x W_Q, whatever bias there is."""
    q = attention.split_heads(F.linear(x, self.q_proj.weight), self.n_heads)
    return attention.tap(self, "q", q, "batch head query dim")


def forgets_the_triangle(q, k, v, allow, bias, scale, dropout=0.0):
    """Fused attention that sees the future."""
    return attend.attend_reference(q, k, v, mask.Allowed(), bias, scale)


CASES = [
    (GPT, "layers.norm:layer_norm", instead(sample_norm), {NORM, WHOLE, GRADIENT}),
    (NOTE_A, "layers.position:sinusoidal", printed_swapped, {"p_i", WHOLE}),
    (NOTE_A, "layers.position:sinusoidal", in_single_precision, {"p_i", WHOLE}),
    (
        GPT,
        "layers.block:Block.join",
        instead(lambda self, x, branch: branch),
        {"x + f(LN(x))", WHOLE, GRADIENT},
    ),
    (
        GPT,
        "layers.attention:Attention.queries",
        instead(queries_without_bias),
        {"q_i = x_i W_Q", WHOLE, GRADIENT},
    ),
    (GPT, "layers.feedforward:gelu_tanh", instead(F.gelu), {FFN, WHOLE}),
    (
        GPT,
        "layers.attention:merge_heads",
        instead(lambda z: z.flip(1).transpose(1, 2).flatten(2)),
        {MIXED, WHOLE, GRADIENT},
    ),
    (GPT, "layers.attention:attend", instead(forgets_the_triangle), {FUSED, WHOLE, AHEAD, CACHED}),
    (
        MODERN,
        "layers.position:rotation",
        backwards,
        {"q_i = x_i W_Q", "k_i = x_i W_K", WHOLE, GRADIENT},
    ),
    (
        T5,
        "layers.stack:SOURCE_MASK",
        instead(mask.Everything()),
        {SCORES, FUSED, "a_ij = 0 where M_ij = −∞", WHOLE, GRADIENT},
    ),
]


@pytest.mark.parametrize(
    ("config", "broken", "wrong", "expected"), CASES, ids=[case[1] for case in CASES]
)
def test_the_rows_of_that_place_fail_and_no_others(monkeypatch, config, broken, wrong, expected):
    breaks(monkeypatch, Sabotage(broken, "", wrong, (), ()))
    assert failing(moved(config)) == expected


def test_scale_of_one_block():
    model = moved(GPT)
    model.decoder.blocks[1].attention.scale *= 1.001
    assert failing(model) == {SCORES, FUSED, WHOLE, GRADIENT}


def test_unmasked_future():
    model = moved(GPT)
    model.decoder.mask = mask.Valid()
    failed = failing(model)
    assert {SCORES, "a_ij = 0 where M_ij = −∞", AHEAD} <= failed
    assert "A = softmax(S) by rows" not in failed


def test_epsilon_where_the_notes_have_none():
    model = moved(presets.note("B", **WORDS))
    model.decoder.blocks[0].attention_norm.epsilon = 1e-5
    assert NORM in failing(model)


def test_a_head_that_is_not_tied_any_more():
    model = moved(GPT)
    model.head.weight = torch.nn.Parameter(model.head.weight.detach() * 1.001)
    model.tie = lambda: None
    assert failing(model) == {"u = h Eᵀ", WHOLE}


def test_not_a_number_fails():
    model = moved(GPT)
    with torch.no_grad():
        model.decoder.blocks[0].feedforward.down_proj.weight[0, 0] = float("nan")
    rows = list(verify.model_rows(model, batch_for(GPT)))
    assert FFN in {row.formula for row in rows if not row.passed}
    assert any(row["max_abs_error"] is None and not row["passed"] for row in verify.as_json(rows))
