"""One row of a verification: an equation of the notes, the production function that computes it,
and the largest difference from the reference.

`claims.tsv` says of each claim where it stands, its formula, the production function and the
tolerance; code gives the numbers:

    yield row("scores", got, expected)

`<1>`, `<2>`, ... in a text of a claim stand for further arguments of the row.
"""

import csv
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

Numbers = NDArray[Any] | torch.Tensor | Sequence[Any] | float
"""Values that can be compared."""
Gap = tuple[str, Numbers, NDArray[Any]]
"""A place, what production computed there, and what the reference computes."""

TOLERANCES = {
    # Whole numbers, or values that are copied and not computed.
    "exact": 0.0,
    # A few float64 operations on numbers near 1: about 1e4 units of rounding (2.2e-16).
    "tight": 1e-12,
    # One step of a model of any width: matrix products over thousands of terms that may cancel.
    "product": 1e-11,
    # Many float64 operations in a row (a whole model, a matrix of derivatives): rounding adds up.
    "deep": 1e-10,
}
"""Tolerances by their names in `claims.tsv`, where others stand as numbers."""


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


def read_table(name: str) -> list[dict[str, str]]:
    """Lines of a table in this folder by the names of its columns."""
    text = Path(__file__).with_name(name).read_text(encoding="utf-8")
    return list(csv.DictReader(text.splitlines(), delimiter="\t", quoting=csv.QUOTE_NONE))


@cache
def claims() -> dict[str, dict[str, str]]:
    """Lines of `claims.tsv` by the names of the claims."""
    return {line["claim"]: line for line in read_table("claims.tsv")}


def variant(claim: str, choice: str) -> str:
    """The claim of that choice if it has its own, else `claim`."""
    own = f"{claim}.{choice}"
    return own if own in claims() else claim


def row(
    claim: str,
    got: Numbers,
    expected: Numbers,
    *about: object,
    function: Callable[..., Any] | None = None,
) -> Row:
    """The row that compares what production `got` with what the reference `expected`.

    `function`: the production function, where it is not the claim's.
    """
    return measured(claim, max_error(got, expected), *about, function=function)


def measured(
    claim: str,
    error: float,
    *about: object,
    function: Callable[..., Any] | None = None,
    scale: float = 1.0,
    place: str = "",
) -> Row:
    """The row of a measured error, whose tolerance is the claim's times `scale`.

    `place` is added to its detail.
    """
    line = claims()[claim]
    texts = [line[column] for column in ("note", "equation", "formula", "detail")]
    for number, value in enumerate(about, 1):
        texts = [text.replace(f"<{number}>", str(value)) for text in texts]
    note, equation, formula, detail = texts
    name = f"glassformer.{line['function']}"
    if function is not None:
        name = f"{function.__module__}.{function.__qualname__}"
    unit, detail = line["tolerance"], "; ".join(filter(None, (detail, place)))
    tolerance = scale * (TOLERANCES[unit] if unit in TOLERANCES else float(unit))
    return Row(note, equation, formula, name, float(error), tolerance, detail)


def at_least(claim: str, value: float, limit: float) -> Row:
    """The row of "`value` is at least `limit`": its error is what is missing."""
    missing = max(0.0, limit - value) if value == value else float("inf")
    return measured(claim, missing, f"{value:.3g}", f"{limit:.3g}")


def report_row(misfit: float, run: Path, best_step: int | None) -> Row:
    """The row of the scores that training reported of a run, as a multiple of what rounding
    explains; `best_step`: the best by a new evaluation."""
    place = ""
    if misfit > 1:
        found = "" if best_step is None else f"; by a new evaluation step {best_step:,} is the best"
        place = (
            f"training reported other scores than these weights have{found}: choose the best "
            f"checkpoint by `glassformer evaluate {run} --all-checkpoints --choose`"
        )
    return measured("report", misfit, place=place)


def worst(
    claim: str, gaps: Iterable[Gap], function: Callable[..., Any] | None = None
) -> Iterable[Row]:
    """One row for the gap that uses up most of its tolerance, which is the claim's times the
    largest number there (at least 1)."""
    found = [(max_error(got, expected), largest(expected), place) for place, got, expected in gaps]
    if found:
        error, scale, place = max(found, key=lambda one: one[0] / one[1])
        place = f"worst of {len(found)}: {place}" if len(found) > 1 else place
        yield measured(claim, error, function=function, scale=scale, place=place)


def largest(values: NDArray[Any]) -> float:
    """Largest magnitude of the finite values, at least 1."""
    return float(np.abs(values[np.isfinite(values)]).max(initial=1.0))


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
