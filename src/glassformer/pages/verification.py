"""Rows of `verify` as a page: grouped by note, each error on a log scale beside its tolerance."""

import math
import re
from collections import defaultdict
from collections.abc import Iterable
from typing import Any

from glassformer.pages.kit import Html, document, escape, render

NOTES = {
    "Note A": "course chapter 9",
    "Note B": "slides after Jurafsky & Martin",
    "Note C": "module with demos",
    "Note D": "lecture CS-433",
    "Note E": "technical note",
}
"""Title of each note."""
LEAST, MOST = -18, 1
"""Ends of the error scale, as powers of ten."""


def verification_html(rows: Iterable[dict[str, Any]], verdict: str, title: str) -> str:
    """A page of rows as `verify.as_json` gives them, by note, after the verdict in one sentence."""
    groups = defaultdict[str, list[dict[str, Any]]](list)
    for row in rows:
        groups[re.sub(r"Notes? ([A-E])\b.*", r"Note \1", row["note"])].append(row)
    names = sorted(groups, key=lambda name: (not name.startswith("Note "), name))
    body = render(
        "verification",
        verdict=verdict,
        number=_number,
        place=_place,
        least=LEAST,
        most=MOST,
        sections=[(name, NOTES.get(name), groups[name]) for name in names],
        good=all(row["passed"] for group in groups.values() for row in group),
        breakable=lambda name: Html(re.sub("(?=[._])", "<wbr>", escape(name))),
    )
    return document(title, body)


def _number(value: float | None) -> str:
    if not value:
        return "0" if value == 0 else "∞"
    return f"{value:.1e}".replace("e-0", "e-").replace("e+0", "e+")


def _place(value: float | None) -> str:
    """Percent of the scale at which a value is; an error without a number is at its end."""
    power = MOST if value is None else math.log10(max(value, 10.0**LEAST))
    return f"{100 * min(1.0, (power - LEAST) / (MOST - LEAST)):.1f}"
