"""One row of a verification: an equation of the notes, the production function that computes it,
and the largest difference from the reference.

`claims.tsv` has for each claim its note, its formula, the production function and the tolerance;
code gives gaps, each a claim with numbers of production and of the reference.
"""

import csv
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray

TOLERANCES = {
    # Whole numbers, or values that are copied and not computed.
    "exact": 0.0,
    # One step of a model of any width: matrix products over thousands of terms that may cancel.
    "product": 1e-11,
    # Many float64 operations in a row (a whole model, a matrix of derivatives): rounding adds up.
    "deep": 1e-10,
}
"""Tolerances by their names in `claims.tsv`."""


class Gap(NamedTuple):
    """A claim and a place, the numbers that production computed there, and those of the reference.

    `function`: the production function, where it is not the claim's.
    """

    claim: str
    place: str
    got: ArrayLike | torch.Tensor
    expected: ArrayLike
    function: Any = None


@dataclass(frozen=True)
class Row:
    """Largest absolute error of one production function against the reference.

    `note` is its source: a note; "Later work", with the paper in `detail`; "This project" for a
    contract of this library.
    """

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


@cache
def claims() -> dict[str, dict[str, str]]:
    """Lines of `claims.tsv` by the names of the claims."""
    text = Path(__file__).with_name("claims.tsv").read_text(encoding="utf-8")
    lines = csv.DictReader(text.splitlines(), delimiter="\t", quoting=csv.QUOTE_NONE)
    return {line["claim"]: line for line in lines}


def variant(claim: str, *choices: str) -> str:
    """The claim of the first of these choices that has its own, else `claim`."""
    own = (f"{claim}.{choice}" for choice in choices)
    return next((name for name in own if name in claims()), claim)


def rows_of(gaps: Iterable[Gap]) -> Iterator[Row]:
    """One row for each claim and function, in the order of `claims.tsv`, for the gap that uses up
    most of its tolerance, which is the claim's times the largest number there (at least 1)."""
    found: dict[str, dict[Any, list[tuple[float, float, str]]]] = {name: {} for name in claims()}
    for claim, place, got, expected, function in gaps:
        error = max_error(got, expected), largest(expected), place
        found[claim].setdefault(function, []).append(error)
    for claim, errors in found.items():
        line = claims()[claim]
        for function, all_errors in errors.items():
            error, scale, place = max(all_errors, key=lambda one: one[0] / one[1])
            place = f"worst of {len(all_errors)}: {place}" if len(all_errors) > 1 else place
            name = f"glassformer.{line['function']}"
            if function is not None:
                name = f"{function.__module__}.{function.__qualname__}"
            tolerance = scale * TOLERANCES[line["tolerance"]]
            detail = "; ".join(filter(None, (line["detail"], place)))
            about = line["note"], line["equation"], line["formula"]
            yield Row(*about, name, error, tolerance, detail)


def largest(values: ArrayLike) -> float:
    """Largest magnitude of the finite values, at least 1."""
    known = numbers(values)
    return float(np.abs(known[np.isfinite(known)]).max(initial=1.0))


def numbers(value: ArrayLike | torch.Tensor) -> NDArray[np.float64]:
    """A float64 array of a tensor, array or number."""
    array = value.detach().cpu().numpy() if isinstance(value, torch.Tensor) else value
    return np.asarray(array, dtype=np.float64)


def max_error(got: ArrayLike | torch.Tensor, expected: ArrayLike) -> float:
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
