"""What a sweep varies, as it is written in arguments.

field=a,b,c         choices
field=1e-4..1e-2    a range, whole if both ends are; by its logarithm from a tenfold on
field=a             the same in all trials; so are lists and texts in quotes: [a, b], 'a,b'
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import product

from glassformer.errors import ConfigError

NUMBER = r"[+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?"
RANGE = re.compile(rf"({NUMBER})\.\.({NUMBER})")
PART = re.compile(r"(?:\[[^\]]*\]|\{[^}]*\}|'[^']*'|\"[^\"]*\"|[^,])*")
"""Up to a comma outside of brackets and quotes."""
TENFOLD = 10
"""Ratio of the ends of a range from which its logarithm is drawn."""
Changes = dict[str, str]
"""Fields of a trial and their values, as overrides of a recipe have them."""


@dataclass(frozen=True)
class Choices:
    """A field with a list of values."""

    field: str
    values: tuple[str, ...]

    @property
    def ends(self) -> tuple[str, ...]:
        """Values with which a recipe is tried before anything is trained."""
        return self.values


@dataclass(frozen=True)
class Range:
    """A field with all numbers from `low` to `high`."""

    field: str
    low: float
    high: float
    whole: bool

    @property
    def log(self) -> bool:
        """Whether its logarithm is drawn evenly."""
        return self.low > 0 and self.high >= TENFOLD * self.low

    @property
    def ends(self) -> tuple[str, ...]:
        """See `Choices`."""
        return self.text(self.low), self.text(self.high)

    def text(self, value: float) -> str:
        """A value as a trial has it: whole, or of four digits."""
        return str(round(value)) if self.whole else f"{value:.4g}"


Axis = Choices | Range


@dataclass(frozen=True)
class Space:
    """The fields of a sweep: those that are the same in all trials, and those that vary."""

    fixed: tuple[str, ...]
    axes: tuple[Axis, ...]

    @property
    def grid(self) -> Iterator[Changes]:
        """Every combination of choices."""
        values = [axis.values for axis in self.axes if isinstance(axis, Choices)]
        for combination in product(*values):
            yield {axis.field: value for axis, value in zip(self.axes, combination, strict=True)}

    @property
    def examples(self) -> Iterator[Changes]:
        """Each choice and each end of a range once, beside the first of the others."""
        first = {axis.field: axis.ends[0] for axis in self.axes}
        for axis in self.axes:
            yield from (first | {axis.field: value} for value in axis.ends)


def read_space(arguments: Sequence[str]) -> Space:
    """The space of arguments; ConfigError: an empty list, a field twice, nothing that varies."""
    fixed, axes, seen = list[str](), list[Axis](), set[str]()
    for argument in arguments:
        field, equals, text = argument.partition("=")
        if not equals or not field:
            raise ConfigError(
                f"{argument!r} names no values; write field=a,b,c or field=low..high, for example "
                "train.optimizer.learning_rate=0.001,0.003."
            )
        if field in seen:
            raise ConfigError(f"{field} is given twice; give all its values at once.")
        seen.add(field)
        if (axis := _axis(field, text)) is None:
            fixed.append(argument)
        else:
            axes.append(axis)
    if not axes:
        raise ConfigError(
            "Nothing varies; give a field a list of values or a range, for example "
            "train.optimizer.learning_rate=0.001,0.003."
        )
    return Space(tuple(fixed), tuple(axes))


def _axis(field: str, text: str) -> Axis | None:
    """The values of a field; None: only one."""
    if found := RANGE.fullmatch(text):
        low, high = map(float, found.groups())
        if low >= high:
            raise ConfigError(f"{field}={text} is no range from low to high; swap its ends.")
        whole = all(end.lstrip("+-").isdecimal() for end in found.groups())
        return Range(field, low, high, whole)
    values = _divided(text)
    if not all(values):
        raise ConfigError(f"{field}={text} has an empty value; write null for none.")
    if len(set(values)) < len(values):
        raise ConfigError(f"{field}={text} has a value twice; give each once.")
    return Choices(field, values) if len(values) > 1 else None


def _divided(text: str) -> tuple[str, ...]:
    """The parts of a text between commas outside of brackets and quotes."""
    parts, at = list[str](), 0
    while at <= len(text):
        found = PART.match(text, at)
        assert found is not None
        parts.append(found[0].strip())
        at = found.end() + 1
    return tuple(parts)
