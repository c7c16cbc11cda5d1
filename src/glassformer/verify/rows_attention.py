"""Equations 1 to 7 of the notes: projections, attention, masks, heads, relative biases,
cross-attention, and Note E's four terms of a score.

Each production module runs in float64 on small fixed numbers beside the reference.
"""

from collections.abc import Callable, Iterator
from itertools import product

import numpy as np
import torch
from torch import Tensor

from glassformer.batch import Positions
from glassformer.layers import attend as attending
from glassformer.layers import mask as masks
from glassformer.layers import position as positions
from glassformer.layers import stack
from glassformer.layers.attention import Attention, score_scale
from glassformer.verify import reference as ref
from glassformer.verify.cases import array, context, draw, drawn, filled, flat, reference_of
from glassformer.verify.row import Row, at_least, row

FULL = masks.Allowed()
T, D, H, K = 6, 16, 4, 4


def forms() -> tuple[Callable[..., Tensor], ...]:
    """Both forms of attention."""
    return attending.attend_reference, attending.attend


def projections() -> Iterator[Row]:
    """Equation 1."""
    module, x = filled(Attention(D, H, 2, K, bias=True)), draw("x", 1, T, D)
    reference = reference_of(module, n_heads=H, n_kv_heads=2)
    heads = (module.queries(x, None), *module.keys_values(x, None))
    for which, got in zip("qkv", heads, strict=True):
        expected = reference.project_heads("it", which, flat(x))
        yield row("projection", got, expected, which, which.upper())


def simplified() -> Iterator[Row]:
    """Equation 2."""
    x, allow = draw("x", 1, 1, T, D, spread=0.5), context(masks.Causal(), T).allow
    one = flat(x)
    expected = ref.attention_by_vectors(one, one, one, 1.0, causal=True)
    for form in forms():
        yield row("simplified", form(x, x, x, allow, None, 1.0)[0], expected, function=form)


def scaled() -> Iterator[Row]:
    """Equation 3."""
    q, k, v = draw("q", 1, 1, T, K), draw("k", 1, 1, 9, K), draw("v", 1, 1, 9, 5)
    scale, given = score_scale("head", K, D), (flat(q), flat(k), flat(v), K**-0.5)
    scores = attending.attention_scores(q, k, FULL, None, scale)
    pattern, s = attending.attention_pattern(scores), ref.scores(flat(q), flat(k), K**-0.5)
    yield row("scores", scores, s)
    yield row("pattern", pattern, ref.softmax(s))
    yield row("pattern.sums", pattern.sum(-1), np.ones(T))
    for form in forms():
        z = form(q, k, v, FULL, None, scale)
        yield row("values.vectors", z, ref.attention_by_vectors(*given), function=form)
        yield row("values.matrices", z, ref.attention(*given), function=form)


def causal() -> Iterator[Row]:
    """Equation 4."""
    q, k, v = drawn("qkv", 1, 1, T, K)
    given = flat(q), flat(k), flat(v), K**-0.5
    place, allow = Positions.arange(T), context(masks.Causal(), T).allow
    table = masks.Causal().table(place, place)[0]
    m = torch.zeros(T, T).masked_fill(~table, -torch.inf)
    yield row("causal", m, ref.causal_mask(T))
    masked, closed = ref.attention(*given, ref.causal_mask(T)), table.clone()
    rest, closed[2] = masked.copy(), False
    rest[2] = 0.0
    for form in forms():
        z = form(q, k, v, allow, None, K**-0.5)
        yield row("causal.values", z, masked, function=form)
        until = ref.attention_by_vectors(*given, causal=True)
        yield row("causal.sums", z, until, function=form)
        z = form(q, k, v, masks.Allowed(dense=closed[None, None]), None, K**-0.5)
        yield row("causal.closed", z, rest, function=form)
    pattern, unmasked = (
        attending.attention_pattern(attending.attention_scores(q, k, seen, None, K**-0.5))
        for seen in (allow, FULL)
    )
    future = pattern.triu(1).abs().sum() + (pattern.sum(-1) - 1).abs().max()
    yield row("causal.pattern", future, 0.0)
    yield at_least("causal.zeroed", float((unmasked.tril().sum(-1) - 1).abs().max()), 0.1)


