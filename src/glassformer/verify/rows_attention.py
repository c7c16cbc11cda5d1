"""Equations 1 to 7 of the notes: projections, attention, masks, heads, relative biases,
cross-attention.

Each production brick runs in float64 on small fixed numbers beside the reference.
"""

from collections.abc import Iterator

import numpy as np
import torch

from glassformer.batch import Positions
from glassformer.layers import attend as attending
from glassformer.layers import mask as masks
from glassformer.layers import position as positions
from glassformer.layers.attention import Attention, AttentionContext, score_scale
from glassformer.layers.stack import SOURCE_MASK
from glassformer.verify import reference as ref
from glassformer.verify import reference_position as where
from glassformer.verify.cases import array, draw, filled
from glassformer.verify.row import EXACT, Row, at_least, row

FULL = masks.Allowed()
T, D, H, K = 6, 16, 4, 4
CAUSAL = masks.Causal()


def attention_rows() -> Iterator[Row]:
    """Rows of equations 1 to 7."""
    yield from projections()
    yield from simplified()
    yield from scaled()
    yield from causal()
    yield from heads()
    yield from relative()
    yield from cross()


def projections() -> Iterator[Row]:
    """Equation 1."""
    brick, x = filled(Attention(D, H, 2, K, bias=True)), draw("x", 1, T, D)
    q, (k, v) = brick.queries(x, None)[0], [t[0] for t in brick.keys_values(x, None)]
    for got, name, linear, count in (
        (q, "q_i = x_i W_Q", brick.q_proj, H),
        (k, "k_i = x_i W_K", brick.k_proj, 2),
        (v, "v_i = x_i W_V", brick.v_proj, 2),
    ):
        expected = ref.split(
            ref.project(array(x[0]), array(linear.weight).T, array(linear.bias)), count
        )
        yield row("Notes A, B, C, D, E", "1 projections", name, Attention, got, np.stack(expected))


def simplified() -> Iterator[Row]:
    """Equation 2."""
    x = draw("x", 1, 1, T, D, spread=0.5)
    allow = masks.allowed(CAUSAL, Positions.arange(T), Positions.arange(T))
    formula = "α_ij = softmax(x_i · x_j), j ≤ i;  a_i = Σ_j α_ij x_j"
    expected = ref.simplified_attention(array(x[0, 0]))
    for form in (attending.attend_reference, attending.attend):
        yield row(
            "Note B",
            "2 simplified attention",
            formula,
            form,
            form(x, x, x, allow, None, 1.0)[0, 0],
            expected,
        )


def scaled() -> Iterator[Row]:
    """Equation 3."""
    q, k, v = draw("q", 1, 1, T, K), draw("k", 1, 1, 9, K), draw("v", 1, 1, 9, 5)
    one_q, one_k, one_v = (array(t[0, 0]) for t in (q, k, v))
    scale = score_scale("head", K, D)
    scores = attending.attention_scores(q, k, FULL, None, scale)
    pattern = attending.attention_pattern(scores)
    note, name = "Notes A, B, D, E", "3 attention"
    yield row(
        note,
        name,
        "S = Q Kᵀ / √d_k",
        attending.attention_scores,
        scores[0, 0],
        ref.scores(one_q, one_k, K**-0.5),
    )
    expected = ref.softmax(ref.scores(one_q, one_k, K**-0.5))
    yield row(
        note,
        name,
        "a_ij = softmax_j(q_i · k_j / √d_k)",
        attending.attention_pattern,
        pattern[0, 0],
        expected,
    )
    yield row(
        "Notes A, E",
        name,
        "Σ_j a_ij = 1",
        attending.attention_pattern,
        pattern.sum(-1),
        np.ones((1, 1, T)),
    )
    vectors = ref.attention_by_vectors(one_q, one_k, one_v, K**-0.5)
    for form in (attending.attend_reference, attending.attend):
        got = form(q, k, v, FULL, None, scale)[0, 0]
        yield row(note, name, "z_i = Σ_j a_ij v_j", form, got, vectors, detail="vector form")
        yield row(
            note,
            name,
            "Z = softmax(Q Kᵀ / √d_k) V",
            form,
            got,
            expected @ one_v,
            detail="matrix form",
        )


