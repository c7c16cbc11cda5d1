"""Rows of `verify` as a page: grouped by note, each error on a log scale beside its tolerance."""

import math
import re
from collections.abc import Iterable
from typing import Any

from glassformer.pages.kit import Html, document, escape, paragraph, table

NOTES = {
    "A": "course chapter 9",
    "B": "slides after Jurafsky & Martin",
    "C": "module with demos",
    "D": "lecture CS-433",
    "E": "technical note",
}
"""Title of each note."""
LEAST, MOST = -18, 1
"""Ends of the error scale, as powers of ten."""


def verification_html(rows: Iterable[dict[str, Any]], verdict: str, title: str) -> str:
    """A page of rows as `verify.as_json` gives them, by note, after the verdict in one sentence."""
    groups: dict[str, list[dict[str, Any]]] = {}
    for row in rows:
        found = re.match(r"Notes? ([A-E])\b", row["note"])
        groups.setdefault(f"Note {found[1]}" if found else row["note"], []).append(row)
    names = sorted(groups, key=lambda name: (not name.startswith("Note "), name))
    good = all(row["passed"] for group in groups.values() for row in group)
    about = Html(
        "Each row runs a production function in float64 and an independent NumPy implementation, "
        "and gives the largest absolute difference. The bar is its logarithm from "
        f"10<sup>{LEAST}</sup> to 10<sup>{MOST}</sup>, the upright line the tolerance. A row is "
        "listed under the first note that has it."
    )
    return document(
        title,
        paragraph(verdict, "verdict good" if good else "verdict bad"),
        paragraph(about),
        *(_section(name, groups[name]) for name in names),
    )


def _section(name: str, rows: list[dict[str, Any]]) -> str:
    passed = f"{sum(row['passed'] for row in rows)} of {len(rows)} passed"
    about = NOTES.get(name.removeprefix("Note "))
    head = ["Equation", "Formula", "Computed by", "Largest error", "Verdict"]
    caption = f"{about} · {passed}" if about else passed
    checks = table(caption, head, map(_cells, rows), "checks")
    return f"<h2>{escape(name)}</h2>{checks}"


def _cells(row: dict[str, Any]) -> list[Html]:
    kind, verdict = ("good", "passed") if row["passed"] else ("bad", "failed")
    note, equation, formula, function, detail = (
        escape(row[name]) for name in ("note", "equation", "formula", "function", "detail")
    )
    error, tolerance = row["max_abs_error"], row["tolerance"]
    cells = (
        f"{equation}<small>{note}</small>",
        f'<span class="formula">{formula}</span><small>{detail}</small>',
        f"<code>{re.sub('(?=[._])', '<wbr>', function)}</code>",
        f'{_number(error)} ≤ {_number(tolerance)}<div class="error {kind}">'
        f'<i style="width:{_place(error):.1f}%"></i>'
        f'<b style="left:{_place(tolerance):.1f}%"></b></div>',
        f'<span class="{kind}">{verdict}</span>',
    )
    return [*map(Html, cells)]


def _number(value: float | None) -> str:
    if not value:
        return "0" if value == 0 else "∞"
    return f"{value:.1e}".replace("e-0", "e-").replace("e+0", "e+")


def _place(value: float | None) -> float:
    """Percent of the scale at which a value stands; an error without a number stands at its end."""
    power = MOST if value is None else math.log10(max(value, 10.0**LEAST))
    return 100 * min(1.0, (power - LEAST) / (MOST - LEAST))
