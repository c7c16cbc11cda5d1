"""Laws that hold for a given model beside its equations: causality, cache, permutation, the
residual gradient."""

from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from itertools import pairwise

import numpy as np
import torch
from torch import Tensor

from glassformer.batch import Batch, Positions
from glassformer.layers.cache import Cache, FixedCache
from glassformer.models.transformer import Transformer
from glassformer.verify import reference as ref
from glassformer.verify.cases import array, draw
from glassformer.verify.look import Look
from glassformer.verify.row import DEEP, EXACT, LATER, PROJECT, Claim, Row, max_error


def property_rows(seen: Look) -> Iterator[Row]:
    """Rows of the laws that apply to the model's architecture and the batch."""
    if seen.model.decoder is not None and in_order(seen):
        yield from causality(seen)
        yield from caching(seen)
    if seen.model.config.elements == "tokens":
        yield from permutation(seen)
    yield from gradient(seen)


def in_order(seen: Look) -> bool:
    """Whether no slot may attend to a later slot: slots stand in the order of their positions."""
    masks = (seen.reference.mask("decoder", seen.sample("decoder", row)) for row in seen.rows())
    return not any(np.triu(np.isfinite(mask), 1).any() for mask in masks)


def scaled(seen: Look) -> float:
    """DEEP times the largest number in the stream (at least 1)."""
    return DEEP * max(1.0, float(seen.output.features.hidden.detach().abs().max()))


def causality(seen: Look) -> Iterator[Row]:
    """Equation 4: change every element from slot t on, and compare the slots before it."""
    length = seen.batch.elements.shape[1]
    t, other = length // 2, seen.batch.elements.clone()
    other[:, t:] = (other[:, t:] + 1) % seen.model.config.vocab_size
    with torch.no_grad():
        got = seen.model.features(replace(seen.batch, elements=other)).hidden[:, :t]
    claim = Claim("Notes A to E", "4 causality")
    expected = array(seen.fused.features.hidden[:, :t])
    yield claim(
        "changing token t+1 changes nothing up to t",
        Transformer,
        got,
        expected,
        EXACT,
        f"t = {t} of {length}",
    )


def caching(seen: Look) -> Iterator[Row]:
    """Equation 16: the elements in three pieces through a cache give the same as at once."""
    length = seen.batch.elements.shape[1]
    cuts = sorted({0, length // 2, min(length // 2 + 1, length), length})
    claim = Claim(LATER, "16 generation", "kept keys and values, Shazeer 2019")
    for cache in (Cache(), FixedCache(capacity=length)):
        kind, pieces = type(cache), [torch.arange(*cut) for cut in pairwise(cuts)]
        batches = [_taken(seen.batch, piece) for piece in pieces]
        got, expected = in_pieces(seen.model, batches, cache), seen.fused.features.hidden
        yield claim("with cache = without", kind, got, array(expected), scaled(seen))


@torch.no_grad()
def in_pieces(model: Transformer, pieces: list[Batch], cache: Cache) -> Tensor:
    """The stream of a sequence that is read piece by piece through a cache."""
    memory, read = None, []
    for piece in pieces:
        features = model.features(piece, memory, cache)
        assert features.cache is not None
        memory, cache = features.memory, features.cache
        read.append(features.hidden)
    return torch.cat(read, dim=1)


def _taken(batch: Batch, slots: Tensor) -> Batch:
    """The elements in these slots, each with its own position; the source as it is."""
    take = lambda t: None if t is None else t[:, slots]  # noqa: E731
    p = batch.where()
    return Batch(
        batch.elements[:, slots],
        Positions(p.position[:, slots], take(p.document), take(p.valid)),
        token_type_ids=take(batch.token_type_ids),
        source=batch.source,
        parts=tuple(part.taken(slots, batch.elements.shape[1]) for part in batch.parts),
    )


def permutation(seen: Look) -> Iterator[Row]:
    """Equation 17: slots in another order, each element with its own position (where there are
    positions)."""
    order = torch.randperm(seen.batch.elements.shape[1], generator=torch.Generator().manual_seed(0))
    batch, source = _taken(seen.batch, order), seen.batch.source
    if source is not None:
        batch = replace(
            batch, source=_taken(source, torch.arange(source.elements.shape[1]).flip(0))
        )
    with torch.no_grad():
        got = seen.model.features(batch).hidden
    expected = array(seen.fused.features.hidden[:, order])
    claim = Claim("Notes A, D", "17 permutation", "no positions")
    if seen.model.config.position != "none" or seen.model.decoder is not None:
        claim = claim.by(PROJECT, "each element keeps its position")
    yield claim("Z(RX) = R Z(X)", Transformer, got, expected, scaled(seen))


def gradient(seen: Look) -> Iterator[Row]:
    """Equation 19 for the attention half of every block: uᵀ (∂x_mid/∂x_pre) w for random u and w,
    in the first row."""
    found = []
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
            found.append((error, DEEP * max(1.0, float(np.linalg.norm(forward))), step.name))
    error, tolerance, name = max(found, key=lambda one: one[0] / one[1])
    detail = f"worst of {len(found)}: {name}, along random directions"
    claim, formula = Claim("Note C", "19 residual gradient"), "∂x_{i+1}/∂x_i = 1 + ∂f_i/∂x_i"
    if not seen.model.config.residual:
        formula = "∂x_{i+1}/∂x_i = ∂f_i/∂x_i"
    yield claim.at_most(formula, type(seen.steps[0].block), error, tolerance, detail)
