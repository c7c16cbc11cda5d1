"""Equations of the notes on a given model's own weights and a given batch, step by step and as a
whole.

The reference computes each step from the very input that production's step had, so that a wrong
step shows in its own row; the last rows compare whole forward passes. One row holds the worst of
all blocks.
"""

from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import torch
from torch import Tensor

from glassformer.batch import IGNORE, Batch
from glassformer.layers.cache import Cache
from glassformer.losses import cross_entropy
from glassformer.models.transformer import Transformer
from glassformer.verify import reference as ref
from glassformer.verify.look import Look, array, reference_logits, sample_of
from glassformer.verify.row import Gap, Row, rows_of, variant


def model_rows(model: Transformer, batch: Batch) -> Iterator[Row]:
    """Every equation that `model` uses, on its own weights and `batch`; the model itself is not
    changed.

    A float64 copy is made. Tolerances grow with the largest number compared, as rounding does.
    """
    return rows_of(model_gaps(model, batch))


def model_gaps(model: Transformer, batch: Batch) -> Iterator[Gap]:
    """The gaps of `model_rows`."""
    seen = Look(model, batch)
    yield from embeddings(seen)
    for name in seen.blocks:
        for branch in ("attention", "cross"):
            yield from attention(seen, f"{name}.{branch}")
        yield from residual(seen, name)
        yield from gradient(seen, name)
    yield from modules(seen)
    yield from outputs(seen)
    if seen.model.decoder is not None and in_order(seen):
        yield from past(seen)
    if not model.config.reads_patches:
        yield permutation(seen)


def embeddings(seen: Look) -> Iterator[Gap]:
    """Equations 8 and 18: position vectors, and the sum that enters the first block."""
    reference, model, elements = seen.reference, seen.model, seen.model.config.elements
    for side in seen.sides:
        own = model.source_embed if side == "encoder" else None
        position, table = (own or model.embed).position, reference.table(side)
        got = None if position is None else position(model.positions(seen.given(side)))
        for row in seen.rows:
            sample, place = seen.sample(side, row), f"{side} row {row}"
            added = None if got is None else array(got[row if len(got) > 1 else 0])
            if added is not None:
                expected = reference.position_vectors(sample.position, table)
                assert expected is not None
                yield Gap("positions", place, added, expected, type(position))
            x = seen.kept[f"{side}.blocks.0.resid_pre"][row]
            embedded = reference.embed(sample, added, table)
            yield Gap(variant("embedding", elements), place, x, embedded)


def attention(seen: Look, name: str) -> Iterator[Gap]:
    """Equations 1, 3, 4, 5 and 6 (7 for cross-attention), each step from production's own input of
    that step."""
    if name not in seen.calls:
        return
    reference, config, branch = seen.reference, seen.model.config, name.split(".")[-1]
    bias_kind = f"{config.position}.{config.bias_placement}"
    points = ("q", "k", "v", "scores", "pattern", "z")
    for row in seen.rows:

        def gap(step: str, got: Tensor | ref.Array, expected: ref.Array, row: int = row) -> Gap:
            return Gap(variant(f"{branch}.{step}", bias_kind), f"{name} row {row}", got, expected)

        q, k, v, scores, pattern, z = (array(seen.kept[f"{name}.{key}"][row]) for key in points)
        x, sample, source = array(seen.calls[name][0][row]), seen.sample(name, row), None
        keys, (mask, bias, rotated_at) = x, reference.surroundings(name.split(".")[0], sample)
        if branch == "cross" and (source := seen.source(name, row)):
            keys, mask = source[0], reference.source_mask(sample, source[1])
            bias, rotated_at = 0.0, None
        for which, got, given in (("q", q, x), ("k", k, keys), ("v", v, keys)):
            yield gap(which, got, reference.project_heads(name, which, given, rotated_at))
        expected, is_open = reference.scores(q, k, mask, bias), np.isfinite(mask)
        yield gap("S", scores, expected)
        yield gap("A", pattern, ref.softmax(scores))
        some = is_open.any(-1)  # a query that may attend to nothing has weights 0
        yield gap("sum", pattern.sum(-1), np.broadcast_to(some, pattern.shape[:2]))
        yield gap("M", pattern[:, ~is_open], np.zeros_like(pattern[:, ~is_open]))
        yield gap("Z", z, reference.weighted(pattern, v))
        fused = seen.fused_z[f"{name}.z"][row]
        yield gap("fused", fused, reference.weighted(ref.softmax(expected), v))
        yield gap("O", seen.kept[f"{name}_out"][row], reference.mix_heads(name, z))


def residual(seen: Look, name: str) -> Iterator[Gap]:
    """Equations 11 and 12: the stream after each half of a block, from production's branches."""
    config = seen.model.config
    claim = f"block.{config.norm_placement}" + ("" if config.residual else ".without")
    for begin, end, branches in (
        ("resid_pre", "resid_mid", ("attention", "cross")),
        ("resid_mid", "resid_post", ("feedforward",)),
    ):
        x = array(seen.kept[f"{name}.{begin}"])
        for branch in (f"{name}.{branch}" for branch in branches):
            if branch in seen.calls:
                out = array(seen.kept[f"{branch}_out"])
                x = seen.reference.sublayer(branch, x, lambda _, out=out: out)
        yield Gap(claim, f"{name}.{end}", seen.kept[f"{name}.{end}"], x)


