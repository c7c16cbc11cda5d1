"""Equations of the notes on a given model's own weights and a given batch, step by step and as a
whole.

The reference computes each step from the very input that production's step had, so that a wrong
step shows in its own row; the last rows compare whole forward passes. One row holds the worst of
all blocks.
"""

from collections.abc import Iterator
from dataclasses import replace
from functools import partial

import numpy as np
import torch
from torch import Tensor

from glassformer.core.batch import IGNORE, Batch
from glassformer.layers.cache import Cache
from glassformer.layers.losses import cross_entropy
from glassformer.models.config import ModelConfig
from glassformer.models.transformer import Transformer
from glassformer.verify import reference as ref
from glassformer.verify.production import Production, array, reference_logits, sample_of
from glassformer.verify.reference import Array
from glassformer.verify.reference_model import ReferenceModel
from glassformer.verify.row import Gap, Row, rows_of, variant

CLAIMS = {
    "resid_pre": "embedding",
    "attention_norm": "norm",
    "cross_norm": "norm",
    "feedforward_norm": "norm",
    "feedforward_out": "ffn",
    "input": "block",
    "resid_mid": "block",
    "resid_post": "block",
    "logits": "head",
}
"""Claims of steps that are not named like them."""


def model_rows(model: Transformer, batch: Batch) -> Iterator[Row]:
    """Every equation that `model` uses, on its own weights and `batch`; the model itself is not
    changed.

    A float64 copy is made. Tolerances grow with the largest number compared, as rounding does.
    """
    return rows_of(model_gaps(model, batch))


def model_gaps(model: Transformer, batch: Batch) -> Iterator[Gap]:
    """The gaps of `model_rows`."""
    seen = Production(model, batch)
    for row in range(len(batch.elements)):
        yield from steps(seen, row)
    for side in seen.sides:
        for layer in range(model.config.depth(side)):
            yield gradient(seen, side, layer)
    yield from outputs(seen)
    if seen.model.decoder is not None:
        yield from past(seen)
    if not model.config.reads_patches:
        yield permutation(seen)


def steps(seen: Production, row: int) -> list[Gap]:
    """Equations 1, 3 to 13 and 18, each step from production's own input of that step."""
    gaps: list[Gap] = []
    weights, config, source = seen.reference.weights, seen.model.config, seen.batch.source
    reference = ReferenceModel(weights, config, partial(compare, seen, row, gaps))
    reference.logits(sample_of(seen.batch, row), source and sample_of(source, row))
    return gaps


def compare(seen: Production, row: int, gaps: list[Gap], name: str, expected: Array) -> Array:
    """Add the gaps of a step; return production's value, from which the next step begins."""
    path, _, kind = name.rpartition(".")
    owner, got = path.rpartition(".")[2], array(seen.values[name][row])
    step = f"{owner}.{kind}" if owner in ("attention", "cross") else CLAIMS.get(kind, kind)
    found: list[tuple[str, Array, Array]] = [(step, got, expected)]
    match kind:
        case "scores":
            closed = expected == -np.inf
            weights = array(seen.values[f"{path}.pattern"][row])[closed]
            found.append((f"{owner}.mask", weights, np.zeros_like(weights)))
        case "pattern":  # a query that may attend to nothing has weights 0
            found.append((f"{owner}.sum", got.sum(-1), expected.sum(-1)))
        case "z":
            found.append((f"{owner}.fused", array(seen.fused_z[name][row]), expected))
    own = special_cases(seen.model.config)
    gaps += [Gap(variant(claim, *own), f"{name} row {row}", *pair) for claim, *pair in found]
    return got


def special_cases(config: ModelConfig) -> tuple[str, ...]:
    """Ends of the names of claims that are those of some models only."""
    return (
        config.elements,
        config.position,
        f"{config.position}.{config.bias_placement}",
        config.norm,
        "gated" if config.gated else "",
        config.norm_placement + ("" if config.residual else ".without"),
        "" if config.residual else "without",
        f"{config.head}.distilled" if config.distilled else "",
        f"{config.head}.untied" if not config.tied else "",
        config.head,
    )


def outputs(seen: Production) -> Iterator[Gap]:
    """Equation 14, and the whole forward pass."""
    config, logits, targets = seen.model.config, seen.values["logits"], seen.batch.targets
    if targets is not None and not config.gives_vectors:
        total, count = ref.cross_entropy(array(logits), targets.numpy(), IGNORE)
        summed, n = cross_entropy(logits.detach(), targets), max(count, 1)
        got = float(summed.total) / n, summed.count / n
        yield Gap("loss", f"{count} targets", got, (total / n, count / n))
    whole = np.stack(reference_logits(seen.reference, seen.batch))
    yield Gap("whole", "", seen.fused.logits, whole)


@torch.no_grad()
def past(seen: Production) -> Iterator[Gap]:
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
        lengths=None,
        parts=tuple(part.taken(slots, batch.elements.shape[1]) for part in batch.parts),
    )


@torch.no_grad()
def permutation(seen: Production) -> Gap:
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


def gradient(seen: Production, side: str, layer: int) -> Gap:
    """Equation 19 for the attention half of a block: (∂x_mid/∂x_pre) w for a random w, in the first
    row."""
    name, reference = f"{side}.blocks.{layer}", seen.reference
    before, after = (seen.values[f"{name}.{point}"] for point in ("resid_pre", "resid_mid"))
    generator = torch.Generator().manual_seed(0)
    w = torch.zeros_like(before)
    w[0] = torch.randn(before[0].shape, generator=generator, dtype=w.dtype)
    with torch.inference_mode(False), torch.enable_grad():
        # uᵀ J is linear in u: its derivative along w is J w.
        u = torch.zeros_like(after, requires_grad=True)
        (back,) = torch.autograd.grad(after, before, u, create_graph=True)
        (got,) = torch.autograd.grad(back, u, w, retain_graph=True)
    sample, source = reference.positions(sample_of(seen.batch_of(side), 0)), None
    if seen.sides[0] != side:
        encoded = reference.positions(sample_of(seen.batch_of("encoder"), 0))
        source = array(seen.values["encoder.out"][0]), encoded
    half = lambda x: reference.attend_half(name, x, sample, source)
    expected = ref.derivative(half, array(before[0]), array(w[0]))
    return Gap(variant("gradient", *special_cases(seen.model.config)), name, got[0], expected)
