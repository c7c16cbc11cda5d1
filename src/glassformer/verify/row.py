"""One row of a verification: an equation of the notes, the production function that computes it,
and the largest difference from the reference.

A `Claim` names an equation and the notes that have it, and makes its rows:

    three = Claim("Notes A, B, D, E", "3 attention")
    yield three("S = Q Kᵀ / √d_k", attend.attention_scores, got, expected)
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

Numbers = NDArray[Any] | torch.Tensor | Sequence[Any] | float
"""What can be compared."""

TIGHT = 1e-12
"""A few float64 operations on numbers near 1: about 1e4 units of rounding (2.2e-16)."""
PRODUCT = 1e-11
"""One step of a model of any width: matrix products over thousands of terms that may cancel."""
DEEP = 1e-10
"""Many float64 operations in a row (a whole model, a matrix of derivatives): rounding adds up."""
EXACT = 0.0
"""Whole numbers, or values that are copied and not computed."""
LATER, PROJECT = "Later work", "This project"
"""Sources of a row that no note has: a paper, named in `detail`; or a contract of this library."""


@dataclass(frozen=True)
class Row:
    """Largest absolute error of one production function against the reference."""

    note: str
    equation: str
    formula: str
    function: str
    max_abs_error: float
    tolerance: float
    detail: str = ""

    @property
    def passed(self) -> bool:
        """Whether the error is within the tolerance (NaN fails)."""
        return self.max_abs_error <= self.tolerance


def name_of(thing: Callable[..., Any]) -> str:
    """Dotted name of a function or class."""
    return f"{thing.__module__}.{thing.__qualname__}"


def numbers(value: Numbers) -> NDArray[Any]:
    """A float64 array of a tensor, array or number."""
    array = value.detach().cpu().numpy() if isinstance(value, torch.Tensor) else value
    return np.asarray(array, dtype=np.float64)


def max_error(got: Numbers, expected: Numbers) -> float:
    """max |got - expected|; equal infinities differ by 0, other shapes and NaN by infinity.

    Leading axes of size 1 that only `got` has (a batch of one) are dropped.
    """
    a, b = numbers(got), numbers(expected)
    while a.ndim > b.ndim and len(a) == 1:
        a = a[0]
    if a.shape != b.shape or np.isnan(a).any() or np.isnan(b).any():
        return float("inf")
    with np.errstate(invalid="ignore"):
        gap = np.where(a == b, 0.0, np.abs(a - b))
    return float(gap.max(initial=0.0))


@dataclass(frozen=True)
class Claim:
    """An equation and its source; `detail` stands in every row that has no other."""

    note: str
    equation: str
    detail: str = ""

    def by(self, note: str, detail: str = "") -> "Claim":
        """The same equation from another source."""
        return replace(self, note=note, detail=detail)

    def __call__(
        self,
        formula: str,
        function: Callable[..., Any],
        got: Numbers,
        expected: Numbers,
        tolerance: float = TIGHT,
        detail: str = "",
    ) -> Row:
        """The row that compares what production `got` with what the reference `expected`."""
        return self.at_most(formula, function, max_error(got, expected), tolerance, detail)

    def at_most(
        self,
        formula: str,
        function: Callable[..., Any],
        value: float,
        limit: float,
        detail: str = "",
    ) -> Row:
        """The row of a statement in words, "`value` is at most `limit`"."""
        said, name = detail or self.detail, name_of(function)
        return Row(self.note, self.equation, formula, name, float(value), limit, said)

    def at_least(
        self,
        formula: str,
        function: Callable[..., Any],
        value: float,
        limit: float,
        detail: str = "",
    ) -> Row:
        """The row of "`value` is at least `limit`": its error is what is missing."""
        missing = max(0.0, limit - float(value)) if value == value else float("inf")
        shown = f"measured {value:.3g}, at least {limit:.3g}" + (f"; {detail}" if detail else "")
        return self.at_most(formula, function, missing, EXACT, shown)