def modules(seen: Look) -> Iterator[Gap]:
    """Equations 9 and 10: each norm of the stream and each feed-forward network."""
    config, reference = seen.model.config, seen.reference
    for path, (x, got) in seen.calls.items():
        if path.endswith(("attention_norm", "cross_norm", "feedforward_norm", "coder.norm")):
            yield Gap(f"norm.{config.norm}", path, got, reference.norm(path, array(x)))
        if path.endswith(".feedforward"):
            claim = "ffn.gated" if config.gated else "ffn"
            yield Gap(claim, path, got, reference.feed_forward(path, array(x)))


def outputs(seen: Look) -> Iterator[Gap]:
    """Equations 13, 14 and 18, and the whole forward pass."""
    config, logits, targets = seen.model.config, seen.logits, seen.batch.targets
    hidden = array(seen.kept[f"{seen.sides[-1]}.out"])
    kinds = (["distilled"] if config.distilled else []) + ([] if config.tied else ["untied"])
    claim, function = variant(f"head.{config.head}", *kinds), type(seen.model.head)
    heads = [seen.reference.head(hidden[row], sample_of(seen.batch, row)) for row in seen.rows]
    yield Gap(claim, "", logits, np.stack(heads), function)
    if targets is not None and not config.gives_vectors:
        total, count = ref.cross_entropy(array(logits), targets.numpy(), IGNORE)
        summed, n = cross_entropy(logits.detach(), targets), max(count, 1)
        got = float(summed.total) / n, summed.count / n
        yield Gap("loss", f"{count} targets", got, (total / n, count / n))
    whole = np.stack(reference_logits(seen.reference, seen.batch))
    yield Gap("whole", "", seen.fused.logits, whole)


def in_order(seen: Look) -> bool:
    """Whether no slot may attend to a later slot: slots are in the order of their positions."""
    samples = (seen.sample("decoder", row) for row in seen.rows)
    masks = (seen.reference.surroundings("decoder", sample)[0] for sample in samples)
    return not any(np.triu(np.isfinite(mask), 1).any() for mask in masks)


@torch.no_grad()
def past(seen: Look) -> Iterator[Gap]:
    """Equations 4 and 16: other elements from the middle on change nothing before it, and three
    pieces through a cache give the whole stream."""
    elements, whole = seen.batch.elements, seen.fused.features.hidden
    length = elements.shape[1]
    t, other = length // 2, elements.clone()
    other[:, t:] = (other[:, t:] + 1) % seen.model.config.vocab_size
    got = seen.model.features(replace(seen.batch, elements=other)).hidden[:, :t]
    yield Gap("causality", f"t = {t} of {length}", got, array(whole[:, :t]))
    cache, memory, read = Cache(), None, []
    for slots in torch.arange(length).tensor_split([t, t + 1]):
        if len(slots):
            features = seen.model.features(select_slots(seen.batch, slots), memory, cache)
            memory, cache = features.memory, features.cache
            read.append(features.hidden)
    yield Gap("cache", "", torch.cat(read, 1), array(whole))


def select_slots(batch: Batch, slots: Tensor) -> Batch:
    """The elements in these slots, each with its own position, and the same source."""
    take = lambda t: None if t is None else t[:, slots]
    return replace(
        batch,
        elements=batch.elements[:, slots],
        positions=batch.where().mapped(lambda t: t[:, slots]),
        token_type_ids=take(batch.token_type_ids),
        parts=tuple(part.taken(slots, batch.elements.shape[1]) for part in batch.parts),
    )


@torch.no_grad()
def permutation(seen: Look) -> Gap:
    """Equation 17: slots in another order, each element with its own position (where there are
    positions)."""
    order = torch.randperm(seen.batch.elements.shape[1], generator=torch.Generator().manual_seed(0))
    batch, source, config = select_slots(seen.batch, order), seen.batch.source, seen.model.config
    if source is not None:
        backwards = torch.arange(source.elements.shape[1]).flip(0)
        batch = replace(batch, source=select_slots(source, backwards))
    none = config.position == "none" and seen.model.decoder is None
    claim, got = "permutation.none" if none else "permutation", seen.model.features(batch).hidden
    return Gap(claim, "", got, array(seen.fused.features.hidden[:, order]))


def gradient(seen: Look, name: str) -> Iterator[Gap]:
    """Equation 19 for the attention half of a block: (∂x_mid/∂x_pre) w for a random w, in the first
    row."""
    before, after = seen.kept[f"{name}.resid_pre"], seen.kept[f"{name}.resid_mid"]
    generator = torch.Generator().manual_seed(0)
    w = torch.zeros_like(before)
    w[0] = torch.randn(before[0].shape, generator=generator, dtype=w.dtype)
    with torch.inference_mode(False), torch.enable_grad():
        # uᵀ J is linear in u: its derivative along w is J w.
        u = torch.zeros_like(after, requires_grad=True)
        (back,) = torch.autograd.grad(after, before, u, create_graph=True)
        (got,) = torch.autograd.grad(back, u, w, retain_graph=True)
    sample, source = seen.sample(name, 0), seen.source(name, 0)
    half = lambda x: seen.reference.attend_half(name, x, sample, source)
    expected = ref.derivative(half, array(before[0]), array(w[0]))
    claim = "gradient" if seen.model.config.residual else "gradient.without"
    yield Gap(claim, name, got[0], expected)
