"""Kinds of positions, by the place of the model that uses them.

    vectors      added to the embedding: learned table, sinusoidal (paired, in halves, or as Note C
                 prints it; of row and column)
    score_bias   added to the scores: relative table B = f(i - j) (Note C), T5's buckets, ALiBi
    rotary       rotation of q and k (of the position; of row and column)

Every function takes positions as numbers, never the index of a slot.
"""

from collections.abc import Callable
from functools import partial
from typing import Literal

from glassformer.layers.position.rotary import Rotation, grid_rotation, rotation
from glassformer.layers.position.score_bias import AlibiBias, BucketBias, RelativeBias, ScoreBias
from glassformer.layers.position.vectors import (
    GridPosition,
    LearnedPosition,
    PositionVectors,
    SinusoidalPosition,
)

PositionKind = Literal[
    "none",
    "learned",
    "sinusoidal",
    "sinusoidal_printed",
    "sinusoidal_halves",
    "sinusoidal_2d",
    "relative",
    "buckets",
    "alibi",
    "rotary",
    "rotary_2d",
]

ADDED: tuple[PositionKind, ...] = (
    "learned",
    "sinusoidal",
    "sinusoidal_printed",
    "sinusoidal_halves",
    "sinusoidal_2d",
)
"""Kinds that have a vector, added to the element's or concatenated with it."""


def build_position(
    kind: PositionKind,
    max_length: int,
    d_model: int,
    first: int,
    columns: int = 1,
    n_prefix: int = 0,
) -> PositionVectors | None:
    """Position vectors for the embedding; None for kinds that act elsewhere.

    `n_prefix`: positions before the `max_length` elements (a class token, registers); `columns`: of
    a grid of patches.
    """
    match kind:
        case "learned":
            return LearnedPosition(max_length + n_prefix, d_model)
        case "sinusoidal_2d":
            return GridPosition(d_model, columns, first=n_prefix)
        case "sinusoidal" | "sinusoidal_printed" | "sinusoidal_halves":
            printed, halves = kind == "sinusoidal_printed", kind == "sinusoidal_halves"
            return SinusoidalPosition(d_model, printed=printed, halves=halves, first=first)
        case _:
            return None


def build_bias(
    kind: PositionKind, n_heads: int, n_buckets: int, max_distance: int, *, both_ways: bool
) -> ScoreBias | None:
    """Score bias; None for kinds that act elsewhere."""
    match kind:
        case "relative":
            return RelativeBias(n_heads, max_distance)
        case "buckets":
            return BucketBias(n_heads, n_buckets, max_distance, both_ways=both_ways)
        case "alibi":
            return AlibiBias(n_heads)
        case _:
            return None


def build_rotation(
    kind: PositionKind,
    d_head: int,
    base: float,
    factor: float,
    wavelengths: tuple[float, float] | None,
    columns: int,
    n_prefix: int,
) -> Callable[..., Rotation] | None:
    """Rotary angles as a function of (positions, dtype); None for kinds that act elsewhere."""
    match kind:
        case "rotary":
            return partial(
                rotation, d_head=d_head, base=base, factor=factor, wavelengths=wavelengths
            )
        case "rotary_2d":
            return partial(grid_rotation, d_head=d_head, base=base, columns=columns, first=n_prefix)
        case _:
            return None
