"""The arguments that say which fields a sweep varies.

field=a,b,c       | choices
field=1e-4..1e-2  | a range, of whole numbers if both ends are
field=a           | the same in all trials; so are lists and texts in quotes: [a, b], 'a,b'
"""

import re
from collections.abc import Sequence
from importlib import import_module
from typing import Any

from glassformer.core.errors import ConfigError

NUMBER = r"[+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?"
RANGE = re.compile(rf"({NUMBER})\.\.({NUMBER})")
PART = re.compile(r",((?:\[[^\]]*\]|\{[^}]*\}|'[^']*'|\"[^\"]*\"|[^,])*)")
"""From a comma to the next one outside of brackets and quotes."""
TENFOLD = 10
"""Ratio of the ends of a range from which its logarithm is drawn evenly."""
Axes = dict[str, Any]
"""Fields that vary, each with its distribution of Optuna."""


def optuna() -> Any:
    """Return Optuna; ConfigError: it is not installed."""
    try:
        return import_module("optuna")
    except ImportError:
        raise ConfigError("Sweeps need Optuna; run pip install 'glassformer[sweep]'.") from None


def read_space(arguments: Sequence[str]) -> tuple[list[str], Axes]:
    """Return the arguments that stay the same, and the fields that vary.

    ConfigError: an empty list, a field twice, nothing that varies.
    """
    fixed, axes, seen = list[str](), Axes(), set[str]()
    for argument in arguments:
        field, equals, text = argument.partition("=")
        if not equals or not field:
            raise ConfigError(
                f"{argument!r} names no values; write field=a,b,c or field=low..high, for example "
                "train.optimizer.learning_rate=0.001,0.003."
            )
        if field in seen:
            raise ConfigError(f"{field} is given twice; give all its values together.")
        seen.add(field)
        if axis := _axis(field, text):
            axes[field] = axis
        else:
            fixed.append(argument)
    if not axes:
        raise ConfigError(
            "Nothing varies; give a field a list of values or a range, for example "
            "train.optimizer.learning_rate=0.001,0.003."
        )
    return fixed, axes


def as_text(value: Any) -> str:
    """Return a value as a recipe has it, a fraction with four digits."""
    return f"{value:.4g}" if isinstance(value, float) else str(value)


def _axis(field: str, text: str) -> Any:
    kinds = optuna().distributions
    if found := RANGE.fullmatch(text):
        low, high = map(float, found.groups())
        if low >= high:
            raise ConfigError(f"{field}={text} is no range from low to high; swap its ends.")
        log = low > 0 and high >= TENFOLD * low
        if all(end.lstrip("+-").isdecimal() for end in found.groups()):
            return kinds.IntDistribution(round(low), round(high), log=log)
        return kinds.FloatDistribution(low, high, log=log)
    values = [part.strip() for part in PART.findall(f",{text}")]
    if not all(values):
        raise ConfigError(f"{field}={text} has an empty value; write null for none.")
    if len(set(values)) < len(values):
        raise ConfigError(f"{field}={text} has a value twice; give each once.")
    return kinds.CategoricalDistribution(values) if len(values) > 1 else None
