"""One row of a verification: an equation of the notes, the production function that computes it,
and the largest difference from the reference.

`claims.tsv` has for each claim its note, its formula, the production function and the tolerance;
code gives gaps, each a claim with numbers of production and of the reference.
"""

import csv
from collections import defaultdict
from collections.abc import Iterable, Iterator
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray

from glassformer.core.errors import amount
from glassformer.core.files import finite

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
    """A claim and a place, with the numbers of production and of the reference there."""

    claim: str
    place: str
    got: ArrayLike | torch.Tensor
    expected: ArrayLike


class Row(NamedTuple):
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
    """One row for each claim, in the order of `claims.tsv`, for the gap that uses up most of its
    tolerance, which is the claim's times the largest number there (at least 1)."""
    found = defaultdict[str, list[tuple[float, float, str]]](list)
    for claim, place, got, expected in gaps:
        known = numbers(expected)
        scale = float(np.abs(known[np.isfinite(known)]).max(initial=1.0))
        found[claim].append((max_error(got, expected), scale, place))
    for claim, line in claims().items():
        if errors := found[claim]:
            error, scale, place = max(errors, key=lambda one: one[0] / one[1])
            place = f"worst of {len(errors)}: {place}" if len(errors) > 1 else place
            detail = "; ".join(filter(None, (line["detail"], place)))
            tolerance = scale * TOLERANCES[line["tolerance"]]
            note, equation, formula = (line[name] for name in ("note", "equation", "formula"))
            function = f"glassformer.{line['function']}"
            yield Row(note, equation, formula, function, error, tolerance, detail)


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
    if a.shape != b.shape or np.isnan((a, b)).any():
        return float("inf")
    with np.errstate(invalid="ignore"):
        gap = np.where(a == b, 0.0, np.abs(a - b))
    return float(gap.max(initial=0.0))


def table(rows: Iterable[Row]) -> str:
    """One line for each row: verdict, largest error, tolerance, note, equation, formula; a count at
    the end."""
    rows = list(rows)
    lines = [("", "error", "tolerance", "note", "equation", "formula")]
    for row in rows:
        verdict, formula = "ok" if row.passed else "FAIL", row.formula
        formula += f"  [{row.detail}]" if row.detail else ""
        error, tolerance = f"{row.max_abs_error:.1e}", f"{row.tolerance:.0e}"
        lines.append((verdict, error, tolerance, row.note, row.equation, formula))
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    text = ["  ".join(map(str.ljust, line, widths)).rstrip() for line in lines]
    return "\n".join([*text, "", summary(rows)])


def summary(rows: Iterable[Row]) -> str:
    """One sentence: how many rows passed, and where the first failure is."""
    number = amount(len(rows := list(rows)), "row")
    failed = [row for row in rows if not row.passed]
    if not failed:
        return f"All {number} passed."
    first = f"first {failed[0].equation} ({failed[0].function})"
    return f"{len(failed)} of {number} failed, {first}."


def as_json(rows: Iterable[Row]) -> list[dict[str, Any]]:
    """Rows as dictionaries of plain values; an error that is not finite is None (JSON has no
    infinity)."""
    return finite([row._asdict() | {"passed": row.passed} for row in rows])
