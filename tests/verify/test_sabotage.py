"""Negative controls: a production that is wrong in one place fails in the row of that place."""

import torch
from torch.nn import functional as F

from glassformer import losses, verify
from glassformer.layers import (
    attend,
    attention,
    block,
    cache,
    feedforward,
    heads,
    mask,
    norm,
    position,
    stack,
)
from glassformer.models import presets
from glassformer.verify import rows_attention, rows_golden, rows_readings, rows_stream, rows_task
from verify.models import WORDS, batch_for, moved

GPT = presets.gpt2(**WORDS)


def failing(rows):
    return {row.equation for row in rows if not row.passed}


def failing_formulas(model):
    rows = verify.model_rows(model, batch_for(model.config))
    return {row.formula for row in rows if not row.passed}


WHOLE = "the whole forward pass, elements to output"
SCORES = "S = Q Kᵀ / √d_k + M"
FUSED = "Z by the fused kernel = softmax(S) V"
GRADIENT = "∂x_{i+1}/∂x_i = 1 + ∂f_i/∂x_i"


def test_scale_of_one_block():
    model = moved(GPT)
    model.decoder.blocks[1].attention.scale *= 1.001
    assert failing_formulas(model) == {SCORES, FUSED, WHOLE, GRADIENT}


def test_scale_for_every_model(monkeypatch):
    monkeypatch.setattr(attention, "score_scale", lambda kind, d_head, d_model: d_model**-0.5)
    assert failing(rows_readings.choices()) >= {"reading: scale", "reading: norm placement"}


def test_unmasked_future():
    model = moved(GPT)
    model.decoder.mask = mask.Valid()
    failed = failing_formulas(model)
    assert {
        SCORES,
        "a_ij = 0 where M_ij = −∞",
        "changing token t+1 changes nothing up to t",
    } <= failed
    assert "A = softmax(S) by rows" not in failed


def test_causal_mask_off_by_one(monkeypatch):
    table = lambda self, query, key: key.position[:, None, :] <= query.position[:, :, None] + 1
    monkeypatch.setattr(mask.Causal, "table", table)
    assert failing(rows_attention.causal()) == {"4 causal mask"}
    assert failing(rows_golden.causal_table()) == {"golden: causal table"}


def test_fused_attention_that_forgets_the_triangle(monkeypatch):
    plain = lambda q, k, v, allow, bias, scale, dropout=0.0: attend.attend_reference(
        q, k, v, mask.Allowed(), bias, scale
    )
    monkeypatch.setattr(attention, "attend", plain)
    failed = failing_formulas(moved(GPT))
    assert {FUSED, WHOLE} <= failed
    assert SCORES not in failed


def test_deviation_with_n_minus_1(monkeypatch):
    def sample_norm(x, weight, bias, epsilon):
        deviation = (x.var(-1, unbiased=True, keepdim=True) + epsilon).sqrt()
        y = (x - x.mean(-1, keepdim=True)) / deviation * weight
        return y if bias is None else y + bias

    monkeypatch.setattr(norm, "layer_norm", sample_norm)
    assert failing(rows_stream.normalization()) == {"9 layer norm"}
    failed = failing_formulas(moved(GPT))
    assert failed == {"γ (x − μ) / √(σ² + ε) + β", WHOLE, GRADIENT}


def test_epsilon_where_the_notes_have_none():
    model = moved(presets.note("B", **WORDS))
    model.decoder.blocks[0].attention_norm.epsilon = 1e-5
    assert "γ (x − μ) / √(σ² + ε) + β" in failing_formulas(model)


def test_wrong_sinusoid(monkeypatch):
    right = position.sinusoidal
    wrong = lambda place, d, *, printed=False, dtype=torch.float32: right(
        place, d, printed=not printed, dtype=dtype
    )
    monkeypatch.setattr(position, "sinusoidal", wrong)
    assert "8 positions" in failing(rows_stream.position_vectors())
    assert "golden: position vectors" in failing(rows_golden.golden_rows())
    assert {"reading: sinusoid exponent", "reading: frequency"} <= failing(
        rows_readings.printed_sinusoid()
    )
    assert failing_formulas(moved(presets.note("A", **WORDS))) == {"p_i", WHOLE}


def test_positions_in_single_precision(monkeypatch):
    right = position.sinusoidal
    rounded = lambda place, d, *, printed=False, dtype=torch.float32: right(
        place, d, printed=printed
    ).to(dtype)
    monkeypatch.setattr(position, "sinusoidal", rounded)
    assert "p_i" in failing_formulas(moved(presets.note("A", **WORDS)))


