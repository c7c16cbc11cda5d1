"""Equations 1 to 7 of the notes: projections, attention, masks, heads, relative biases,
cross-attention, and Note E's four terms of a score.

Each production module runs in float64 on small fixed numbers beside the reference.
"""

from collections.abc import Iterator
from itertools import product

import numpy as np
import torch

from glassformer.batch import Positions
from glassformer.layers import attend as attending
from glassformer.layers import mask as masks
from glassformer.layers import position as positions
from glassformer.layers import stack
from glassformer.layers.attention import Attention, score_scale
from glassformer.verify import reference as ref
from glassformer.verify import reference_position as where
from glassformer.verify.cases import array, context, draw, filled, flat, reference_of
from glassformer.verify.row import EXACT, LATER, PROJECT, Claim, Row

FULL = masks.Allowed()
T, D, H, K = 6, 16, 4, 4
T5, ALIBI = "T5, Raffel et al. 2020", "ALiBi, Press et al. 2022"


def projections() -> Iterator[Row]:
    """Equation 1."""
    module, x = filled(Attention(D, H, 2, K, bias=True)), draw("x", 1, T, D)
    reference = reference_of(module, n_heads=H, n_kv_heads=2)
    one = Claim("Notes A, B, C, D, E", "1 projections")
    for which, got in zip(
        "qkv", (module.queries(x, None), *module.keys_values(x, None)), strict=True
    ):
        expected = np.stack(reference.project_heads("it", which, flat(x)))
        yield one(f"{which}_i = x_i W_{which.upper()}", Attention, got, expected)


def simplified() -> Iterator[Row]:
    """Equation 2."""
    x, allow = draw("x", 1, 1, T, D, spread=0.5), context(masks.Causal(), T).allow
    two, one = Claim("Note B", "2 simplified attention"), flat(x)
    expected = ref.attention_by_vectors(one, one, one, 1.0, causal=True)
    for form in (attending.attend_reference, attending.attend):
        yield two(
            "α_ij = softmax(x_i · x_j), j ≤ i;  a_i = Σ_j α_ij x_j",
            form,
            form(x, x, x, allow, None, 1.0)[0],
            expected,
        )


def scaled() -> Iterator[Row]:
    """Equation 3."""
    q, k, v = draw("q", 1, 1, T, K), draw("k", 1, 1, 9, K), draw("v", 1, 1, 9, 5)
    scores = attending.attention_scores(q, k, FULL, None, score_scale("head", K, D))
    pattern, three = attending.attention_pattern(scores), Claim("Notes A, B, D, E", "3 attention")
    s = ref.scores(flat(q), flat(k), K**-0.5)
    yield three("S = Q Kᵀ / √d_k", attending.attention_scores, scores, s)
    a = ref.softmax(s)
    yield three("a_ij = softmax_j(q_i · k_j / √d_k)", attending.attention_pattern, pattern, a)
    sums = three.by("Notes A, C, D, E")
    yield sums("Σ_j a_ij = 1", attending.attention_pattern, pattern.sum(-1), np.ones(T))
    vectors = ref.attention_by_vectors(flat(q), flat(k), flat(v), K**-0.5)
    for form in (attending.attend_reference, attending.attend):
        z = form(q, k, v, FULL, None, score_scale("head", K, D))
        yield three("z_i = Σ_j a_ij v_j", form, z, vectors, detail="vector form")
        yield three("Z = softmax(Q Kᵀ / √d_k) V", form, z, a @ flat(v), detail="matrix form")