def causal() -> Iterator[Row]:
    """Equation 4."""
    q, k, v = (draw(name, 1, 1, T, K) for name in "qkv")
    one_q, one_k, one_v = (array(t[0, 0]) for t in (q, k, v))
    place, name = Positions.arange(T), "4 causal mask"
    table = masks.Causal().table(place, place)[0]
    m = np.where(table.numpy(), 0.0, -np.inf)
    formula = "M_ij = 0 for j ≤ i, −∞ otherwise"
    yield row("Notes A, B, D, E", name, formula, masks.Causal, m, ref.causal_mask(T), EXACT)
    allow = masks.allowed(CAUSAL, place, place)
    masked = ref.softmax(ref.scores(one_q, one_k, K**-0.5, ref.causal_mask(T))) @ one_v
    until = ref.attention_by_vectors(one_q, one_k, one_v, K**-0.5, causal=True)
    for form in (attending.attend_reference, attending.attend):
        got = form(q, k, v, allow, None, K**-0.5)[0, 0]
        yield row("Notes A, B, D, E", name, "softmax(Q Kᵀ / √d_k + M) V", form, got, masked)
        yield row("Note D", name, "p_ij = exp(s_ij) / Σ_{t ≤ i} exp(s_it), j ≤ i", form, got, until)
    closed = table.clone()
    closed[2] = False
    for form in (attending.attend_reference, attending.attend):
        got = form(q, k, v, masks.Allowed(dense=closed[None, None]), None, K**-0.5)[0, 0]
        expected = np.where(np.arange(T)[:, None] == 2, 0.0, masked)
        formula = "a query that may attend to nothing gives z_i = 0"
        yield row("Note E", name, formula, form, got, expected, detail="the other rows as before")
    pattern = attending.attention_pattern(attending.attention_scores(q, k, allow, None, K**-0.5))[
        0, 0
    ]
    formula = "Σ_j a_ij = 1 and a_ij = 0 for j > i"
    future = pattern.triu(1).abs().sum() + (pattern.sum(-1) - 1).abs().max()
    yield row("Note E", name, formula, attending.attention_pattern, future, 0.0)
    unmasked = attending.attention_pattern(attending.attention_scores(q, k, FULL, None, K**-0.5))[
        0, 0
    ]
    broken = float((unmasked.tril().sum(-1) - 1).abs().max())
    formula = "zeroing a_ij after softmax: |Σ_j a_ij − 1| > 0.1"
    shown = "shown to break the rows, never done"
    yield at_least("Note E", name, formula, attending.attention_pattern, broken, 0.1, shown)


def heads() -> Iterator[Row]:
    """Equation 5, and its grouped-query and multi-query forms."""
    x, place = draw("x", 1, T, D), Positions.arange(T)
    view = AttentionContext(masks.allowed(CAUSAL, place, place))
    kinds = {
        "multi-head": (H, K),
        "free head width": (H, 3),
        "grouped-query": (2, K),
        "multi-query": (1, K),
    }
    for kind, (shared, width) in kinds.items():
        brick = filled(Attention(D, H, shared, width))
        flat = array(x[0])
        q, k, v = (
            ref.split(flat @ array(linear.weight).T, count)
            for linear, count in ((brick.q_proj, H), (brick.k_proj, shared), (brick.v_proj, shared))
        )
        expected = ref.multi_head(
            q, k, v, array(brick.out_proj.weight).T, width**-0.5, ref.causal_mask(T)
        )
        formula = "concat(Z¹ .. Zᴴ) W_O"
        yield row(
            "Notes A, B, D, E",
            "5 heads",
            formula,
            Attention,
            brick(x, view)[0],
            expected,
            detail=kind,
        )


