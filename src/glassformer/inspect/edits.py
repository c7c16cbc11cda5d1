"""Changes to activations while a model runs, with the same names in Python and in JSON.

    Zero("decoder.blocks.3.attention.z", head=5)
      <->  {"edit": "Zero", "point": "decoder.blocks.3.attention.z", "head": 5}
    Set("decoder.blocks.3.attention.pattern", head=5, query=8, key=1, to=0.9, renormalise=True)

An edit has a point (or a pattern such as `*.attention.z`), its own options, and places by the names
of axes: a number, a list of numbers or a slice (`"2:5"` in JSON) each. An axis that is not named is
meant as a whole. An axis called `class` is written `class_`. Edits change copies. Scores that the
mask closed stay closed. A pattern has no mask any more, so a weight on a later key lets the query
see the future.
"""

import math
from collections.abc import Mapping, Sequence
from typing import Annotated, Any

import torch
from pydantic import Field, InstanceOf

from glassformer.core.axes import Tensor
from glassformer.core.errors import ConfigError, suggest
from glassformer.inspect.look import Look
from glassformer.inspect.points import EDITS, Edit, Named, Numbers, kind_of

TOLERANCE = 1e-6
"""Excess of a row over a sum of 1 that is taken for rounding."""


class Zero(Edit):
    """x = 0, which is off-distribution: never seen in training. Mean and Resample disturb less."""

    def new(self, old: Named) -> Tensor:
        """0."""
        return torch.zeros_like(old.tensor)


class Mean(Edit):
    """x_t = (1/T) Σ_u x_u: at each place the mean over all positions of this sequence.

    For points with one axis of positions. ConfigError: others, such as a pattern.
    """

    def new(self, old: Named) -> Tensor:
        """The mean over the positions."""
        return old.tensor.mean(_positions(self, old), keepdim=True).to(old.tensor.dtype)


class Resample(Edit):
    """x_t = x_π(t): the value of another position, by a permutation π without a fixed point.

    π is a function of `seed` and the length. ConfigError: as Mean, or only one position.
    """

    seed: Annotated[int, Field(ge=0)] = 0

    def new(self, old: Named) -> Tensor:
        """The positions in another order."""
        dim = _positions(self, old)
        if (size := old.shape[dim]) < 2:
            raise self.error(
                old.name, "there is no other position in a sequence of one; give a longer input."
            )
        cycle = torch.randperm(size, generator=torch.Generator().manual_seed(self.seed))
        # one cycle through all positions, so that none stays
        order = cycle.roll(-1)[cycle.argsort()]
        return old.tensor.index_select(dim, order.to(old.tensor.device))


class Permute(Edit):
    """x_t = x_order[t], for example of the stream, `*.blocks.0.resid_pre`.

    ConfigError: as Mean, or an order without each position once.
    """

    order: Sequence[int]

    def new(self, old: Named) -> Tensor:
        """The positions in that order."""
        dim = _positions(self, old)
        if sorted(self.order) != [*range(size := old.shape[dim])]:
            raise self.error(
                old.name, f"the order has not each position from 0 to {size - 1} once."
            )
        return old.tensor.index_select(dim, torch.tensor(self.order, device=old.tensor.device))


class Scale(Edit):
    """x = by · x."""

    by: float

    def new(self, old: Named) -> Tensor:
        """A multiple of the values."""
        return old.tensor * self.by


class Add(Edit):
    """x = x + vector, numbers that fit the point's last axes: a direction of the stream."""

    vector: Numbers

    def new(self, old: Named) -> Tensor:
        """The sum."""
        return old.tensor + _fit(self, self.vector, old)


class Set(Edit):
    """x = to, a number or numbers that fit the point's last axes.

    With `renormalise`, on a pattern: the rest of each row is scaled by (1 - Σ set) / Σ rest, so
    that it sums to 1. ConfigError: a row that cannot, since the rest is 0 or more than 1 was set.
    """

    to: Numbers
    renormalise: bool = False

    def new(self, old: Named) -> Tensor:
        """The given numbers."""
        return _fit(self, self.to, old)

    def __call__(self, tensor: Tensor, axes: tuple[str, ...], point: str) -> Tensor:
        """The tensor with the new values; the rest of their rows rescaled with `renormalise`."""
        new = super().__call__(tensor, axes, point)
        if not self.renormalise:
            return new
        if kind_of(point) != "pattern":
            raise self.error(point, "renormalise is for rows of a pattern; leave it out.")
        inside = self.inside(tensor, axes, point).expand_as(tensor)
        left = 1 - new.where(inside, 0).sum(-1, keepdim=True)
        rest = tensor.where(~inside, 0).sum(-1, keepdim=True)
        rows = inside.any(-1, keepdim=True)
        too_much = (left < -TOLERANCE) | (new < 0).any(-1, keepdim=True)
        cannot = rows & (too_much | (rest <= 0) & (left > TOLERANCE))
        for _, head, query, _ in cannot.nonzero().tolist():
            raise self.error(
                point,
                f"the row of head {head}, query {query} cannot sum to 1, for {self.to} was set and "
                f"the other weights are {float(rest[cannot][0]):.3g} in all; set another weight, "
                f"or name other queries.",
            )
        factor = (left.clamp(min=0) / rest.where(rest > 0, 1)).where(rows, 1)
        return torch.where(inside, new, new * factor)


