"""The notes' equations on a given model's own weights and a given batch, step by step and as a
whole.

Each step is computed by the reference from the very input that production's step had, so that a
wrong step shows in its own row; the last rows compare whole forward passes. One row holds the worst
of all blocks.
"""

from collections.abc import Callable, Iterable, Iterator
from typing import Any

import numpy as np
from torch import Tensor

from glassformer.batch import IGNORE, Batch
from glassformer.layers import attend as attending
from glassformer.layers.embed import Embedding
from glassformer.layers.feedforward import FeedForward
from glassformer.losses import cross_entropy
from glassformer.models.transformer import Transformer
from glassformer.verify import reference as ref
from glassformer.verify.cases import array, reference_logits, sample_of
from glassformer.verify.look import Look, Step, look
from glassformer.verify.row import DEEP, PRODUCT, Row, max_error, name_of
from glassformer.verify.rows_model_properties import property_rows

Gap = tuple[str, Tensor | ref.Array, ref.Array]
"""Where, what production computed there, and what the reference computes."""


def model_rows(model: Transformer, batch: Batch) -> Iterator[Row]:
    """Every equation that `model` uses, on its own weights and `batch`; the model itself is not
    changed.

    A float64 copy is made. Tolerances grow with the largest number compared, as rounding does.
    """
    seen = look(model, batch)
    yield from embedding_rows(seen)
    yield from step_rows(seen)
    yield from output_rows(seen)
    yield from property_rows(seen)


def worst(
    note: str,
    equation: str,
    formula: str,
    function: Callable[..., Any],
    gaps: Iterable[Gap],
    unit: float,
) -> Iterator[Row]:
    """One row for the gap that uses up most of its tolerance, `unit` times the largest number there
    (at least 1)."""
    rows = []
    for place, got, expected in gaps:
        finite = expected[np.isfinite(expected)]
        tolerance = unit * max(1.0, float(np.abs(finite).max(initial=0.0)))
        name = name_of(function)
        rows.append(Row(note, equation, formula, name, max_error(got, expected), tolerance, place))
    if rows:
        found = max(rows, key=lambda one: one.max_abs_error / one.tolerance)
        detail = f"worst of {len(rows)}: {found.detail}" if len(rows) > 1 else found.detail
        yield Row(
            note, equation, formula, found.function, found.max_abs_error, found.tolerance, detail
        )


def embedding_rows(seen: Look) -> Iterator[Row]:
    """Equations 8 and 18: position vectors, and the sum that enters the first block."""
    sides = sorted({step.side for step in seen.steps})
    tables = {side: seen.reference.table(side) for side in sides}
    own = seen.model.source_embed or seen.model.embed
    positions = {side: (own if side == "encoder" else seen.model.embed).position for side in sides}
    vectors: list[Gap] = []
    sums: list[Gap] = []
    for side in sides:
        position = positions[side]
        got = None if position is None else position(seen.positions(side))
        for row in range(len(got) if got is not None else 0):
            expected = seen.reference.position_vectors(
                seen.sample(side, row).position, tables[side]
            )
            assert got is not None
            assert expected is not None
            vectors.append((f"{side} row {row}", got[row], expected))
        for row in seen.rows():
            added = None if got is None else array(got[row if len(got) > 1 else 0])
            expected = seen.reference.embed(seen.sample(side, row), added, tables[side])
            sums.append(
                (f"{side} row {row}", seen.kept[f"{side}.blocks.0.resid_pre"][row], expected)
            )
    if vectors:
        yield from worst(
            "Notes A, B, D, E", "8 positions", "p_i", type(positions[sides[0]]), vectors, PRODUCT
        )
    patches = seen.model.config.elements == "patches"
    equation, formula = (
        ("18 images", "x_t = patch_t W_emb + p_t")
        if patches
        else ("8 positions", "x_i = E[id_i] + p_i")
    )
    yield from worst(
        "Note D" if patches else "Notes A to E", equation, formula, Embedding, sums, PRODUCT
    )