def test_missing_residual(monkeypatch):
    def forward(self, x, view, slot=None, source=None, source_view=None, source_slot=None):
        x = block.tap(self, "resid_pre", x, block.STREAM)
        x = block.tap(
            self, "resid_mid", x + self.attend_own(self.attention_norm(x), view, slot), block.STREAM
        )
        return block.tap(self, "resid_post", self.feed(self.feedforward_norm(x)), block.STREAM)

    monkeypatch.setattr(block.PreNormBlock, "forward", forward)
    assert failing(rows_stream.residual()) == {"12 residual"}
    assert failing(rows_stream.gradient()) == {"19 residual gradient"}
    assert failing_formulas(moved(GPT)) == {"x + f(LN(x))", WHOLE}


def test_dropped_biases(monkeypatch):
    queries = lambda self, x, turn: attention.tap(
        self,
        "q",
        attention.split_heads(F.linear(x, self.q_proj.weight), self.n_heads),
        "batch head query dim",
    )
    monkeypatch.setattr(attention.Attention, "queries", queries)
    assert failing(rows_attention.projections()) == {"1 projections"}
    assert "q_i = x_i W_Q" in failing_formulas(moved(GPT))
    monkeypatch.setattr(
        heads.LanguageModelHead,
        "forward",
        lambda self, hidden, positions=None: F.linear(hidden, self.weight),
    )
    assert "13 language model head" in failing(rows_task.head())


def test_the_other_gelu(monkeypatch):
    monkeypatch.setattr(feedforward, "gelu_tanh", F.gelu)
    assert failing(rows_stream.feed_forward()) == {"10 feed-forward"}
    assert failing_formulas(moved(GPT)) == {"φ(x W₁ + b₁) W₂ + b₂", WHOLE}


def test_heads_joined_in_the_wrong_order(monkeypatch):
    monkeypatch.setattr(attention, "merge_heads", lambda z: z.flip(1).transpose(1, 2).flatten(2))
    assert failing(rows_attention.heads()) == {"5 heads"}
    assert "concat(Z¹ .. Zᴴ) W_O" in failing_formulas(moved(GPT))


def test_groups_of_heads_dealt_out_in_turn(monkeypatch):
    wrong = lambda q, k, v, allow, bias, scale, dropout=0.0: attend.attend_reference(
        q,
        k.repeat(1, q.shape[1] // k.shape[1], 1, 1),
        v.repeat(1, q.shape[1] // v.shape[1], 1, 1),
        allow,
        bias,
        scale,
    )
    monkeypatch.setattr(attention, "attend", wrong)
    details = {row.detail for row in rows_attention.heads() if not row.passed}
    assert details == {"grouped-query"}


def test_relative_bias_the_wrong_way_round(monkeypatch):
    right = position.RelativeBias.forward
    monkeypatch.setattr(
        position.RelativeBias, "forward", lambda self, query, key: right(self, query, key).mT
    )
    assert failing(rows_attention.relative()) == {"6 relative bias"}


def test_rotary_turned_backwards(monkeypatch):
    right = position._turns
    monkeypatch.setattr(position, "_turns", lambda *a: (right(*a)[0], -right(*a)[1]))
    failed = failing_formulas(moved(presets.modern(**WORDS)))
    assert {"q_i = x_i W_Q", "k_i = x_i W_K", WHOLE} <= failed
    assert "v_i = x_i W_V" not in failed


def test_padding_of_the_source_seen(monkeypatch):
    monkeypatch.setattr(stack, "SOURCE_MASK", mask.Everything())
    rows = verify.model_rows(
        moved(presets.t5(**WORDS, d_ff=48)), batch_for(presets.t5(**WORDS, d_ff=48))
    )
    assert "7 cross-attention" in failing(rows)


def test_a_cache_that_forgets(monkeypatch):
    monkeypatch.setattr(cache.Cache, "store", lambda self, layer, keys, values: (keys, values))
    monkeypatch.setattr(cache.Cache, "advanced", lambda self, new: cache.Cache(new))
    assert failing(rows_task.generation()) == {"16 generation"}


def test_a_head_that_is_not_tied_any_more():
    model = moved(GPT)
    model.head.weight = torch.nn.Parameter(model.head.weight.detach() * 1.001)
    model.tie = lambda: None
    assert failing_formulas(model) == {"u = h Eᵀ", WHOLE}


def test_a_loss_that_counts_padding(monkeypatch):
    right = losses.cross_entropy

    def wrong(logits, targets):
        return losses.LossSum(right(logits, targets).total, targets.numel())

    monkeypatch.setattr(rows_task, "cross_entropy", wrong)
    assert failing(rows_task.loss()) == {"14 loss"}


def test_not_a_number_fails():
    model = moved(GPT)
    with torch.no_grad():
        model.decoder.blocks[0].feedforward.down_proj.weight[0, 0] = float("nan")
    rows = list(verify.model_rows(model, batch_for(GPT)))
    assert "10 feed-forward" in failing(rows)
    assert any(row["max_abs_error"] is None and not row["passed"] for row in verify.as_json(rows))
