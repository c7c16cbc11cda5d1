"""Rows as a plain-text table for the terminal and as values for JSON."""

import math
from collections.abc import Iterable
from dataclasses import asdict
from typing import Any

from glassformer.errors import counted
from glassformer.verify.row import Row


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
    rows = list(rows)
    failed = [row for row in rows if not row.passed]
    if not failed:
        return f"All {counted(len(rows), 'row')} passed."
    first = f"first {failed[0].equation} ({failed[0].function})"
    return f"{len(failed)} of {counted(len(rows), 'row')} failed, {first}."


def as_json(rows: Iterable[Row]) -> list[dict[str, Any]]:
    """Rows as dictionaries of plain values; an error that is not finite is None (JSON has no
    infinity)."""
    values = [asdict(row) | {"passed": row.passed} for row in rows]
    for value in values:
        if not math.isfinite(value["max_abs_error"]):
            value["max_abs_error"] = None
    return values
