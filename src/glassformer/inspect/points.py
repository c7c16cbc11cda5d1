"""Named points of a model, tensors with named axes, and the form of every edit.

    Named(tensor, ("head", "query", "key")).sel(head=5, query=[0, 1], key=slice(2, 4))
    Edit("decoder.blocks.3.attention.z", head=5)  ->  at = {"head": 5}

An axis is addressed only by its name. An index is a number (counted from the end if below 0),
several, or a slice, as in NumPy. There must be a position.
"""

import math
import operator
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from inspect import get_annotations
from typing import Annotated, Any, ClassVar

import numpy as np
import torch
from pydantic import BeforeValidator, Field, create_model

from glassformer.core.axes import Tensor
from glassformer.core.errors import ConfigError, suggest
from glassformer.core.record import Record
from glassformer.layers.tap import Change

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


def _floats(value: Any) -> Any:
    """Return numbers, arrays or tensors as nested lists of floats; ValueError: anything else."""
    try:
        array = np.array(value.tolist() if isinstance(value, Tensor) else value)
        if array.dtype.kind in "iuf" and array.size and np.isfinite(array).all():
            return array.astype(np.float64).tolist()
    except ValueError:
        pass  # rows of several lengths
    raise ValueError(f"{value!r} is no finite number, nor rows of them")


Numbers = Annotated[Any, BeforeValidator(_floats)]
"""A number, or numbers that are nested as a tensor's rows are."""
EDITS: dict[str, type["Edit"]] = {}
"""Every kind of edit by its name."""
PLACES: Any = {axis: (Annotated[Any, BeforeValidator(index_of)], None) for axis in AXES}
"""A field for each axis."""


@dataclass(frozen=True, init=False, repr=False)
class Edit(ABC):
    """A change of the tensor of a point.

    ConfigError: an option or an axis that does not exist, or a value out of range.
    """

    point: str
    given: Mapping[str, Any]
    """The point, and the options and the axes that were given."""

    kind: ClassVar[str] = ""
    """Kind of point that the edit is for; "": all."""
    form: ClassVar[type[Record]] = create_model(
        "Edit",
        __base__=Record,
        # its fields have no docstrings, which are slow to look for: 0.1 s for each form
        __cls_kwargs__={"strict": True, "use_attribute_docstrings": False},
        point=(Annotated[str, Field(min_length=1)], ...),
        **PLACES,
    )

    def __init_subclass__(cls) -> None:
        own: Any = {
            name: (kind, vars(cls).get(name, ...)) for name, kind in get_annotations(cls).items()
        }
        cls.form = create_model(cls.__name__, __base__=cls.form, **own)
        cls.form.section = cls.__name__
        EDITS[cls.__name__] = cls

    def __init__(self, point: Any, /, **given: Any):
        values = {name.removesuffix("_"): value for name, value in given.items()}
        made = self.form.parse({"point": point, **values})
        own = {name: value for name, value in made if name in made.model_fields_set}
        vars(self).update(made, given=own)

    @property
    def at(self) -> dict[str, Index]:
        """Positions by axis where the edit acts."""
        return {axis: self.given[axis] for axis in AXES if axis in self.given}

    def __call__(self, tensor: Tensor, axes: tuple[str, ...], point: str) -> Tensor:
        """Return the tensor with the new values where the edit acts."""
        inside = self.inside(tensor, axes, point)
        return torch.where(inside, self.new(Named(tensor, axes, point)), tensor)

    def inside(self, tensor: Tensor, axes: tuple[str, ...], point: str) -> Tensor:
        """Return True where the edit acts, broadcast to the tensor.

        ConfigError: a point of another kind, an axis that it lacks, or a position outside.
        """
        kind, what = kind_of(point), f"{type(self).__name__} of {point}"
        if self.kind not in ("", kind):
            raise self.error(point, f"it is for {self.kind} of an attention, not for {kind!r}.")
        inside = torch.ones([1] * tensor.dim(), dtype=torch.bool)
        for axis, index in self.at.items():
            dim = dim_of(axis, axes, what)
            own = inside.new_zeros(tensor.shape[dim], *[1] * (tensor.dim() - dim - 1))
            own[indices_of(index, len(own), axis, what)] = True
            inside = inside & own
        inside = inside.to(tensor.device)
        return inside & (tensor > -math.inf) if kind == "scores" else inside

    @abstractmethod
    def new(self, old: Named) -> Tensor:
        """New values for the whole tensor, or broadcast to it."""

    def error(self, point: str, sentence: str) -> ConfigError:
        """An error of this edit at a point."""
        return ConfigError(f"{type(self).__name__} of {point}: {sentence}")

    def to_json(self) -> dict[str, Any]:
        """The edit as plain values; see `edit_from_json`."""
        own = {name: as_text(value) for name, value in self.given.items() if name != "source"}
        return {"edit": type(self).__name__, **own}

    def __repr__(self) -> str:
        given = ", ".join(f"{name}={value!r}" for name, value in self.given.items())
        given = given.removeprefix("point=").replace(", class=", ", class_=")
        return f"{type(self).__name__}({given})"


@dataclass(frozen=True)
class Replaced:
    """A change of a point's tensor [B, ...] by any function, which may differ between rows."""

    point: str
    by: Callable[[Tensor], Tensor]

    def __call__(self, tensor: Tensor, axes: tuple[str, ...], point: str) -> Tensor:
        """The tensor to continue with."""
        return self.by(tensor)


LEAF = Replaced("*embed.elements", lambda x: x.detach().requires_grad_())
"""Embedded elements as leaves of the gradient, even in a frozen model."""


def fires(edits: Sequence[Change], *points: str) -> bool:
    """True if any of the edits acts at any of the points."""
    return any(fnmatchcase(point, edit.point) for edit in edits for point in points)
