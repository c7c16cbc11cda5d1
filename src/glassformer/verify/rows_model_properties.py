"""What must hold for a given model beside its equations: causality, cache, permutation, the
residual gradient."""

from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from itertools import pairwise

import numpy as np
import torch
from torch import Tensor

from glassformer.batch import Batch, Part, Positions
from glassformer.layers.cache import Cache, FixedCache
from glassformer.models.transformer import Transformer
from glassformer.verify import reference as ref
from glassformer.verify.cases import array, draw
from glassformer.verify.look import Look
from glassformer.verify.row import DEEP, EXACT, Row, max_error, name_of, row


def property_rows(seen: Look) -> Iterator[Row]:
    """Those of the properties that the model's architecture and the batch have."""
    if seen.model.decoder is not None and in_order(seen):
        yield from causality(seen)
        yield from caching(seen)
    if seen.model.config.elements == "tokens":
        yield from permutation(seen)
    yield from gradient(seen)


def in_order(seen: Look) -> bool:
    """True if no slot may attend to a later slot: the slots stand in the order of their
    positions."""
    masks = (seen.reference.mask("decoder", seen.sample("decoder", row)) for row in seen.rows())
    return not any(np.triu(np.isfinite(mask), 1).any() for mask in masks)


def scaled(seen: Look) -> float:
    """DEEP times the largest number in the stream (at least 1)."""
    return DEEP * max(1.0, float(seen.output.features.hidden.detach().abs().max()))


def causality(seen: Look) -> Iterator[Row]:
    """Equation 4: change every element from slot t on, and look at the slots before it."""
    length = seen.batch.elements.shape[1]
    t = length // 2
    other = seen.batch.elements.clone()
    other[:, t:] = (other[:, t:] + 1) % seen.model.config.vocab_size
    with torch.no_grad():
        got = seen.model.features(replace(seen.batch, elements=other)).hidden[:, :t]
    formula = "changing token t+1 changes nothing up to t"
    expected = array(seen.fused.features.hidden[:, :t])
    yield row(
        "Notes A, B, D, E",
        "4 causality",
        formula,
        Transformer,
        got,
        expected,
        EXACT,
        f"t = {t} of {length}",
    )


def caching(seen: Look) -> Iterator[Row]:
    """Equation 16: the elements in three pieces through a cache give what they give at once."""
    length = seen.batch.elements.shape[1]
    cuts = sorted({0, length // 2, min(length // 2 + 1, length), length})
    for cache in (Cache(), FixedCache(capacity=length)):
        memory, kind, pieces = None, type(cache), []
        with torch.no_grad():
            for begin, end in pairwise(cuts):
                features = seen.model.features(_piece(seen.batch, begin, end), memory, cache)
                assert features.cache is not None
                memory, cache = features.memory, features.cache
                pieces.append(features.hidden)
        got, expected = torch.cat(pieces, dim=1), array(seen.fused.features.hidden)
        yield row(
            "Note D", "16 generation", "with cache = without", kind, got, expected, scaled(seen)
        )


def _piece(batch: Batch, begin: int, end: int) -> Batch:
    cut = lambda t: None if t is None else t[:, begin:end]  # noqa: E731
    p = batch.where()
    positions = Positions(
        p.position[:, begin:end],
        cut(p.document),
        cut(p.valid),
        None if p.start is None else p.start + begin,
    )
    parts = _parts(batch, torch.arange(begin, end))
    return Batch(
        batch.elements[:, begin:end],
        positions,
        None,
        cut(batch.token_type_ids),
        batch.source,
        parts=parts,
    )


def _parts(batch: Batch, slots: Tensor) -> tuple[Part, ...]:
    return tuple(part.taken(slots, batch.elements.shape[1]) for part in batch.parts)


def permutation(seen: Look) -> Iterator[Row]:
    """Equation 17: slots in another order, every element with its own position (where there are
    positions)."""
    order = torch.randperm(seen.batch.elements.shape[1], generator=torch.Generator().manual_seed(0))
    with torch.no_grad():
        got = seen.model.features(_permuted(seen.batch, order)).hidden
    expected = array(seen.fused.features.hidden[:, order])
    free = seen.model.config.position == "none" and seen.model.decoder is None
    detail = "no positions" if free else "each element keeps its position"
    yield row(
        "Notes A, D",
        "17 permutation",
        "Z(RX) = R Z(X)",
        Transformer,
        got,
        expected,
        scaled(seen),
        detail,
    )


def _permuted(batch: Batch, order: Tensor) -> Batch:
    move = lambda t: None if t is None else t[:, order]  # noqa: E731
    p = batch.where()
    positions = Positions(p.position[:, order], move(p.document), move(p.valid))
    source = batch.source
    if source is not None:
        backwards = torch.arange(source.elements.shape[1] - 1, -1, -1)
        source = _permuted(source, backwards)
    return Batch(
        batch.elements[:, order],
        positions,
        None,
        move(batch.token_type_ids),
        source,
        parts=_parts(batch, order),
    )


def gradient(seen: Look) -> Iterator[Row]:
    """Equation 19 for the attention half of every block: uᵀ (∂x_mid/∂x_pre) w for random u and w,
    in the first row."""
    found = (0.0, DEEP, "")
    with torch.inference_mode(False), torch.enable_grad():
        for step in seen.steps:
            before, after = step.kept["resid_pre"], step.kept["resid_mid"]
            u, w = draw(f"{step.name} u", *after.shape), draw(f"{step.name} w", *before.shape)
            u[1:], w[1:] = 0, 0
            u, w = u / u.norm(), w / w.norm()
            (back,) = torch.autograd.grad(after, before, u, retain_graph=True)
            sample, source = seen.sample(step.side, 0), seen.source(step.side, 0)
            half = partial(
                seen.reference.attend_half, step.side, step.layer, sample=sample, source=source
            )
            forward = ref.derivative(half, array(before[0]), array(w[0]))
            error = max_error((back * w).sum(), np.asarray((array(u[0]) * forward).sum()))
            tolerance = DEEP * max(1.0, float(np.linalg.norm(forward)))
            if error / tolerance >= found[0] / found[1]:
                found = (error, tolerance, f"worst of {len(seen.steps)}: {step.name}")
    formula = "∂x_{i+1}/∂x_i = 1 + ∂f_i/∂x_i"
    said = f"{found[2]}, along random directions"
    function = name_of(type(seen.steps[0].block))
    yield Row("Note C", "19 residual gradient", formula, function, found[0], found[1], said)
