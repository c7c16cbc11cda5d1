"""The notes' equations on a given model's own weights and a given batch, step by step and as a
whole.

The reference computes each step from the very input that production's step had, so that a wrong
step shows in its own row; the last rows compare whole forward passes. One row holds the worst of
all blocks.
"""

from collections.abc import Callable, Iterable, Iterator
from typing import Any

import numpy as np
from torch import Tensor

from glassformer.batch import IGNORE, Batch
from glassformer.layers import attend as attending
from glassformer.layers.attention import Attention
from glassformer.layers.embed import Embedding
from glassformer.layers.feedforward import FeedForward
from glassformer.losses import cross_entropy
from glassformer.models.transformer import Transformer
from glassformer.verify import reference as ref
from glassformer.verify.cases import array, reference_logits, sample_of
from glassformer.verify.look import Look, Step, look
from glassformer.verify.row import DEEP, LATER, PRODUCT, Claim, Row, max_error
from glassformer.verify.rows_model_properties import property_rows

Gap = tuple[str, Tensor | ref.Array, ref.Array]
"""Where, what production computed there, and what the reference computes."""

ATTENTION = {
    "q": ("1 projections", "q_i = x_i W_Q", Attention),
    "k": ("1 projections", "k_i = x_i W_K", Attention),
    "v": ("1 projections", "v_i = x_i W_V", Attention),
    "S": ("3 attention", "S = Q Kᵀ / √d_k + M", attending.attention_scores),
    "A": ("3 attention", "A = softmax(S) by rows", attending.attention_pattern),
    "sum": ("3 attention", "Σ_j a_ij = 1", attending.attention_pattern),
    "M": ("4 mask", "a_ij = 0 where M_ij = −∞", attending.attention_pattern),
    "Z": ("3 attention", "Z = A V", attending.attention_values),
    "fused": ("3 attention", "Z by the fused kernel = softmax(S) V", attending.attend),
    "O": ("5 heads", "concat(Z¹ .. Zᴴ) W_O", Attention),
}
"""The steps of attention: equation, formula, production function."""

BIASED = {
    "relative": ("Note C", ""),
    "buckets": (LATER, "T5, Raffel et al. 2020"),
    "alibi": (LATER, "ALiBi, Press et al. 2022"),
}
"""Source of each score bias."""

HEADS = {
    "lm": ("Notes B, E", "13 language model head", "u = h Eᵀ"),
    "masked_lm": (LATER, "13 language model head", "u = LN(GELU(h W + b)) Eᵀ + b"),
    "tag": ("Note D", "18 tasks", "h_t W + b for every t"),
    "classify": ("Note D", "18 tasks", "pool(h) W + b"),
    "pool": (LATER, "18 tasks", "pool(h)"),
    "none": ("Notes B, E", "13 no head", "h"),
}
"""Note, equation and formula of each head."""


def model_rows(model: Transformer, batch: Batch) -> Iterator[Row]:
    """Every equation that `model` uses, on its own weights and `batch`; the model itself is not
    changed.

    A float64 copy is made. Tolerances grow with the largest number compared, as rounding does.
    """
    seen = look(model, batch)
    yield from embedding_rows(seen)
    for branch in ("attention", "cross"):
        yield from attention_rows(seen, branch)
    yield from step_rows(seen)
    yield from output_rows(seen)
    yield from property_rows(seen)


def worst(
    claim: Claim,
    formula: str,
    function: Callable[..., Any],
    gaps: Iterable[Gap],
    unit: float = PRODUCT,
) -> Iterator[Row]:
    """One row for the gap that uses up most of its tolerance, `unit` times the largest number there
    (at least 1)."""
    found: list[tuple[float, float, str]] = []
    for place, got, expected in gaps:
        largest = float(np.abs(expected[np.isfinite(expected)]).max(initial=1.0))
        found.append((max_error(got, expected), unit * largest, place))
    if found:
        error, tolerance, place = max(found, key=lambda one: one[0] / one[1])
        place = f"worst of {len(found)}: {place}" if len(found) > 1 else place
        detail = "; ".join(filter(None, (claim.detail, place)))
        yield claim.at_most(formula, function, error, tolerance, detail)


