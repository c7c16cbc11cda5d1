"""One line of a verification: an equation of the notes, what computes it, and how far that is from
the reference."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

Numbers = NDArray[Any] | torch.Tensor | Sequence[Any] | float
"""What can be compared."""

TIGHT = 1e-12
"""A few float64 operations on numbers near 1: about 1e4 units of rounding (2.2e-16)."""
PRODUCT = 1e-11
"""One step of a model of any width: matrix products over up to thousands of terms that may
cancel."""
DEEP = 1e-10
"""Many float64 operations in a row (a whole model, a matrix of derivatives): rounding adds up
through them."""
EXACT = 0.0
"""Whole numbers, or values that are copied and not computed."""


@dataclass(frozen=True)
class Row:
    """The largest absolute error of one production function against the reference; it passed if
    within tolerance."""

    note: str
    equation: str
    formula: str
    function: str
    max_abs_error: float
    tolerance: float
    detail: str = ""

    @property
    def passed(self) -> bool:
        """True if the error is a number and not above the tolerance (NaN fails)."""
        return self.max_abs_error <= self.tolerance


def name_of(thing: Callable[..., Any]) -> str:
    """The dotted name of a function or class, so that a row can never name what does not exist."""
    return f"{thing.__module__}.{thing.__qualname__}"


def numbers(value: Numbers) -> NDArray[Any]:
    """A float64 array of a tensor, array or number."""
    array = value.detach().cpu().numpy() if isinstance(value, torch.Tensor) else value
    return np.asarray(array, dtype=np.float64)


def max_error(got: Numbers, expected: Numbers) -> float:
    """max |got - expected|; equal infinities differ by 0, different shapes and NaN count as
    infinitely far."""
    a, b = numbers(got), numbers(expected)
    if a.shape != b.shape or np.isnan(a).any() or np.isnan(b).any():
        return float("inf")
    with np.errstate(invalid="ignore"):
        gap = np.where(a == b, 0.0, np.abs(a - b))
    return float(gap.max(initial=0.0))


def row(
    note: str,
    equation: str,
    formula: str,
    function: Callable[..., Any] | str,
    got: Numbers,
    expected: Numbers,
    tolerance: float = TIGHT,
    detail: str = "",
) -> Row:
    """The row that compares what production `got` with what the reference `expected`."""
    name = function if isinstance(function, str) else name_of(function)
    return Row(note, equation, formula, name, max_error(got, expected), tolerance, detail)


def at_most(
    note: str,
    equation: str,
    formula: str,
    function: Callable[..., Any],
    value: float,
    limit: float,
    detail: str = "",
) -> Row:
    """The row of a claim "`value` is at most `limit`", for what the notes state in words."""
    return Row(note, equation, formula, name_of(function), float(value), limit, detail)


def at_least(
    note: str,
    equation: str,
    formula: str,
    function: Callable[..., Any],
    value: float,
    limit: float,
    detail: str = "",
) -> Row:
    """The row of a claim "`value` is at least `limit`": its error is what is missing, and none may
    be missing."""
    missing = max(0.0, limit - float(value)) if value == value else float("inf")
    shown = f"measured {value:.3g}, at least {limit:.3g}" + (f"; {detail}" if detail else "")
    return Row(note, equation, formula, name_of(function), missing, EXACT, shown)