def step_rows(seen: Look) -> Iterator[Row]:
    """Equations 1, 3 to 7 and 9 to 12 in every block."""
    crossed = any("cross" in step.branches for step in seen.steps)
    for branch in ("attention", "cross") if crossed else ("attention",):
        steps = [step for step in seen.steps if branch in step.branches]
        yield from attention_rows(seen, steps, branch)
    norms = [gap for step in seen.steps for gap in norm_gaps(seen, step)]
    for side in sorted({step.side for step in seen.steps}):
        last = [step for step in seen.steps if step.side == side][-1].kept["resid_post"]
        if seen.model.config.norm_placement == "pre":
            norms.append(
                (
                    f"{side}.norm",
                    seen.kept[f"{side}.out"],
                    seen.reference.norm(f"{side}.norm", array(last)),
                )
            )
    kind = type(seen.steps[0].block.attention_norm)
    formula = (
        "γ (x − μ) / √(σ² + ε) + β"
        if seen.model.config.norm == "layer"
        else "γ x / √(mean(x²) + ε)"
    )
    yield from worst("Notes B, C", "9 layer norm", formula, kind, norms, PRODUCT)
    fed = [
        (
            f"{step.name}.feedforward",
            step.kept["feedforward_out"],
            seen.reference.feed_forward(
                f"{step.name}.feedforward", array(step.branches["feedforward"])
            ),
        )
        for step in seen.steps
    ]
    formula = "(φ(x W_g) ⊙ x W₁) W₂" if seen.model.config.gated else "φ(x W₁ + b₁) W₂ + b₂"
    yield from worst("Notes B, D, E", "10 feed-forward", formula, FeedForward, fed, PRODUCT)
    pre = seen.model.config.norm_placement == "pre"
    note, formula = ("Notes B, D, E", "x + f(LN(x))") if pre else ("Notes B, C, E", "LN(x + f(x))")
    joined = [gap for step in seen.steps for gap in residual_gaps(seen, step)]
    yield from worst(
        note,
        "11, 12 norm placement and residual",
        formula,
        type(seen.steps[0].block),
        joined,
        PRODUCT,
    )


def norm_gaps(seen: Look, step: Step) -> Iterator[Gap]:
    """Every norm of a block, on the input it had."""
    for name, x in step.norms.items():
        expected = seen.reference.norm(f"{step.name}.{name}", array(x))
        yield f"{step.name}.{name}", getattr(step.block, name)(x), expected


def residual_gaps(seen: Look, step: Step) -> Iterator[Gap]:
    """How the branches join the stream."""
    kept = {
        name: array(t)
        for name, t in step.kept.items()
        if t.dim() == 3 and not name.startswith("feedforward.")
    }
    x, pre = kept["resid_pre"], seen.model.config.norm_placement == "pre"
    for branch in ("attention", "cross", "feedforward"):
        if branch in step.branches:
            x = x + kept[f"{branch}_out"]
            x = x if pre else seen.reference.norm(f"{step.name}.{branch}_norm", x)
        if branch == "cross":
            yield f"{step.name}.resid_mid", step.kept["resid_mid"], x
            x = kept["resid_mid"]
    yield f"{step.name}.resid_post", step.kept["resid_post"], x


def attention_rows(seen: Look, steps: list[Step], branch: str) -> Iterator[Row]:
    """Equations 1, 3, 4, 5 and 6 (7 for cross-attention), one row for each step of the
    computation."""
    gaps: dict[str, list[Gap]] = {
        key: [] for key in ("q", "k", "v", "S", "A", "sum", "M", "Z", "fused", "O")
    }
    for step in steps:
        for row in seen.rows():
            for key, gap in attention_gaps(seen, step, branch, row):
                gaps[key].append(gap)
    kind = type(getattr(steps[0].block, branch))
    cross = branch == "cross"
    inside = seen.model.config.bias_placement == "inside"
    bias = seen.stack("decoder" if cross else steps[0].side).bias if not cross else None
    formula = (
        "S = Q Kᵀ / √d_k"
        if bias is None
        else "S = (Q Kᵀ + B) / √d_k"
        if inside
        else "S = Q Kᵀ / √d_k + B"
    )
    note, prefix = ("Notes C, E", "7 cross-attention") if cross else ("Notes A, B, C, D, E", "")
    for key, equation, said, function in (
        ("q", "1 projections", "q_i = x_i W_Q", kind),
        ("k", "1 projections", "k_i = x_i W_K", kind),
        ("v", "1 projections", "v_i = x_i W_V", kind),
        (
            "S",
            "3 attention" if bias is None else "6 relative bias",
            formula + " + M",
            attending.attention_scores,
        ),
        ("A", "3 attention", "A = softmax(S) by rows", attending.attention_pattern),
        ("sum", "3 attention", "Σ_j a_ij = 1", attending.attention_pattern),
        ("M", "4 mask", "a_ij = 0 where M_ij = −∞", attending.attention_pattern),
        ("Z", "3 attention", "Z = A V", attending.attention_values),
        ("fused", "3 attention", "Z by the fused kernel = softmax(S) V", attending.attend),
        ("O", "5 heads", "concat(Z¹ .. Zᴴ) W_O", kind),
    ):
        yield from worst(note, prefix or equation, said, function, gaps[key], PRODUCT)


