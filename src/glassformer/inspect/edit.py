"""The form of every edit: a point, the edit's own options, and where it acts by the names of axes.

Edit("decoder.blocks.3.attention.z", head=5, query=[1, 2])      at = {"head": 5, "query": (1, 2)}
"""

import math
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import MISSING, dataclass, fields
from functools import cache
from typing import Annotated, Any, ClassVar

import numpy as np
import torch
from pydantic import BeforeValidator, FiniteFloat, TypeAdapter, ValidationError

from glassformer.axes import Tensor
from glassformer.errors import ConfigError, suggest
from glassformer.inspect.points import AXES, Index, Named, index_of, kind_of, region, spelled


def nested(value: Any) -> Any:
    """Numbers, arrays and tensors as nested lists of floats; ValueError: anything else."""
    array = np.array(value.tolist() if isinstance(value, Tensor) else value)
    if array.dtype.kind not in "iuf" or not array.size or not np.isfinite(array).all():
        raise ValueError
    return array.astype(np.float64).tolist()


Number = Annotated[FiniteFloat, "is no finite number; give one."]
Numbers = Annotated[
    Any, BeforeValidator(nested), "is no finite number, nor rows of them; give such."
]
"""A number, or numbers that are nested as a tensor's rows are."""


adapter = cache(TypeAdapter)
EDITS: dict[str, type["Edit"]] = {}
"""Every kind of edit by its name."""


@dataclass(frozen=True, init=False, repr=False)
class Edit(ABC):
    """A change of the tensor of a point.

    An option's type ends with the sentence that refuses another value. ConfigError: an option or
    an axis that does not exist, or a value out of range.
    """

    point: str
    at: Mapping[str, Index]

    kind: ClassVar[str] = ""
    """Kind of point that the edit is for; "": all."""

    def __init_subclass__(cls) -> None:
        EDITS[cls.__name__] = dataclass(frozen=True, init=False, repr=False)(cls)

    def __init__(self, point: Any, /, **given: Any):
        own = self._options()
        for name in given:
            if name not in own and name.removesuffix("_") not in AXES:
                raise ConfigError(
                    f"{self._name}: {name!r} is neither an option nor an axis; "
                    f"{suggest(name, (*own, *AXES))}"
                )
        if not (isinstance(point, str) and point):
            raise ConfigError(
                f"{self._name}: {point!r} is no point; give a name such as "
                f"decoder.blocks.0.resid_post."
            )
        places = {
            name.removesuffix("_"): index_of(index, f"{self._name}: {name}")
            for name, index in given.items()
            if name not in own
        }
        options = {name: self._option(name, given.get(name, own[name].default)) for name in own}
        vars(self).update(point=point, at=places, **options)

    def __call__(self, tensor: Tensor, axes: tuple[str, ...], point: str) -> Tensor:
        """The tensor with the new values where the edit acts."""
        inside = self.inside(tensor, axes, point)
        return torch.where(inside, self.new(Named(tensor, axes), point), tensor)

    def inside(self, tensor: Tensor, axes: tuple[str, ...], point: str) -> Tensor:
        """True where the edit acts, broadcast to the tensor; ConfigError: a point of other kind."""
        kind = kind_of(point)
        if self.kind not in ("", kind):
            raise self.error(point, f"it is for {self.kind} of an attention, not for {kind!r}.")
        what = f"{self._name} of {point}"
        inside = region(self.at, axes, tensor.shape, what, tensor.device)
        return inside & (tensor > -math.inf) if kind == "scores" else inside

    @abstractmethod
    def new(self, old: Named, point: str) -> Tensor:
        """New values for the whole tensor, or broadcast to it."""

    def error(self, point: str, sentence: str) -> ConfigError:
        """An error of this edit at a point."""
        return ConfigError(f"{self._name} of {point}: {sentence}")

    def to_json(self) -> dict[str, Any]:
        """The edit as plain values; see `edit_from_json`."""
        at = {axis: spelled(index) for axis, index in self.at.items()}
        own = {name: getattr(self, name) for name in self._options() if name != "source"}
        return {"edit": self._name, "point": self.point, **own, **at}

    @classmethod
    def _options(cls) -> dict[str, Any]:
        """Fields of the options, beside the point and where the edit acts."""
        return {field.name: field for field in fields(cls) if field.name not in ("point", "at")}

    def _option(self, name: str, value: Any) -> Any:
        """The validated value of an option."""
        if value is MISSING:
            raise ConfigError(f"{self._name} needs {name!r}; give it.")
        kind = self._options()[name].type
        try:
            return adapter(kind).validate_python(value, strict=True)
        except (ValidationError, TypeError):
            sentence = kind.__metadata__[-1]
            raise ConfigError(f"{self._name}: {name}={value!r} {sentence}") from None

    @property
    def _name(self) -> str:
        return type(self).__name__

    def __repr__(self) -> str:
        own = {name: getattr(self, name) for name in self._options()}
        at = {"class_" if axis == "class" else axis: index for axis, index in self.at.items()}
        given = [repr(self.point), *(f"{n}={v!r}" for n, v in (own | at).items())]
        return f"{self._name}({', '.join(given)})"
