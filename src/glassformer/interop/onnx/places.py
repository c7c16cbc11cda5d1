"""Positions, masks, score biases and rotary angles in ONNX operations.

Of tokens they are computed from the input `attention_mask`: 1 real, 0 padding on either side. Of
patches they are constants, which the model itself computes.
"""

from dataclasses import dataclass

import numpy as np
import torch

from glassformer.batch import Positions
from glassformer.interop.onnx.graph import Graph, Value, floats, number
from glassformer.interop.onnx.layers import Context
from glassformer.layers.position import (
    AlibiBias,
    LearnedPosition,
    PositionVectors,
    ScoreBias,
    SinusoidalPosition,
    alibi_slopes,
)
from glassformer.layers.stack import Stack
from glassformer.models.config import ModelConfig

CLOSED = float(np.finfo(np.float32).min)
"""Added to the score of a key that is not allowed. Not -inf: a row of padding would be NaN."""


@dataclass(frozen=True)
class Places:
    """Positions, int64 [B, T], and which elements are real, bool [B, T]."""

    position: Value
    valid: Value


def places_of(g: Graph, mask: Value) -> Places:
    """Positions of the real elements 0, 1, 2, ...; padding before them has 0."""
    before = g.op("Sub", g.op("CumSum", mask, np.array(1)), np.array(1))
    return Places(g.op("Max", before, np.array(0)), g.cast(mask, np.bool_))


def context(
    g: Graph, config: ModelConfig, stack: Stack, query: Value, key: Places, *, causal: bool
) -> Context:
    """Context of self-attention for queries at these positions [B, T] and keys [B, S]."""
    distance = g.op("Sub", g.unsqueeze(key.position, 1), g.unsqueeze(query, 2))  # [B, T, S]
    allow = g.unsqueeze(key.valid, 1)
    if causal:
        allow = g.op("And", allow, g.op("LessOrEqual", distance, np.array(0)))
    if config.window is not None:
        near = g.op("Less", g.op("Abs", distance), np.array(config.window))
        allow = g.op("And", allow, near)
    added = closed(g, g.unsqueeze(allow, 1))
    if stack.bias is not None:
        added = g.op("Add", added, bias(g, stack.bias, stack.bias_factor, distance))
    return Context(added, rotation(g, stack, query))


def source_context(g: Graph, source_mask: Value) -> Context:
    """Context of cross-attention: every real element of the source."""
    return Context(closed(g, g.unsqueeze(g.cast(source_mask, np.bool_), 1, 2)))


def closed(g: Graph, allow: Value) -> Value:
    """0 where a key is allowed."""
    return g.op("Where", allow, number(0), number(CLOSED))


def bias(g: Graph, module: ScoreBias, factor: float, distance: Value) -> Value:
    """The score bias [B, H, T, S] of distances j - i [B, T, S].

    Relative and bucketed biases do not change beyond their largest distance, so they are a table.
    """
    if isinstance(module, AlibiBias):
        slopes = floats(-alibi_slopes(module.n_heads) * factor)[:, None, None]
        far = g.cast(g.unsqueeze(g.op("Abs", distance), 1), np.float32)
        return g.op("Mul", far, slopes)
    g.account.take(module.weight)
    most = module.max_distance
    with torch.no_grad():
        device = module.weight.device
        middle = Positions(torch.full((1, 1), most, device=device))
        table = module(middle, Positions.arange(2 * most + 1, device=device)) * factor
    clipped = g.op("Min", g.op("Max", distance, np.array(-most)), np.array(most))
    index = g.op("Add", clipped, np.array(most))
    rows = g.op("Gather", g.weight(f"{g.path(module)}.table", table[0, :, 0].T), index)
    return g.transpose(rows, 0, 3, 1, 2)


def rotation(g: Graph, stack: Stack, position: Value) -> tuple[Value, Value] | None:
    """Cosines and signed sines [B, 1, T, K] of positions [B, T]; the angles are in float64."""
    if stack.rotation is None:
        return None
    cos, sin = stack.rotation(Positions.arange(1, start=1), dtype=torch.float64)
    angle = torch.atan2(sin, cos).flatten()  # of position 1, at most 1
    angle = angle[len(angle) // 2 :].numpy()
    turned = g.op("Mul", g.cast(g.unsqueeze(position, 1, 3), np.float64), angle)
    # onnxruntime 1.20 has no cosine of float64, so it is a sine a quarter turn later
    later = g.op("Add", turned, np.array(np.pi / 2))
    cosine, sine = (g.cast(g.op("Sin", of), np.float32) for of in (later, turned))
    signed = g.op("Concat", g.op("Neg", sine), sine, axis=-1)
    return g.op("Concat", cosine, cosine, axis=-1), signed


def vectors(g: Graph, module: PositionVectors, position: Value) -> Value:
    """Position vectors [B, T, W] of tokens at these positions."""
    if isinstance(module, LearnedPosition):
        return g.op("Gather", g.parameter(module.weight), position)
    assert isinstance(module, SinusoidalPosition), "a grid is of patches"
    j = np.arange(module.d_model)
    exponent = 2 * j / module.d_model if module.printed else j // 2 * 2 / module.d_model
    rate, phase = 10000.0**-exponent, j % 2 * np.pi / 2  # cos x = sin(x + π/2)
    if module.halves:
        order = np.concatenate([j[::2], j[1::2]])
        rate, phase = rate[order], phase[order]
    numbered = g.cast(g.op("Add", position, np.array(module.first)), np.float64)
    angle = g.op("Add", g.op("Mul", g.unsqueeze(numbered, 2), rate), phase)
    return g.cast(g.op("Sin", angle), np.float32)


def patch_context(g: Graph, stack: Stack, positions: Positions) -> Context:
    """Context of self-attention of all patches of an image or clip, as constants."""
    g.account.take(getattr(stack.bias, "weight", None))
    with torch.no_grad():
        found = stack.context(positions, positions)
    table, own = found.allow.dense, found.bias
    added = None if own is None else floats(own)
    if table is not None:
        shut = np.where(table.numpy(), np.float32(0), np.float32(CLOSED))
        added = shut if added is None else added + shut
    turns = None
    if found.rotation is not None:
        cos, sin = found.rotation
        turns = g.constant(floats(cos)), g.constant(floats(sin))
    return Context(None if added is None else g.constant(added), turns)


def patch_vectors(g: Graph, module: PositionVectors, positions: Positions) -> Value:
    """Position vectors of all patches [1, T, W], a constant."""
    g.account.take(getattr(module, "weight", None))
    with torch.no_grad():
        return g.constant(floats(module(positions)))
