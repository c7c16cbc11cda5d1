"""The notes' equations on a given model's own weights and a given batch, step by step and as a
whole.

The reference computes each step from the very input that production's step had, so that a wrong
step shows in its own row; the last rows compare whole forward passes. One row holds the worst of
all blocks.
"""

from collections.abc import Iterator

import numpy as np

from glassformer.batch import IGNORE, Batch
from glassformer.losses import cross_entropy
from glassformer.models.transformer import Transformer
from glassformer.verify import reference as ref
from glassformer.verify.cases import array, reference_logits, sample_of
from glassformer.verify.look import Look, look
from glassformer.verify.row import Gap, Row, variant, worst
from glassformer.verify.rows_model_properties import property_rows


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


def embedding_rows(seen: Look) -> Iterator[Row]:
    """Equations 8 and 18: position vectors, and the sum that enters the first block."""
    vectors: list[Gap] = []
    sums: list[Gap] = []
    for side in sorted({side for side, _ in seen.blocks}):
        own = seen.model.source_embed if side == "encoder" else None
        position, table = (own or seen.model.embed).position, seen.reference.table(side)
        got = None if position is None else position(seen.model.positions(seen.given(side)))
        for row in seen.rows:
            sample, place = seen.sample(side, row), f"{side} row {row}"
            added = None if got is None else array(got[row if len(got) > 1 else 0])
            if added is not None:
                expected = seen.reference.position_vectors(sample.position, table)
                assert expected is not None
                vectors.append((place, added, expected))
            x = seen.kept[f"{side}.blocks.0.resid_pre"][row]
            sums.append((place, x, seen.reference.embed(sample, added, table)))
    yield from worst("model.positions", vectors, type(seen.model.embed.position))
    yield from worst(variant("model.embedding", seen.model.config.elements), sums)


def attention_rows(seen: Look, branch: str) -> Iterator[Row]:
    """Equations 1, 3, 4, 5 and 6 (7 for cross-attention), one row for each step of the
    computation."""
    gaps: dict[str, list[Gap]] = {}
    for side, layer in seen.blocks:
        name = f"{side}.blocks.{layer}.{branch}"
        for row in seen.rows if name in seen.inputs else ():
            for key, got, expected in attention_gaps(seen, side, name, row):
                gaps.setdefault(key, []).append((f"{name} row {row}", got, expected))
    bias = f"{seen.model.config.position}.{seen.model.config.bias_placement}"
    for key, found in gaps.items():
        yield from worst(variant(f"model.{branch}.{key}", bias), found)


def attention_gaps(seen: Look, side: str, name: str, row: int) -> Iterator[Gap]:
    """Every step of one attention in one row, each from production's own input of that step.

    The name of a step is that of its claim, `model.attention.q` or `model.cross.q`.
    """
    reference, sample = seen.reference, seen.sample(side, row)
    points = ("q", "k", "v", "scores", "pattern", "z")
    q, k, v, scores, pattern, z = (array(seen.kept[f"{name}.{key}"][row]) for key in points)
    x = keys = array(seen.inputs[name][row])
    rotated_at, bias = sample.position, reference.bias(side, sample.position)
    mask = reference.mask(side, sample)
    if name.endswith(".cross"):
        source = seen.source(side, row)
        assert source is not None
        keys, rotated_at, bias = source.hidden, None, 0.0
        mask = reference.source_mask(sample, source.positions)
    for which, got, given in (("q", q, x), ("k", k, keys), ("v", v, keys)):
        yield which, got, reference.project_heads(name, which, given, rotated_at)
    expected, open_to = reference.scores(q, k, mask, bias), np.isfinite(mask)
    yield "S", scores, expected
    yield "A", pattern, ref.softmax(scores)
    some = open_to.any(-1).astype(np.float64)  # a query that may attend to nothing has weights 0
    yield "sum", pattern.sum(-1), np.broadcast_to(some, pattern.shape[:2])
    yield "M", pattern[:, ~open_to], np.zeros_like(pattern[:, ~open_to])
    yield "Z", z, reference.weighted(pattern, v)
    fused = seen.fused_z[f"{name}.z"][row]
    yield "fused", fused, reference.weighted(ref.softmax(expected), v)
    mixed = reference.linear(f"{name}.out_proj", np.concatenate(z, axis=1))
    yield "O", seen.kept[f"{name}_out"][row], mixed


def step_rows(seen: Look) -> Iterator[Row]:
    """Equations 9 to 12 in every block."""
    config, reference = seen.model.config, seen.reference
    norms, fed = [], []
    for path, x in seen.inputs.items():
        if path.endswith(("attention_norm", "cross_norm", "feedforward_norm", "coder.norm")):
            norms.append((path, seen.outputs[path], reference.norm(path, array(x))))
        if path.endswith(".feedforward"):
            fed.append((path, seen.outputs[path], reference.feed_forward(path, array(x))))
    yield from worst(f"model.norm.{config.norm}", norms)
    yield from worst("model.ffn.gated" if config.gated else "model.ffn", fed)
    joined = [gap for block in seen.blocks for gap in residual_gaps(seen, *block)]
    claim = f"model.block.{config.norm_placement}"
    yield from worst(claim if config.residual else f"{claim}.without", joined)


def residual_gaps(seen: Look, side: str, layer: int) -> Iterator[Gap]:
    """Stream after each branch; the feed-forward branch starts from production's `resid_mid`."""
    name = f"{side}.blocks.{layer}"
    x, point = array(seen.kept[f"{name}.resid_pre"]), f"{name}.resid_mid"
    for branch in ("attention", "cross", "feedforward"):
        if f"{name}.{branch}" in seen.inputs:
            out = array(seen.kept[f"{name}.{branch}_out"])
            x = seen.reference.sublayer(f"{name}.{branch}_norm", x, lambda _, out=out: out)
        if branch != "attention":
            yield point, seen.kept[point], x
            x, point = array(seen.kept[point]), f"{name}.resid_post"


def output_rows(seen: Look) -> Iterator[Row]:
    """Equations 13, 14 and 18, and the whole forward pass."""
    config, logits, reference = seen.model.config, seen.output.logits, seen.reference
    hidden = array(seen.kept[f"{seen.blocks[-1][0]}.out"])
    heads = [reference.head(hidden[row], sample_of(seen.batch, row)) for row in seen.rows]
    claim = f"model.head.{config.head}"
    claim = claim if config.tied else variant(claim, "untied")
    yield from worst(claim, [("head", logits, np.stack(heads))], type(seen.model.head))
    targets = seen.batch.targets
    if targets is not None and not config.gives_vectors:
        total, count = ref.cross_entropy(array(logits), targets.numpy(), IGNORE)
        summed = cross_entropy(logits.detach(), targets)
        mean, expected = summed.total / max(summed.count, 1), np.asarray(total / max(count, 1))
        yield from worst("model.loss", [(f"{count} targets", mean, expected)])
    found = enumerate(zip(seen.fused.logits, reference_logits(reference, seen.batch), strict=True))
    whole = [(f"row {row}", got, expected) for row, (got, expected) in found]
    yield from worst("model.whole", whole)
