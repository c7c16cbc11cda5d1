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
from glassformer.layers.cache import Cache
from glassformer.models.transformer import Transformer
from glassformer.verify import reference as ref
from glassformer.verify.cases import array, draw
from glassformer.verify.look import Look
from glassformer.verify.row import Row, largest, max_error, measured, row


def property_rows(seen: Look) -> Iterator[Row]:
    """Rows of the laws that apply to the model's architecture and the batch."""
    if seen.model.decoder is not None and in_order(seen):
        yield causality(seen)
        yield from caching(seen)
    if not seen.model.config.reads_patches:
        yield permutation(seen)
    yield gradient(seen)


def in_order(seen: Look) -> bool:
    """Whether no slot may attend to a later slot: slots are in the order of their positions."""
    masks = (seen.reference.mask("decoder", seen.sample("decoder", row)) for row in seen.rows)
    return not any(np.triu(np.isfinite(mask), 1).any() for mask in masks)


def same_stream(seen: Look, claim: str, got: Tensor, slots: Tensor, function: type) -> Row:
    """The row of a stream that must be the whole one at these slots."""
    stream = array(seen.fused.features.hidden)
    error, scale = max_error(got, stream[:, slots]), largest(array(seen.output.features.hidden))
    return measured(claim, error, function=function, scale=scale)


def causality(seen: Look) -> Row:
    """Equation 4: change every element from slot t on, and compare the slots before it."""
    length = seen.batch.elements.shape[1]
    t, other = length // 2, seen.batch.elements.clone()
    other[:, t:] = (other[:, t:] + 1) % seen.model.config.vocab_size
    with torch.no_grad():
        got = seen.model.features(replace(seen.batch, elements=other)).hidden[:, :t]
    return row("model.causality", got, array(seen.fused.features.hidden[:, :t]), t, length)


def caching(seen: Look) -> Iterator[Row]:
    """Equation 16: the elements in three pieces through a cache give the same as at once."""
    slots = torch.arange(seen.batch.elements.shape[1])
    length = len(slots)
    cuts = sorted({0, length // 2, min(length // 2 + 1, length), length})
    batches = [_taken(seen.batch, torch.arange(*cut)) for cut in pairwise(cuts)]
    got = in_pieces(seen.model, batches)
    yield same_stream(seen, "model.cache", got, slots, Cache)


@torch.no_grad()
def in_pieces(model: Transformer, pieces: list[Batch]) -> Tensor:
    """The stream of a sequence that is read piece by piece through a cache."""
    cache, memory, read = Cache(), None, []
    for piece in pieces:
        features = model.features(piece, memory, cache)
        assert features.cache is not None
        memory, cache = features.memory, features.cache
        read.append(features.hidden)
    return torch.cat(read, dim=1)


def _taken(batch: Batch, slots: Tensor) -> Batch:
    """The elements in these slots, each with its own position; the source as it is."""
    take = lambda t: None if t is None else t[:, slots]
    p = batch.where()
    return Batch(
        batch.elements[:, slots],
        Positions(p.position[:, slots], take(p.document), take(p.valid)),
        token_type_ids=take(batch.token_type_ids),
        source=batch.source,
        parts=tuple(part.taken(slots, batch.elements.shape[1]) for part in batch.parts),
    )


def permutation(seen: Look) -> Row:
    """Equation 17: slots in another order, each element with its own position (where there are
    positions)."""
    order = torch.randperm(seen.batch.elements.shape[1], generator=torch.Generator().manual_seed(0))
    batch, source = _taken(seen.batch, order), seen.batch.source
    if source is not None:
        backwards = torch.arange(source.elements.shape[1]).flip(0)
        batch = replace(batch, source=_taken(source, backwards))
    with torch.no_grad():
        got = seen.model.features(batch).hidden
    none = seen.model.config.position == "none" and seen.model.decoder is None
    claim = "model.permutation.none" if none else "model.permutation"
    return same_stream(seen, claim, got, order, Transformer)


def gradient(seen: Look) -> Row:
    """Equation 19 for the attention half of every block: uᵀ (∂x_mid/∂x_pre) w for random u and w,
    in the first row."""
    found = []
    with torch.inference_mode(False), torch.enable_grad():
        for side, layer in seen.blocks:
            name = f"{side}.blocks.{layer}"
            before, after = seen.kept[f"{name}.resid_pre"], seen.kept[f"{name}.resid_mid"]
            u, w = draw(f"{name} u", *after.shape), draw(f"{name} w", *before.shape)
            u[1:], w[1:] = 0, 0
            u, w = u / u.norm(), w / w.norm()
            (back,) = torch.autograd.grad(after, before, u, retain_graph=True)
            given = {"sample": seen.sample(side, 0), "source": seen.source(side, 0)}
            half = partial(seen.reference.attend_half, side, layer, **given)
            forward = ref.derivative(half, array(before[0]), array(w[0]))
            error = max_error((back * w).sum(), np.asarray((array(u[0]) * forward).sum()))
            found.append((error, max(1.0, float(np.linalg.norm(forward))), name))
    error, scale, name = max(found, key=lambda one: one[0] / one[1])
    place = f"worst of {len(found)}: {name}, along random directions"
    claim = "model.gradient" if seen.model.config.residual else "model.gradient.without"
    return measured(claim, error, scale=scale, place=place)
