"""The form of every edit: a point, options of its own, and where it acts by the names of axes;
strict about all of it.

Edit("decoder.blocks.3.attention.z", head=5, query=[1, 2])      at = {"head": 5, "query": (1, 2)}
"""

import math
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import MISSING, dataclass, fields
from typing import Any, ClassVar

import numpy as np
import torch

from glassformer.axes import Tensor
from glassformer.errors import ConfigError, suggest
from glassformer.inspect.points import AXES, Index, kind_of, region, spelled

Numbers = float | tuple[Any, ...]
"""A number, or numbers that are nested as a tensor's rows are."""


@dataclass(frozen=True, init=False, repr=False)
class Edit(ABC):
    """What all edits have: a point and a place. ConfigError: an option or an axis that there is
    not, or of no use."""

    point: str
    at: Mapping[str, Index]

    kinds: ClassVar[tuple[str, ...]] = ()
    """The kinds of points that the edit is for; (): all."""

    def __init__(self, point: Any, /, **given: Any):
        own = {option.name: option.default for option in options(type(self))}
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
        object.__setattr__(self, "point", point)
        object.__setattr__(
            self,
            "at",
            {
                n.removesuffix("_"): index_of(self._name, n, i)
                for n, i in given.items()
                if n not in own
            },
        )
        for name, default in own.items():
            if name not in given and default is MISSING:
                raise ConfigError(f"{self._name} needs {name!r}; give it.")
            object.__setattr__(self, name, self.checked(name, given.get(name, default)))

    def __call__(self, tensor: Tensor, axes: tuple[str, ...], point: str) -> Tensor:
        """The tensor with the changed values where the edit acts."""
        inside = self.inside(tensor, axes, point)
        return torch.where(inside, self.new(tensor, axes, point), tensor)

    def inside(self, tensor: Tensor, axes: tuple[str, ...], point: str) -> Tensor:
        """True where the edit acts, broadcast to the tensor; ConfigError: it is not for such a
        point."""
        kind, what = kind_of(point), f"{self._name} of {point}"
        if self.kinds and kind not in self.kinds:
            raise ConfigError(
                f"{what}: it is for {' and '.join(self.kinds)} of an attention, not for {kind!r}."
            )
        inside = region(self.at, axes, tensor.shape, what, tensor.device)
        return inside & (tensor > -math.inf) if kind == "scores" else inside

    @abstractmethod
    def new(self, tensor: Tensor, axes: tuple[str, ...], point: str) -> Tensor:
        """The values that take the place of the old ones, for all of the tensor, or broadcast to
        it."""

    def checked(self, name: str, value: Any) -> Any:
        """An option as it is kept; ConfigError: a value that it cannot have."""
        return value

    def to_json(self) -> dict[str, Any]:
        """The edit as plain values; see `edit_from_json`."""
        own = {
            o.name: _listed(getattr(self, o.name))
            for o in options(type(self))
            if o.name != "source"
        }
        return {
            "edit": self._name,
            "point": self.point,
            **own,
            **{axis: spelled(i) for axis, i in self.at.items()},
        }

    @property
    def _name(self) -> str:
        return type(self).__name__

    def __repr__(self) -> str:
        own = {option.name: getattr(self, option.name) for option in options(type(self))}
        at = {"class_" if axis == "class" else axis: index for axis, index in self.at.items()}
        given = [repr(self.point), *(f"{n}={v!r}" for n, v in (own | at).items())]
        return f"{self._name}({', '.join(given)})"


def options(kind: type[Edit]) -> list[Any]:
    """The options of an edit, beside its point and where it acts."""
    return [option for option in fields(kind) if option.name not in ("point", "at")]


def index_of(name: str, axis: str, index: Any) -> Index:
    """A place on an axis as it is kept: a number, numbers as a tuple, a slice."""
    whole = lambda i: isinstance(i, int | np.integer) and not isinstance(i, bool)  # noqa: E731
    if isinstance(index, slice):
        if (
            not all(end is None or whole(end) for end in (index.start, index.stop, index.step))
            or index.step == 0
        ):
            raise ConfigError(f"{name}: {axis}={index!r} is no slice of whole numbers.")
        return index
    if whole(index):
        return int(index)
    if isinstance(index, Tensor | np.ndarray | range):
        index = index.tolist() if not isinstance(index, range) else list(index)
    if (
        isinstance(index, Sequence)
        and not isinstance(index, str)
        and index
        and all(map(whole, index))
    ):
        return tuple(int(i) for i in index)
    raise ConfigError(
        f"{name}: {axis}={index!r} is no place; give a whole number, several, or a slice."
    )


def number_of(name: str, option: str, value: Any) -> float:
    """A finite number; ConfigError: anything else."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        raise ConfigError(f"{name}: {option}={value!r} is no finite number; give one.")
    return float(value)


def numbers_of(name: str, option: str, value: Any) -> Numbers:
    """A number or nested tuples of numbers, from lists, arrays and tensors alike."""
    if isinstance(value, int | float):
        return number_of(name, option, value)
    try:
        array = (
            value.detach().cpu().double().numpy() if isinstance(value, Tensor) else np.array(value)
        )
    except ValueError:
        array = np.array("")
    if array.dtype.kind not in "iuf" or not array.size or not np.isfinite(array).all():
        raise ConfigError(
            f"{name}: {option}={value!r} is no finite number, nor rows of them; give such."
        )
    return _nested(array.astype(np.float64).tolist())


def _nested(value: Any) -> Numbers:
    return tuple(_nested(one) for one in value) if isinstance(value, list) else value


def _listed(value: Any) -> Any:
    """Tuples as lists, as JSON has them."""
    return [_listed(one) for one in value] if isinstance(value, tuple) else value