def embedding_rows(seen: Look) -> Iterator[Row]:
    """Equations 8 and 18: position vectors, and the sum that enters the first block."""
    vectors: list[Gap] = []
    sums: list[Gap] = []
    for side in seen.sides():
        own = seen.model.source_embed if side == "encoder" else None
        position, table = (own or seen.model.embed).position, seen.reference.table(side)
        got = None if position is None else position(seen.positions(side))
        for row in seen.rows():
            sample, place = seen.sample(side, row), f"{side} row {row}"
            added = None if got is None else array(got[row if len(got) > 1 else 0])
            if added is not None:
                expected = seen.reference.position_vectors(sample.position, table)
                assert expected is not None
                vectors.append((place, added, expected))
            x = seen.kept[f"{side}.blocks.0.resid_pre"][row]
            sums.append((place, x, seen.reference.embed(sample, added, table)))
    positions = Claim("Notes A, B, D, E", "8 positions")
    yield from worst(positions, "p_i", type(seen.model.embed.position), vectors)
    if seen.model.config.elements == "patches":
        claim, formula = Claim("Note D", "18 images"), "x_t = patch_t W_emb + p_t"
    else:
        claim, formula = positions.by("Notes A to E"), "x_i = E[id_i] + p_i"
    yield from worst(claim, formula, Embedding, sums)


def attention_rows(seen: Look, branch: str) -> Iterator[Row]:
    """Equations 1, 3, 4, 5 and 6 (7 for cross-attention), one row for each step of the
    computation."""
    gaps: dict[str, list[Gap]] = {key: [] for key in ATTENTION}
    for step in seen.steps:
        for row in seen.rows() if branch in step.branches else ():
            for key, got, expected in attention_gaps(seen, step, branch, row):
                gaps[key].append((f"{step.name}.{branch} row {row}", got, expected))
    config = seen.model.config
    for key, (equation, formula, function) in ATTENTION.items():
        claim = Claim("Notes A, B, C, D, E", equation)
        if branch == "cross":
            claim = Claim("Notes C, E", "7 cross-attention")
        elif key == "S" and config.position in BIASED:
            note, detail = BIASED[config.position]
            claim = Claim(note, "6 relative bias", detail)
            inside = config.bias_placement == "inside"
            formula = "S = (Q Kᵀ + B) / √d_k + M" if inside else "S = Q Kᵀ / √d_k + B + M"
        yield from worst(claim, formula, function, gaps[key])


def attention_gaps(seen: Look, step: Step, branch: str, row: int) -> Iterator[Gap]:
    """Every step of one attention in one row, each from production's own input of that step; by
    its key in ATTENTION."""
    name, reference, sample = f"{step.name}.{branch}", seen.reference, seen.sample(step.side, row)
    points = ("q", "k", "v", "scores", "pattern", "z")
    q, k, v, scores, pattern, z = (array(step.kept[f"{branch}.{key}"][row]) for key in points)
    x = keys = array(step.branches[branch][row])
    rotated_at, bias = sample.position, reference.bias(step.side, sample.position)
    mask = reference.mask(step.side, sample)
    if branch == "cross":
        source = seen.source(step.side, row)
        assert source is not None
        keys, rotated_at, bias = source.hidden, None, None
        mask = reference.source_mask(sample, source)
    for which, got, given in (("q", q, x), ("k", k, keys), ("v", v, keys)):
        yield which, got, np.stack(reference.project_heads(name, which, given, rotated_at))
    expected, open_to = reference.scores(list(q), list(k), mask, bias), np.isfinite(mask)
    yield "S", scores, np.stack(expected)
    yield "A", pattern, ref.softmax(scores)
    some = open_to.any(-1).astype(np.float64)  # a query that may attend to nothing has weights 0
    yield "sum", pattern.sum(-1), np.broadcast_to(some, pattern.shape[:2])
    yield "M", pattern[:, ~open_to], np.zeros_like(pattern[:, ~open_to])
    yield "Z", z, np.stack(reference.weighted(list(pattern), list(v)))
    whole = reference.weighted([ref.softmax(s) for s in expected], list(v))
    yield "fused", step.fused_z[f"{branch}.z"][row], np.stack(whole)
    mixed = reference.linear(f"{name}.out_proj", np.concatenate(list(z), axis=1))
    yield "O", step.kept[f"{branch}_out"][row], mixed