class Patch(Edit):
    """x = the value of the same point and place in another look, `source`; in JSON its `name`.

    A look patched with itself is the same bit for bit, but for scores and patterns, whose attention
    is then written out: within 1e-6 in float32. ConfigError: no source, or one in which the point
    has another shape.
    """

    source: InstanceOf[Look]
    name: str = ""

    def new(self, old: Named) -> Tensor:
        """The source's values."""
        value = self.source[old.name].tensor
        if value.shape != old.shape[1:]:
            raise self.error(
                old.name,
                f"it is {list(old.shape[1:])} here and {list(value.shape)} in the source; look at "
                f"inputs of one length.",
            )
        return value.detach().to(old.tensor)[None]

    def to_json(self) -> dict[str, Any]:
        """The edit as plain values; ConfigError: the source has no name."""
        if not self.name:
            raise self.error(self.point, "its source has no name; give one as name=.")
        plain = super().to_json()
        return plain | {"source": plain.pop("name")}

    def __repr__(self) -> str:
        named = f"source={self.name or 'look'}"
        return super().__repr__().replace(f"source={self.source!r}", named)


class Freeze(Patch):
    """A pattern as in another look of the same length. Errors: as Patch."""

    kind = "pattern"


class Mask(Edit):
    """Scores of -inf before the softmax: edges are cut, the other weights of the row grow.

    A query all of whose edges are cut sees nothing and gets 0.
    """

    kind = "scores"

    def new(self, old: Named) -> Tensor:
        """-inf."""
        return torch.full_like(old.tensor, -math.inf)


class Temperature(Edit):
    """scores / tau before the softmax, tau > 0: sharper attention below 1, more even above."""

    tau: Annotated[float, Field(gt=0)]
    kind = "scores"

    def new(self, old: Named) -> Tensor:
        """The scores at that temperature."""
        return old.tensor / self.tau


def edit_from_json(value: Any, sources: Mapping[str, Any] = {}) -> Edit:
    """The edit of plain values: its name as `edit`, its `point`, then its options and axes.

    `sources`: the looks that Patch and Freeze may name. ConfigError: a value that is unknown,
    missing or out of range.
    """
    if not isinstance(value, Mapping) or not all(isinstance(key, str) for key in value):
        example = {"edit": "Zero", "point": "*.z", "head": 0}
        raise ConfigError(f"{value!r} is no edit; give an object such as {example}.")
    options = dict(value)
    kind = EDITS.get(str(name := options.pop("edit", None)))
    if kind is None:
        raise ConfigError(f"There is no edit {name!r}; {suggest(str(name), EDITS)}")
    if issubclass(kind, Patch):
        if not isinstance(source := options.get("source"), str) or source not in sources:
            hint = suggest(str(source), sources) if sources else "no look is at hand"
            raise ConfigError(f"{name}: its source is {source!r}, which was not given; {hint}")
        options |= {"source": sources[source], "name": source}
    return kind(options.pop("point", None), **options)


def _fit(edit: Edit, numbers: Any, old: Named) -> Tensor:
    """Numbers as a tensor that can be broadcast to the old one."""
    value = old.tensor.new_tensor(numbers)
    try:
        return value.expand_as(old.tensor)
    except RuntimeError:
        raise edit.error(
            old.name,
            f"numbers of shape {list(value.shape)} do not fit {list(old.shape[1:])}; give one "
            f"number, or as many.",
        ) from None


def _positions(edit: Edit, old: Named) -> int:
    """The dimension of the positions; ConfigError: the point has none, or queries and keys."""
    own = [axis for axis in old.axes if axis in ("position", "query", "key")]
    if len(own) != 1:
        has = "queries and keys, whose mask it would break" if own else "no axis of them"
        raise edit.error(
            old.name,
            f"it moves values between positions, and this point has {has}; take another point.",
        )
    return old.axes.index(own[0])
