"""What can be done to a model's inside while it runs: values of small classes, in order, the same
in Python and JSON.

    Zero("decoder.blocks.3.attention.z", head=5)
    Set("decoder.blocks.3.attention.pattern", head=5, query=8, key=1, to=0.9, renormalise=True)
    {"edit": "Zero", "point": "decoder.blocks.3.attention.z", "head": 5}

Every edit is given a point (or a pattern such as `*.attention.z`), its own options, and where it
acts, by the names of axes: a number, a list of numbers or a slice (`"2:5"` in JSON) each; what is
not named is meant as a whole. An axis called `class` is written `class_`. Edits change copies. On
scores, what the mask closed stays closed; a pattern has no mask any more, so that a weight set on a
key behind the query lets it see the future. (`layers.tap`).
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol

import torch

from glassformer.axes import Tensor
from glassformer.errors import ConfigError, suggest
from glassformer.inspect.edit import Edit, Numbers, index_of, number_of, numbers_of
from glassformer.inspect.points import AXES, Named, kind_of

TOLERANCE = 1e-6
"""How far a row may be beyond a sum of 1 by rounding."""


class Source(Protocol):
    """Another look, of which a point's value is taken."""

    def __getitem__(self, name: str) -> Named:
        """The tensor of a point, without the batch axis."""
        ...


@dataclass(frozen=True, init=False, repr=False)
class Zero(Edit):
    """x = 0, which is off-distribution: no model has met it in training; Mean and Resample disturb
    less."""

    def new(self, tensor: Tensor, axes: tuple[str, ...], point: str) -> Tensor:
        """0."""
        return torch.zeros_like(tensor)


@dataclass(frozen=True, init=False, repr=False)
class Mean(Edit):
    """x_t = (1/T) Σ_u x_u: at each place the mean over all positions of this sequence.

    For points with one axis of positions: position, query or key. ConfigError: others, such as a
    pattern.
    """

    def new(self, tensor: Tensor, axes: tuple[str, ...], point: str) -> Tensor:
        """The mean over the positions."""
        return tensor.mean(_positions(self, axes, point), keepdim=True).to(tensor.dtype)


@dataclass(frozen=True, init=False, repr=False)
class Resample(Edit):
    """x_t = x_π(t): at each place the value of another position, by a permutation π of all of them
    that keeps none.

    π is a function of `seed` and the length alone. ConfigError: a point without an axis of
    positions, or with one.
    """

    seed: int = 0

    def checked(self, name: str, value: Any) -> Any:
        """A whole number from 0."""
        if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value < 1 << 63:
            raise ConfigError(f"Resample: seed={value!r} is no seed; give a whole number from 0.")
        return value

    def new(self, tensor: Tensor, axes: tuple[str, ...], point: str) -> Tensor:
        """The positions in another order."""
        dim = _positions(self, axes, point)
        if (size := tensor.shape[dim]) < 2:
            raise ConfigError(
                f"Resample of {point}: there is no other position in a sequence of one; give a "
                f"longer input."
            )
        cycle = torch.randperm(size, generator=torch.Generator().manual_seed(self.seed))
        order = torch.empty_like(cycle)
        order[cycle] = cycle.roll(-1)  # one cycle through all positions, so that none stays
        return tensor.index_select(dim, order.to(tensor.device))


@dataclass(frozen=True, init=False, repr=False)
class Set(Edit):
    """x = to, a number or numbers that fit the point's last axes.

    With `renormalise`, on a pattern: the rest of each row is scaled by (1 - Σ set) / Σ rest, so
    that it sums to 1. ConfigError: a row that cannot, since the rest is 0 or more than 1 was set.
    """

    to: Numbers
    renormalise: bool = False

    def checked(self, name: str, value: Any) -> Any:
        """Finite numbers; a truth value."""
        if name == "to":
            return numbers_of("Set", name, value)
        if not isinstance(value, bool):
            raise ConfigError(f"Set: renormalise={value!r} is neither True nor False.")
        return value

    def new(self, tensor: Tensor, axes: tuple[str, ...], point: str) -> Tensor:
        """The given numbers."""
        return _fitting(self, self.to, tensor, point)

    def __call__(self, tensor: Tensor, axes: tuple[str, ...], point: str) -> Tensor:
        """The tensor with the new values, and with the rest of their rows rescaled if so asked."""
        given = super().__call__(tensor, axes, point)
        if not self.renormalise:
            return given
        if kind_of(point) != "pattern":
            raise ConfigError(
                f"Set of {point}: renormalise is for rows of a pattern; leave it out."
            )
        inside = self.inside(tensor, axes, point).expand_as(tensor)
        left = 1 - given.where(inside, 0).sum(-1, keepdim=True)
        rest = tensor.where(~inside, 0).sum(-1, keepdim=True)
        rows = inside.any(-1, keepdim=True)
        cannot = rows & (
            (left < -TOLERANCE)
            | ((rest <= 0) & (left > TOLERANCE))
            | (given < 0).any(-1, keepdim=True)
        )
        if bool(cannot.any()):
            _, head, query, _ = cannot.nonzero()[0].tolist()
            raise ConfigError(
                f"Set of {point}: the row of head {head}, query {query} cannot sum to 1, for "
                f"{self.to} was set and the "
                f"other weights are {float(rest[cannot][0]):.3g} in all; set another weight, "
                f"or name other queries."
            )
        factor = (left.clamp(min=0) / rest.where(rest > 0, 1)).where(rows, 1)
        return torch.where(inside, given, given * factor)