def relative() -> Iterator[Row]:
    """Equation 6: Note C's table, T5's buckets, ALiBi."""
    q, k, v = draw("q", 1, 2, T, K), draw("k", 1, 2, T, K), draw("v", 1, 2, T, K)
    place, steps = Positions.arange(T), list(range(T))
    table = filled(positions.RelativeBias(2, 3))
    bias, expected = table(place, place), where.relative(array(table.weight), steps, steps)
    name = "6 relative bias"
    yield row("Note C", name, "B_ij = f(i − j)", positions.RelativeBias, bias[0], expected, EXACT)
    s = K**-0.5
    for head in range(2):
        flat = [array(t[0, head]) for t in (q, k, v)]
        inside = ref.softmax(ref.scores_inside(flat[0], flat[1], s, 0.0, expected[head])) @ flat[2]
        outside = ref.softmax(ref.scores(flat[0], flat[1], s, 0.0, expected[head])) @ flat[2]
        for form in (attending.attend_reference, attending.attend):
            got = form(q, k, v, FULL, bias * s, s)[0, head]
            yield row(
                "Note C",
                name,
                "softmax((Q Kᵀ + B) / √d_k) V",
                form,
                got,
                inside,
                detail=f"head {head}",
            )
            got = form(q, k, v, FULL, bias, s)[0, head]
            yield row(
                "Note C",
                name,
                "softmax(Q Kᵀ / √d_k + B) V",
                form,
                got,
                outside,
                detail=f"head {head}",
            )
    yield from buckets(q, k, v)
    slopes = torch.stack(
        [positions.alibi_slopes(count, torch.float64)[:3] for count in (4, 6, 8, 12)]
    )
    expected = np.array([where.alibi_slopes(count)[:3] for count in (4, 6, 8, 12)])
    yield row("Note C (ALiBi)", name, "m_h = 2^(−8h/H)", positions.alibi_slopes, slopes, expected)
    got = positions.AlibiBias(4)(place, place)[0]
    yield row(
        "Note C (ALiBi)",
        name,
        "B_ij = −m_h |i − j|",
        positions.AlibiBias,
        got,
        where.alibi(4, steps, steps),
    )


def buckets(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> Iterator[Row]:
    """T5's form of equation 6."""
    reach, steps, place = 300, list(range(T)), Positions.arange(T)
    distance = torch.arange(-reach, reach + 1)
    for both_ways in (True, False):
        got = positions.relative_bucket(distance, 32, 128, both_ways=both_ways)
        expected = [where.bucket(d, 32, 128, both_ways=both_ways) for d in range(-reach, reach + 1)]
        side = "encoder: both directions" if both_ways else "decoder: the past"
        formula = "T5's bucket of j − i"
        yield row(
            "Note C (T5)",
            "6 relative bias",
            formula,
            positions.relative_bucket,
            got,
            expected,
            EXACT,
            side,
        )
    brick = filled(positions.BucketBias(2, 8, 16, both_ways=True))
    bias = brick(place, place)
    expected = where.bucketed(array(brick.weight), steps, steps, 16, both_ways=True)
    yield row(
        "Note C (T5)",
        "6 relative bias",
        "B_ij = f(bucket(j − i))",
        positions.BucketBias,
        bias[0],
        expected,
        EXACT,
    )
    flat = [array(t[0, 1]) for t in (q, k, v)]
    z = (
        ref.softmax(ref.scores(flat[0], flat[1], score_scale("none", K, D), 0.0, expected[1]))
        @ flat[2]
    )
    got = attending.attend(q, k, v, FULL, bias, score_scale("none", K, D))[0, 1]
    yield row(
        "Note C (T5)",
        "6 relative bias",
        "softmax(Q Kᵀ + B) V, not scaled",
        attending.attend,
        got,
        z,
    )


def cross() -> Iterator[Row]:
    """Equation 7."""
    brick, x, memory = filled(Attention(D, 2, 2, 8)), draw("x", 1, T, D), draw("memory", 1, 5, D)
    source = Positions.padded([3, 5]).selected(torch.tensor([0]))
    view = AttentionContext(masks.allowed(SOURCE_MASK, Positions.arange(T), source))
    got = brick(x, view, memory)[0]
    q = ref.split(array(x[0]) @ array(brick.q_proj.weight).T, 2)
    k, v = (
        ref.split(array(memory[0]) @ array(w.weight).T, 2) for w in (brick.k_proj, brick.v_proj)
    )
    seen = ref.padding_mask(T, [True, True, True, False, False])
    expected = ref.multi_head(q, k, v, array(brick.out_proj.weight).T, 8**-0.5, seen)
    formula = "softmax(Q_dec K_encᵀ / √d_k + M_pad) V_enc"
    yield row("Notes C, E", "7 cross-attention", formula, Attention, got, expected)
    other = memory.clone()
    other[:, 3:] = 100 * draw("padding", 1, 2, D)
    formula = "what stands at padding changes nothing"
    yield row(
        "Note E", "7 cross-attention", formula, Attention, brick(x, view, other)[0], got, EXACT
    )