def causal() -> Iterator[Row]:
    """Equation 4."""
    q, k, v = (draw(name, 1, 1, T, K) for name in "qkv")
    place, four = Positions.arange(T), Claim("Notes A to E", "4 causal mask")
    table, allow = masks.Causal().table(place, place)[0], context(masks.Causal(), T).allow
    m = torch.zeros(T, T).masked_fill(~table, -torch.inf)
    yield four("M_ij = 0 for j ≤ i, −∞ otherwise", masks.Causal, m, ref.causal_mask(T), EXACT)
    masked = ref.softmax(ref.scores(flat(q), flat(k), K**-0.5, ref.causal_mask(T))) @ flat(v)
    until = ref.attention_by_vectors(flat(q), flat(k), flat(v), K**-0.5, causal=True)
    closed = table.clone()
    closed[2] = False
    rest = np.where(np.arange(T)[:, None] == 2, 0.0, masked)
    for form in (attending.attend_reference, attending.attend):
        z = form(q, k, v, allow, None, K**-0.5)
        yield four("softmax(Q Kᵀ / √d_k + M) V", form, z, masked)
        yield four.by("Note D")("p_ij = exp(s_ij) / Σ_{t ≤ i} exp(s_it), j ≤ i", form, z, until)
        z = form(q, k, v, masks.Allowed(dense=closed[None, None]), None, K**-0.5)
        yield four.by(PROJECT, "the other rows as before")(
            "a query that may attend to nothing gives z_i = 0", form, z, rest
        )
    pattern, unmasked = (
        attending.attention_pattern(attending.attention_scores(q, k, seen, None, K**-0.5))
        for seen in (allow, FULL)
    )
    future = pattern.triu(1).abs().sum() + (pattern.sum(-1) - 1).abs().max()
    of_e = four.by("Note E")
    yield of_e("Σ_j a_ij = 1 and a_ij = 0 for j > i", attending.attention_pattern, future, 0.0)
    broken = float((unmasked.tril().sum(-1) - 1).abs().max())
    said = "shown to break the rows, never done"
    yield of_e.at_least(
        "zeroing a_ij after softmax: |Σ_j a_ij − 1| > 0.1",
        attending.attention_pattern,
        broken,
        0.1,
        said,
    )


def heads() -> Iterator[Row]:
    """Equation 5, and its grouped-query and multi-query forms."""
    x, view = draw("x", 1, T, D), context(masks.Causal(), T)
    own = Claim("Notes A to E", "5 heads")
    kinds = {
        "multi-head": (own, H, K, ""),
        "free head width": (own.by("Notes A, D, E"), H, 3, ""),
        "grouped-query": (own.by(LATER), 2, K, ", Ainslie et al. 2023"),
        "multi-query": (own.by(LATER), 1, K, ", Shazeer 2019"),
    }
    for kind, (five, shared, width, paper) in kinds.items():
        module = filled(Attention(D, H, shared, width))
        reference = reference_of(module, n_heads=H, n_kv_heads=shared, d_head=width)
        expected = reference.attention("it", flat(x), flat(x), ref.causal_mask(T))
        yield five(
            "concat(Z¹ .. Zᴴ) W_O", Attention, module(x, view), expected, detail=kind + paper
        )


def four_terms() -> Iterator[Row]:
    """Note E: position vectors add three relationships to that of the contents."""
    module, x = filled(Attention(D, 1, 1, K)), draw("x", 1, T, D)
    p = positions.sinusoidal(torch.arange(T), D, dtype=torch.float64)[None]
    (k, _), q = module.keys_values(x + p, None), module.queries(x + p, None)
    scores = attending.attention_scores(q, k, FULL, None, 1.0)
    w_q, w_k = (array(linear.weight).T for linear in (module.q_proj, module.k_proj))
    terms = ref.four_terms(flat(x), where.sinusoid(range(T), D), w_q, w_k)
    claim = Claim("Note E", "3, 8 scores with positions")
    yield claim(
        "(x_i + p_i) W_Q · (x_j + p_j) W_K = x·x + x·p + p·x + p·p",
        attending.attention_scores,
        scores,
        sum(terms),
    )
    kinds = [("content", x), ("position", p)]
    for term, ((of, left), (to, right)) in zip(terms, product(kinds, kinds), strict=True):
        q, (k, _) = module.queries(left, None), module.keys_values(right, None)
        got = attending.attention_scores(q, k, FULL, None, 1.0)
        yield claim(f"{of}-{to} term", Attention, got, term)