@dataclass(frozen=True, init=False, repr=False)
class Scale(Edit):
    """x = by · x."""

    by: float

    def checked(self, name: str, value: Any) -> Any:
        """A finite number."""
        return number_of("Scale", name, value)

    def new(self, tensor: Tensor, axes: tuple[str, ...], point: str) -> Tensor:
        """A multiple of the values."""
        return tensor * self.by


@dataclass(frozen=True, init=False, repr=False)
class Add(Edit):
    """x = x + vector, a number or numbers that fit the point's last axes: a direction of the
    stream, for example."""

    vector: Numbers

    def checked(self, name: str, value: Any) -> Any:
        """Finite numbers."""
        return numbers_of("Add", name, value)

    def new(self, tensor: Tensor, axes: tuple[str, ...], point: str) -> Tensor:
        """The sum."""
        return tensor + _fitting(self, self.vector, tensor, point)


@dataclass(frozen=True, init=False, repr=False)
class Patch(Edit):
    """x = the value of the same point and place in another look, `source`; JSON has its `name` as
    `source`.

    A look patched with itself is the same bit for bit, but for scores and patterns, whose attention
    is then written out: within 1e-6 in float32. ConfigError: no source, or one in which the point
    has another shape.
    """

    source: Source
    name: str = ""

    def checked(self, name: str, value: Any) -> Any:
        """A look; a text."""
        if name == "name" and not isinstance(value, str):
            raise ConfigError(f"{self._name}: name={value!r} is no name; give a text.")
        if name == "source" and (
            isinstance(value, str | Mapping) or not hasattr(value, "__getitem__")
        ):
            raise ConfigError(
                f"{self._name}: source={value!r} is no look; give the look whose values are taken."
            )
        return value

    def new(self, tensor: Tensor, axes: tuple[str, ...], point: str) -> Tensor:
        """The source's values."""
        value = self.source[point].tensor
        if value.shape != tensor.shape[1:]:
            raise ConfigError(
                f"{self._name} of {point}: it is {list(tensor.shape[1:])} here and "
                f"{list(value.shape)} in the source; "
                "look at inputs of one length."
            )
        return value.detach().to(tensor)[None]

    def to_json(self) -> dict[str, Any]:
        """The edit as plain values; ConfigError: the source has no name."""
        if not self.name:
            raise ConfigError(
                f"{self._name} of {self.point}: its source has no name; give one as name=."
            )
        plain = super().to_json()
        return {("source" if key == "name" else key): value for key, value in plain.items()}

    def __repr__(self) -> str:
        return (
            super().__repr__().replace(f"source={self.source!r}", f"source={self.name or 'look'}")
        )


@dataclass(frozen=True, init=False, repr=False)
class Freeze(Patch):
    """A pattern as it was in another look of the same length, however the input changes.
    ConfigError: as Patch."""

    kinds = ("pattern",)


@dataclass(frozen=True, init=False, repr=False)
class Mask(Edit):
    """Cut edges: scores are -inf before the softmax, and the other weights of the row grow. For
    scores.

    A query all of whose edges are cut sees nothing and gets 0.
    """

    kinds = ("scores",)

    def new(self, tensor: Tensor, axes: tuple[str, ...], point: str) -> Tensor:
        """-inf."""
        return torch.full_like(tensor, -math.inf)


@dataclass(frozen=True, init=False, repr=False)
class Temperature(Edit):
    """scores / tau before the softmax, tau > 0: below 1 a head looks more sharply, above 1 more
    evenly. For scores."""

    tau: float
    kinds = ("scores",)

    def checked(self, name: str, value: Any) -> Any:
        """A number above 0."""
        if (tau := number_of("Temperature", name, value)) <= 0:
            raise ConfigError(
                f"Temperature: tau={value!r} must be above 0; near 0 is the largest score alone."
            )
        return tau

    def new(self, tensor: Tensor, axes: tuple[str, ...], point: str) -> Tensor:
        """The scores at that temperature."""
        return tensor / self.tau


