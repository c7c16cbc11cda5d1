"""Every kind of attention that there is, in small: models and what they read, for what must hold
for all of them."""

import copy
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
import torch

import tiny
from glassformer.core.batch import Batch, Part, Positions
from glassformer.models import Transformer

PATCHES = {
    "architecture": "encoder",
    "elements": "patches",
    "patch_width": 5,
    "head": "classify",
    "n_classes": 3,
    "pool": "first",
    "grid": (2, 3),
    "max_length": 6,
    "tied": False,
}
MIXED = {"parts": {"image": 5}, "part_patches": {"image": 3}, "n_kv_heads": 2}


def decoding(length: int = 7) -> Batch:
    return Batch(tiny.tokens(1, length))


def padded() -> Batch:
    slots = torch.arange(6)[None]
    return Batch(tiny.tokens(1, 6), Positions(slots.clamp(max=3), valid=slots < 4))


def packed() -> Batch:
    return Batch(tiny.tokens(1, 7), Positions.pack(torch.tensor([[0, 0, 0, 1, 1, 1, 1]])))


def crossing() -> Batch:
    positions = Positions(
        torch.arange(5)[None], valid=torch.tensor([[True, True, True, True, False]])
    )
    return Batch(tiny.tokens(1, 4), source=Batch(tiny.tokens(1, 5, seed=1), positions))


def patches() -> Batch:
    return Batch(torch.randn(1, 6, 5, generator=torch.Generator().manual_seed(3)).double())


def mixed() -> Batch:
    values = torch.randn(3, 5, generator=torch.Generator().manual_seed(4)).double()
    return Batch(
        tiny.tokens(1, 6), parts=(Part("image", torch.tensor([1, 2, 3]), values, torch.arange(3)),)
    )


def mixed_crossing() -> Batch:
    return Batch(tiny.tokens(1, 4, seed=2), source=mixed())


VARIANTS: dict[str, tuple[dict[str, Any], Callable[[], Batch]]] = {
    **{f"causal {position}": ({"position": position}, decoding) for position in tiny.POSITIONS},
    **{
        f"encoder {position}": ({"position": position, "architecture": "encoder"}, padded)
        for position in tiny.POSITIONS
    },
    "grouped": ({"n_kv_heads": 2, "position": "rotary"}, decoding),
    "multi-query": ({"n_kv_heads": 1, "position": "alibi"}, decoding),
    "window": ({"window": 3, "n_kv_heads": 2}, decoding),
    "window of an encoder": ({"window": 2, "architecture": "encoder"}, decoding),
    "documents": ({"position": "relative"}, packed),
    "bias inside": (
        {"position": "relative", "bias_placement": "inside", "scale": "model"},
        decoding,
    ),
    "no scale, normalized": ({"scale": "none", "qk_norm": True, "position": "buckets"}, decoding),
    "concatenated positions": (
        {"position_combination": "concatenate", "position_width": 3, "tied": False},
        decoding,
    ),
    "post-norm": ({"norm_placement": "post"}, decoding),
    "root mean square, gated": ({"norm": "rms", "gated": True, "bias": False}, decoding),
    **{
        f"both {position}": (
            {"architecture": "encoder_decoder", "position": position, "n_kv_heads": 2},
            crossing,
        )
        for position in ("learned", "rotary", "buckets", "alibi")
    },
    "patches": (PATCHES, patches),
    "patches in rows and columns": (
        {**PATCHES, "position": "sinusoidal_2d", "pool": "mean", "n_registers": 1},
        patches,
    ),
    "patches turned by row and column": (
        {**PATCHES, "position": "rotary_2d", "d_head": 4, "n_registers": 2, "distilled": True},
        patches,
    ),
    "mixture": (MIXED, mixed),
    "mixture of both": ({**MIXED, "architecture": "encoder_decoder"}, mixed_crossing),
}


EACH = [
    pytest.param(name, marks=pytest.mark.slow)
    if changes.get("position") in tiny.ALIKE and len(changes) < 3
    else name
    for name, (changes, _) in VARIANTS.items()
]
"""Parameters of a test; positions that are like learned ones are slow."""


def made(variant: str, dtype: torch.dtype = torch.float32) -> tuple[Transformer, Batch]:
    """A model, in float32 as people have theirs, and a row that it reads."""
    changes, batch = VARIANTS[variant]
    return copy.deepcopy(tiny.model(**changes)).to(dtype), _cast(batch(), dtype)


def _cast(batch: Batch, dtype: torch.dtype) -> Batch:
    elements = batch.elements.to(dtype) if batch.elements.is_floating_point() else batch.elements
    parts = tuple(replace(part, values=part.values.to(dtype)) for part in batch.parts)
    source = None if batch.source is None else _cast(batch.source, dtype)
    return replace(batch, elements=elements, parts=parts, source=source)