def step_rows(seen: Look) -> Iterator[Row]:
    """Equations 9 to 12 in every block."""
    config, reference, first = seen.model.config, seen.reference, seen.steps[0].block
    norms, fed = [], []
    for step in seen.steps:
        for name, x in step.norms.items():
            path = f"{step.name}.{name}_norm"
            got = getattr(step.block, f"{name}_norm")(x)
            norms.append((path, got, reference.norm(path, array(x))))
        path = f"{step.name}.feedforward"
        expected = reference.feed_forward(path, array(step.branches["feedforward"]))
        fed.append((path, step.kept["feedforward_out"], expected))
        last = f"{step.side}.norm"
        if step.layer == config.n_layers - 1 and config.norm_placement == "pre":
            expected = reference.norm(last, array(step.kept["resid_post"]))
            norms.append((last, seen.kept[f"{step.side}.out"], expected))
    claim, formula = Claim("Notes B, C", "9 layer norm"), "γ (x − μ) / √(σ² + ε) + β"
    if config.norm == "rms":
        claim = claim.by(LATER, "RMSNorm, Zhang & Sennrich 2019")
        formula = "γ x / √(mean(x²) + ε)"
    yield from worst(claim, formula, type(first.attention_norm), norms)
    claim, formula = Claim("Notes B, D, E", "10 feed-forward"), "φ(x W₁ + b₁) W₂ + b₂"
    if config.gated:
        claim, formula = claim.by(LATER, "gated, Shazeer 2020"), "(φ(x W_g) ⊙ x W₁) W₂"
    yield from worst(claim, formula, FeedForward, fed)
    pre = config.norm_placement == "pre"
    note, formula = ("Notes B, D, E", "x + f(LN(x))") if pre else ("Notes B, C, E", "LN(x + f(x))")
    if not config.residual:
        note, formula = "Note C", "f(LN(x))" if pre else "LN(f(x))"
    claim = Claim(note, "11, 12 norm placement and residual")
    joined = [gap for step in seen.steps for gap in residual_gaps(seen, step)]
    yield from worst(claim, formula, type(first), joined)


def residual_gaps(seen: Look, step: Step) -> Iterator[Gap]:
    """Stream after each branch; the feed-forward branch starts from production's `resid_mid`."""
    x, point = array(step.kept["resid_pre"]), "resid_mid"
    for branch in ("attention", "cross", "feedforward"):
        if branch in step.branches:
            out = array(step.kept[f"{branch}_out"])
            x = seen.reference.sublayer(f"{step.name}.{branch}_norm", x, lambda _, out=out: out)
        if branch != "attention":
            yield f"{step.name}.{point}", step.kept[point], x
            x, point = array(step.kept[point]), "resid_post"


def output_rows(seen: Look) -> Iterator[Row]:
    """Equations 13, 14 and 18, and the whole forward pass."""
    config, logits, reference = seen.model.config, seen.output.logits, seen.reference
    hidden = array(seen.kept[f"{seen.steps[-1].side}.out"])
    heads = [reference.head(hidden[row], sample_of(seen.batch, row)) for row in seen.rows()]
    note, equation, formula = HEADS[config.head]
    formula = "u = h W + b" if config.head == "lm" and not config.tied else formula
    claim = Claim(note, equation)
    yield from worst(claim, formula, type(seen.model.head), [("head", logits, np.stack(heads))])
    targets = seen.batch.targets
    if targets is not None and not config.gives_vectors:
        total, count = ref.cross_entropy(array(logits), targets.numpy(), IGNORE)
        summed, claim = cross_entropy(logits.detach(), targets), Claim("Note E", "14 loss")
        mean, expected = summed.total / max(summed.count, 1), np.asarray(total / max(count, 1))
        formula, gap = "−(1/n) Σ_i Σ_j y_ij log f_ij", (f"{count} targets", mean, expected)
        yield from worst(claim, formula, cross_entropy, [gap])
    found = enumerate(zip(seen.fused.logits, reference_logits(reference, seen.batch), strict=True))
    whole = [(f"row {row}", got, expected) for row, (got, expected) in found]
    claim = Claim("Notes A to E", "1 to 13 together")
    formula = "the whole forward pass, elements to output"
    yield from worst(claim, formula, Transformer, whole, DEEP)