@dataclass(frozen=True, init=False, repr=False)
class Permute(Edit):
    """x_t = x_order[t]: the positions in another order, for example of the stream,
    `*.blocks.0.resid_pre`.

    For points with one axis of positions. ConfigError: others, or an order that has not each
    position once.
    """

    order: tuple[int, ...]

    def checked(self, name: str, value: Any) -> Any:
        """Each of 0 .. T - 1 once."""
        order = index_of("Permute", name, value)
        if not isinstance(order, tuple) or sorted(order) != list(range(len(order))):
            raise ConfigError(f"Permute: order={value!r} has not each of 0, 1, 2, ... once.")
        return order

    def new(self, tensor: Tensor, axes: tuple[str, ...], point: str) -> Tensor:
        """The positions in that order."""
        dim = _positions(self, axes, point)
        if (size := tensor.shape[dim]) != len(self.order):
            raise ConfigError(
                f"Permute of {point}: the order has {len(self.order)} positions and the point "
                f"{size}."
            )
        return tensor.index_select(dim, torch.tensor(self.order, device=tensor.device))


EDITS: dict[str, type[Edit]] = {
    kind.__name__: kind
    for kind in (Zero, Mean, Resample, Set, Scale, Add, Patch, Freeze, Mask, Temperature, Permute)
}


def edit_from_json(value: Any, sources: Mapping[str, Source] | None = None) -> Edit:
    """The edit of plain values: `edit` names it, `point` where it acts, then its options and axes.

    `sources`: the looks that Patch and Freeze may name. ConfigError: whatever is unknown, missing
    or out of range.
    """
    if not isinstance(value, Mapping) or not all(isinstance(key, str) for key in value):
        raise ConfigError(
            f"{value!r} is no edit; give an object such as {{'edit': 'Zero', 'point': '*.z', "
            f"'head': 0}}."
        )
    given = dict(value)
    if not isinstance(name := given.pop("edit", None), str) or name not in EDITS:
        raise ConfigError(f"There is no edit {name!r}; {suggest(str(name), EDITS)}")
    kind = EDITS[name]
    if "point" not in given:
        raise ConfigError(f"{name} needs 'point'; give it.")
    point = given.pop("point")
    if issubclass(kind, Patch):
        given |= _source(kind.__name__, given, sources or {})
    for axis in AXES:
        if isinstance(index := given.get(axis), str):
            given[axis] = _slice(kind.__name__, axis, index)
        elif isinstance(index, slice):
            raise ConfigError(
                f"{name}: {axis}={index!r} is Python's; JSON has slices as 'begin:end'."
            )
    return kind(point, **given)


def _source(name: str, given: Mapping[str, Any], known: Mapping[str, Source]) -> dict[str, Any]:
    if "name" in given:
        raise ConfigError(f"{name}: 'name' is Python's; JSON has the name of the look as 'source'.")
    if not isinstance(named := given.get("source"), str) or named not in known:
        hint = suggest(str(named), known) if known else "no look is at hand"
        raise ConfigError(f"{name}: its source is {named!r}, which was not given; {hint}")
    return {"source": known[named], "name": named}


def _slice(name: str, axis: str, text: str) -> slice:
    try:
        ends = [int(part) if part else None for part in text.split(":")]
    except ValueError:
        ends = []
    if not 2 <= len(ends) <= 3:
        raise ConfigError(f"{name}: {axis}={text!r} is no slice; write 'begin:end'.")
    return slice(*ends)


def _fitting(edit: Edit, numbers: Numbers, tensor: Tensor, point: str) -> Tensor:
    value = torch.tensor(numbers, dtype=tensor.dtype, device=tensor.device)
    fits = value.dim() <= tensor.dim() and all(
        own in (1, size)
        for own, size in zip(reversed(value.shape), reversed(tensor.shape), strict=False)
    )
    if not fits:
        name, given, there = type(edit).__name__, list(value.shape), list(tensor.shape[1:])
        raise ConfigError(
            f"{name} of {point}: numbers of shape {given} do not fit {there}; give one number, "
            f"or as many."
        )
    return value


def _positions(edit: Edit, axes: tuple[str, ...], point: str) -> int:
    """The axis of positions; ConfigError: the point has none, or queries and keys."""
    own = [axis for axis in axes if axis in ("position", "query", "key")]
    if len(own) != 1:
        has = "queries and keys, whose mask it would break" if own else "no axis of them"
        raise ConfigError(
            f"{type(edit).__name__} of {point}: it moves values between positions, and this "
            f"point has {has}; take another point."
        )
    return axes.index(own[0])
