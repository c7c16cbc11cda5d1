"""The form of every edit: a point, the edit's own options, and where it acts by the names of axes.

Edit("decoder.blocks.3.attention.z", head=5, query=[1, 2])      at = {"head": 5, "query": (1, 2)}
"""

import math
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
from glassformer.core.errors import ConfigError
from glassformer.core.record import Record
from glassformer.inspect.points import (
    AXES,
    Index,
    Named,
    as_text,
    dim_of,
    index_of,
    indices_of,
    kind_of,
)
from glassformer.layers.tap import Change


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
