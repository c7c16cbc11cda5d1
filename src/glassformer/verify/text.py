"""Rows as a plain-text table for the terminal and as values for JSON."""

import math
from collections.abc import Iterable
from typing import Any

from glassformer.errors import counted
from glassformer.verify.row import Row


def table(rows: Iterable[Row]) -> str:
    """One line for each row: verdict, largest error, tolerance, note, equation, formula; a count at
    the end."""
    rows = list(rows)
    lines = [("", "error", "tolerance", "note", "equation", "formula")]
    lines += [
        (
            "ok" if row.passed else "FAIL",
            f"{row.max_abs_error:.1e}",
            f"{row.tolerance:.0e}",
            row.note,
            row.equation,
            f"{row.formula}  [{row.detail}]" if row.detail else row.formula,
        )
        for row in rows
    ]
    widths = [max(len(line[column]) for line in lines) for column in range(5)]
    text = [
        "  ".join(
            [*(cell.ljust(width) for cell, width in zip(line, widths, strict=False)), line[5]]
        )
        for line in lines
    ]
    return "\n".join([*(line.rstrip() for line in text), "", summary(rows)])


def summary(rows: Iterable[Row]) -> str:
    """One sentence: how many rows passed, and where the first failure is."""
    rows = list(rows)
    failed = [row for row in rows if not row.passed]
    if not failed:
        return f"All {counted(len(rows), 'row')} passed."
    first = failed[0]
    return (
        f"{len(failed)} of {counted(len(rows), 'row')} failed, first {first.equation} "
        f"({first.function})."
    )


def as_json(rows: Iterable[Row]) -> list[dict[str, Any]]:
    """Rows as dictionaries of plain values; an error that is not a finite number is None (JSON has
    no infinity)."""
    return [
        {
            "note": row.note,
            "equation": row.equation,
            "formula": row.formula,
            "function": row.function,
            "detail": row.detail,
            "max_abs_error": row.max_abs_error if math.isfinite(row.max_abs_error) else None,
            "tolerance": row.tolerance,
            "passed": row.passed,
        }
        for row in rows
    ]