def relative() -> Iterator[Row]:
    """Equation 6: Note C's table, T5's buckets, ALiBi."""
    q, k, v = draw("q", 1, 2, T, K), draw("k", 1, 2, T, K), draw("v", 1, 2, T, K)
    place, steps = Positions.arange(T), list(range(T))
    table, six = filled(positions.RelativeBias(2, 3)), Claim("Note C", "6 relative bias")
    bias, expected = table(place, place), where.relative(array(table.weight), steps, steps)
    yield six("B_ij = f(i − j)", positions.RelativeBias, bias, expected, EXACT)
    inside, s = "softmax((Q Kᵀ + B) / √d_k) V", K**-0.5
    outside = six.by(LATER, "Swin, Liu et al. 2021"), "softmax(Q Kᵀ / √d_k + B) V"
    for claim, formula, factor in ((six, inside, s), (*outside, 1.0)):
        for form in (attending.attend_reference, attending.attend):
            z = form(q, k, v, FULL, bias * factor, s)[0]
            for head, (got, b) in enumerate(zip(z, expected, strict=True)):
                one_q, one_k, one_v = (array(t[0, head]) for t in (q, k, v))
                a = ref.softmax(ref.scores(one_q, one_k, s, 0.0, b, inside=factor == s))
                detail = ", ".join(filter(None, (f"head {head}", claim.detail)))
                yield claim(formula, form, got, a @ one_v, detail=detail)
    yield from buckets(q, k, v)
    six, counts = six.by(LATER, ALIBI), (4, 6, 8, 12)
    got = [positions.alibi_slopes(count, torch.float64)[:3] for count in counts]
    expected = [where.alibi_slopes(count)[:3] for count in counts]
    yield six("m_h = 2^(−8h/H)", positions.alibi_slopes, torch.stack(got), expected)
    got, expected = positions.AlibiBias(4)(place, place), where.alibi(4, steps, steps)
    yield six("B_ij = −m_h |i − j|", positions.AlibiBias, got, expected)


def buckets(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> Iterator[Row]:
    """T5's form of equation 6."""
    six = Claim(LATER, "6 relative bias", T5)
    place = Positions.arange(T)
    distance = range(-300, 301)
    for both_ways, side in ((True, "encoder: both directions"), (False, "decoder: the past")):
        got = positions.relative_bucket(torch.tensor(distance), 32, 128, both_ways=both_ways)
        expected = [where.bucket(d, 32, 128, both_ways=both_ways) for d in distance]
        detail = f"{T5}; {side}"
        yield six("T5's bucket of j − i", positions.relative_bucket, got, expected, EXACT, detail)
    module = filled(positions.BucketBias(2, 8, 16, both_ways=True))
    bias, weight = module(place, place), array(module.weight)
    b = where.bucketed(weight, range(T), range(T), 16, both_ways=True)
    yield six("B_ij = f(bucket(j − i))", positions.BucketBias, bias, b, EXACT)
    scale, (one_q, one_k, one_v) = score_scale("none", K, D), (array(t[0, 1]) for t in (q, k, v))
    z = ref.softmax(ref.scores(one_q, one_k, 1.0, 0.0, b[1])) @ one_v
    got = attending.attend(q, k, v, FULL, bias, scale)[0, 1]
    yield six("softmax(Q Kᵀ + B) V, not scaled", attending.attend, got, z)


def cross() -> Iterator[Row]:
    """Equation 7; the notes' sources have no padding."""
    module, x, memory = filled(Attention(D, 2, 2, 8)), draw("x", 1, T, D), draw("memory", 1, 5, D)
    source = Positions.padded([3, 5]).selected(torch.tensor([0]))
    view = context(stack.SOURCE_MASK, T, source)
    seen = ref.padding_mask(T, [True] * 3 + [False] * 2)
    got, seven = module(x, view, memory), Claim("Notes C, E", "7 cross-attention")
    expected = reference_of(module).attention("it", flat(x), flat(memory), seen)
    yield seven("softmax(Q_dec K_encᵀ / √d_k + M_pad) V_enc", Attention, got, expected)
    other = memory.clone()
    other[:, 3:] = 100 * draw("padding", 1, 2, D)
    yield seven.by(PROJECT)(
        "what stands at padding changes nothing",
        Attention,
        module(x, view, other),
        array(got),
        EXACT,
    )


GROUPS = (projections, simplified, scaled, causal, heads, four_terms, relative, cross)
"""Functions of the rows, in order."""
