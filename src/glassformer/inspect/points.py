"""Named points of a model, and tensors with named axes.

    Named(tensor, ("head", "query", "key")).sel(head=5, query=[0, 1], key=slice(2, 4))

An axis is addressed only by its name. An index is a number (counted from the end if below 0),
several, or a slice, as in NumPy. There must be a position.
"""

import operator
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from glassformer.core.axes import Tensor
from glassformer.core.errors import ConfigError, suggest

_AXES = "batch position head query key dim model hidden vocabulary class"
AXES = tuple(_AXES.split())
"""The names of all axes that points have."""
SITE_OF = {"attention": "self", "cross": "cross"}
"""Site of an attention by the name of its module in a block."""
Index = int | Sequence[int] | slice
"""Positions on an axis."""


@dataclass(frozen=True)
class Point:
    """One point of a model: its place, and the axes and shape of its tensor for one input."""

    name: str
    """Module path and local name: decoder.blocks.3.attention.pattern."""
    kind: str
    """The local name: pattern, scores, q, k, v, z, resid_pre, resid_post, logits, ..."""
    axes: tuple[str, ...]
    shape: tuple[int, ...]
    layer: int | None
    """The number of the block; None outside of the blocks."""
    side: str
    """encoder or decoder; "" in the embedding and in the head."""
    site: str
    """self or cross inside of an attention, else ""."""
    edited: bool


def check_number(noun: str, number: int, count: int, of: str = "this model") -> None:
    """Raise ConfigError for a number outside of 0 .. count - 1."""
    if not 0 <= number < count:
        raise ConfigError(f"There is no {noun} {number} in {of}; its {noun}s are 0 to {count - 1}.")


def point_of(name: str, axes: tuple[str, ...], shape: tuple[int, ...], edited: bool) -> Point:
    """The point of that name, whose parts give layer, side and site."""
    *path, kind = name.split(".")
    layer = int(path[2]) if path[1:2] == ["blocks"] else None
    side = path[0] if path[0] in ("encoder", "decoder") else ""
    site = "" if layer is None else SITE_OF.get(path[-1], "")
    return Point(name, kind, axes, shape, layer, side, site, edited)


def kind_of(point: str) -> str:
    """The local name of a point: the last part of its name."""
    return point.rpartition(".")[2]


def index_of(index: Any) -> Index:
    """A validated index: a number, a tuple of numbers, a slice or its text `begin:end`.

    ValueError: anything else.
    """
    try:
        if isinstance(index, str) and ":" in index:
            index = slice(*(int(part) if part else None for part in index.split(":")))
        if isinstance(index, slice):
            range(8)[index]  # a step of 0, or ends that are no whole numbers
            return index
        if isinstance(index, Sequence | Tensor | np.ndarray):
            first, *rest = map(operator.index, index)
            return (first, *rest)
        return operator.index(index)
    except (TypeError, ValueError):
        raise ValueError(
            f"{index!r} is no place; give a whole number, several, or a slice (`2:5` in JSON)"
        ) from None


def indices_of(index: Index, size: int, axis: str, what: str) -> list[int]:
    """The positions 0 .. size - 1 that an index names, as in NumPy; ConfigError: a number outside,
    or no position."""
    try:
        found = np.arange(size)[index if isinstance(index, int | slice) else [*index]].ravel()
    except IndexError:
        found = np.arange(0)
    if not len(found):
        raise ConfigError(
            f"{what}: {axis}={as_text(index)} is not there; {axis} runs from 0 to {size - 1}."
        )
    return found.tolist()


def as_text(value: Any) -> Any:
    """A value as JSON has it: a slice is `begin:end` or `begin:end:step`, a tuple a list."""
    if isinstance(value, slice):
        parts = [value.start, value.stop, value.step][: 2 if value.step is None else 3]
        return ":".join("" if part is None else str(part) for part in parts)
    return list(value) if isinstance(value, tuple) else value


@dataclass(frozen=True, eq=False)
class Named:
    """A tensor and the names of its axes."""

    tensor: Tensor
    axes: tuple[str, ...]
    name: str = ""
    """The point."""

    @property
    def shape(self) -> tuple[int, ...]:
        """The size of each axis."""
        return tuple(self.tensor.shape)

    def sel(self, **at: Index) -> "Named":
        """The part at these positions, without the axes of one number; `class` is `class_`.

        ConfigError: no such axis, a position outside.
        """
        tensor, axes = self.tensor, self.axes
        for name, index in at.items():
            dim = dim_of(name.removesuffix("_"), axes, "The tensor")
            positions = indices_of(index, tensor.shape[dim], axes[dim], "The tensor")
            tensor = tensor.index_select(dim, torch.tensor(positions, device=tensor.device))
            if isinstance(index, int):
                tensor, axes = tensor.squeeze(dim), axes[:dim] + axes[dim + 1 :]
        return Named(tensor, axes)


def dim_of(name: str, axes: tuple[str, ...], what: str) -> int:
    """Return the dimension of an axis; ConfigError: `what` has no such axis."""
    if name not in axes:
        raise ConfigError(f"{what} has no axis {name!r}; {suggest(name, axes)}")
    return axes.index(name)