def heads() -> Iterator[Row]:
    """Equation 5, and its grouped-query and multi-query forms."""
    x, view = draw("x", 1, T, D), context(masks.Causal(), T)
    kinds = {
        "heads": (H, K),
        "heads.free": (H, 3),
        "heads.grouped": (2, K),
        "heads.multi-query": (1, K),
    }
    for claim, (shared, width) in kinds.items():
        module = filled(Attention(D, H, shared, width))
        reference = reference_of(module, n_heads=H, n_kv_heads=shared, d_head=width)
        expected = reference.attention("it", flat(x), flat(x), ref.causal_mask(T))
        yield row(claim, module(x, view), expected)


def four_terms() -> Iterator[Row]:
    """Note E: position vectors add three relationships to that of the contents."""
    module, x = filled(Attention(D, 1, 1, K)), draw("x", 1, T, D)
    p = positions.sinusoidal(torch.arange(T), D, dtype=torch.float64)[None]

    def scores(queried: Tensor, key: Tensor) -> Tensor:
        q, (k, _) = module.queries(queried, None), module.keys_values(key, None)
        return attending.attention_scores(q, k, FULL, None, 1.0)

    w_q, w_k = (array(linear.weight).T for linear in (module.q_proj, module.k_proj))
    terms = ref.four_terms(flat(x), ref.sinusoid(range(T), D), w_q, w_k)
    yield row("terms", scores(x + p, x + p), sum(terms))
    kinds = [("content", x), ("position", p)]
    for term, ((of, left), (to, right)) in zip(terms, product(kinds, kinds), strict=True):
        yield row("terms.one", scores(left, right), term, of, to)


def relative() -> Iterator[Row]:
    """Equation 6: Note C's table, T5's buckets, ALiBi."""
    q, k, v = drawn("qkv", 1, 2, T, K)
    given = array(q[0]), array(k[0]), array(v[0]), K**-0.5
    place, steps, table = Positions.arange(T), range(T), filled(positions.RelativeBias(2, 3))
    bias, expected = table(place, place), ref.relative(array(table.weight), steps)
    yield row("relative", bias, expected)
    for claim, factor in (("relative.inside", K**-0.5), ("relative.outside", 1.0)):
        whole = ref.attention(*given, 0.0, expected, inside=claim == "relative.inside")
        for form in forms():
            z = form(q, k, v, FULL, bias * factor, K**-0.5)[0]
            for head in range(2):
                yield row(claim, z[head], whole[head], head, function=form)
    yield from buckets(q, k, v)
    counts = (4, 6, 8, 12)
    got = [positions.alibi_slopes(count, torch.float64)[:3] for count in counts]
    yield row("alibi.slopes", torch.stack(got), [ref.alibi_slopes(count)[:3] for count in counts])
    yield row("alibi", positions.AlibiBias(4)(place, place), ref.alibi(4, steps))


def buckets(q: Tensor, k: Tensor, v: Tensor) -> Iterator[Row]:
    """T5's form of equation 6."""
    place, distance = Positions.arange(T), range(-300, 301)
    for both_ways, side in ((True, "encoder: both directions"), (False, "decoder: the past")):
        got = positions.relative_bucket(torch.tensor(distance), 32, 128, both_ways=both_ways)
        expected = [ref.bucket(d, 32, 128, both_ways=both_ways) for d in distance]
        yield row("buckets.number", got, expected, side)
    module = filled(positions.BucketBias(2, 8, 16, both_ways=True))
    bias, b = module(place, place), ref.bucketed(array(module.weight), range(T), 16, both_ways=True)
    yield row("buckets", bias, b)
    got = attending.attend(q, k, v, FULL, bias, score_scale("none", K, D))[0, 1]
    one = array(q[0, 1]), array(k[0, 1]), array(v[0, 1])
    yield row("buckets.values", got, ref.attention(*one, 1.0, 0.0, b[1]))


def cross() -> Iterator[Row]:
    """Equation 7; the notes' sources have no padding."""
    module, x, memory = filled(Attention(D, 2, 2, 8)), draw("x", 1, T, D), draw("memory", 1, 5, D)
    source = Positions.padded([3, 5]).selected(torch.tensor([0]))
    view = context(stack.SOURCE_MASK, T, source)
    seen, got = np.tile([0.0, 0.0, 0.0, -np.inf, -np.inf], (T, 1)), module(x, view, memory)
    yield row("cross", got, reference_of(module).attention("it", flat(x), flat(memory), seen))
    other = memory.clone()
    other[:, 3:] = 100 * draw("padding", 1, 2, D)
    yield row("cross.padding", module(x, view, other), array(got))


GROUPS = (projections, simplified, scaled, causal, heads, four_terms, relative, cross)
"""Functions of the rows, in order."""