def attention_gaps(seen: Look, step: Step, branch: str, row: int) -> Iterator[tuple[str, Gap]]:
    """Every step of one attention in one row, each from production's own input of that step."""
    name, reference = f"{step.name}.{branch}", seen.reference
    sample, source = seen.sample(step.side, row), seen.source(step.side, row)
    kept = {
        key: step.kept[f"{branch}.{key}"][row] for key in ("q", "k", "v", "scores", "pattern", "z")
    }
    x = array(step.branches[branch][row])
    if branch == "cross":
        assert source is not None
        keys, turned_at, bias, mask = (
            source.hidden,
            None,
            None,
            reference.source_mask(sample, source),
        )
    else:
        keys, turned_at = x, sample.position
        bias = reference.bias(step.side, sample.position, sample.position)
        mask = reference.mask(step.side, sample)
    where = f"{name} row {row}"
    for which, given in (("q", x), ("k", keys), ("v", keys)):
        expected = reference.project_heads(name, which, given, turned_at)
        yield which, (where, kept[which], np.stack(expected))
    q, k, v = (list(array(kept[which])) for which in "qkv")
    scores = reference.scores(q, k, mask, bias)
    yield "S", (where, kept["scores"], np.stack(scores))
    yield "A", (where, kept["pattern"], ref.softmax(array(kept["scores"])))
    some = (
        np.isfinite(mask).any(-1).astype(np.float64)
    )  # a query that may attend to nothing has weights 0
    yield "sum", (where, kept["pattern"].sum(-1), np.broadcast_to(some, kept["pattern"].shape[:2]))
    hidden = array(kept["pattern"])[:, ~np.isfinite(mask)]
    yield "M", (where, hidden, np.zeros_like(hidden))
    z = reference.weighted(list(array(kept["pattern"])), v)
    yield "Z", (where, kept["z"], np.stack(z))
    whole = np.stack(reference.weighted([ref.softmax(s) for s in scores], v))
    yield "fused", (where, step.fused_z[f"{branch}.z"][row], whole)
    mixed = reference.linear(f"{name}.out_proj", np.concatenate(list(array(kept["z"])), axis=1))
    yield "O", (where, step.kept[f"{branch}_out"][row], mixed)


def output_rows(seen: Look) -> Iterator[Row]:
    """Equations 13, 14 and 18, and the whole forward pass."""
    side = seen.steps[-1].side
    hidden, logits, reference = seen.kept[f"{side}.out"], seen.output.logits, seen.reference
    samples = [sample_of(seen.batch, row) for row in seen.rows()]
    expected = np.stack([reference.head(array(hidden[row]), samples[row]) for row in seen.rows()])
    equation, formula = {
        "lm": ("13 language model head", "u = h Eᵀ" if seen.model.config.tied else "u = h W + b"),
        "masked_lm": ("13 language model head", "u = LN(GELU(h W + b)) Eᵀ + b"),
        "tag": ("18 tasks", "h_t W + b for every t"),
        "classify": ("18 tasks", "pool(h) W + b"),
        "pool": ("18 tasks", "pool(h)"),
        "none": ("13 no head", "h"),
    }[seen.model.config.head]
    note = {"18": "Note D", "13": "Notes B, E"}[equation[:2]]
    yield from worst(
        note, equation, formula, type(seen.model.head), [("head", logits, expected)], PRODUCT
    )
    targets = seen.batch.targets
    if targets is not None and seen.model.config.head in ("lm", "masked_lm", "tag", "classify"):
        total, count = ref.cross_entropy(array(logits), targets.numpy(), IGNORE)
        summed = cross_entropy(logits.detach(), targets)
        mean, expected_mean = summed.total / max(summed.count, 1), np.asarray(total / max(count, 1))
        formula = "−(1/n) Σ_i Σ_j y_ij log f_ij"
        yield from worst(
            "Note E",
            "14 loss",
            formula,
            cross_entropy,
            [(f"{count} targets", mean, expected_mean)],
            PRODUCT,
        )
    expected = reference_logits(reference, seen.batch)
    whole = [(f"row {row}", seen.fused.logits[row], expected[row]) for row in seen.rows()]
    formula = "the whole forward pass, elements to output"
    yield from worst("Notes A to E", "1 to 13 together", formula, Transformer, whole, DEEP)
