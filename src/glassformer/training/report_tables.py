"""Rows of values as HTML tables of the report; what stands in a cell cannot leave it."""

import html
import math
from collections.abc import Sequence
from typing import Any

from glassformer.training.progress import printable

SPELLED = {"bleu": "BLEU", "chrf": "chrF", "f1": "F1", "ece": "ECE"}
FORMATS = {"perplexity": ",.3f", "bleu": ".2f", "chrf": ".2f", "seconds": ",.0f"}


def table(head: Sequence[str], rows: Sequence[Sequence[str]], style: str = "numbers") -> str:
    """A table that scrolls by itself where it is wider than the page."""
    names = "".join(f'<th scope="col">{safe(name)}</th>' for name in head)
    cells = "".join(
        "<tr>" + "".join(f'<td dir="auto">{safe(cell)}</td>' for cell in row) + "</tr>"
        for row in rows
    )
    return (
        f'<div class="wide"><table '
        f'class="{style}"><thead><tr>{names}</tr></thead><tbody>{cells}</tbody></table></div>'
    )


def table_of(rows: Sequence[dict[str, Any]], style: str = "numbers") -> str:
    """A table of rows by name: a column for each name that is in any row."""
    names = list(dict.fromkeys(name for row in rows for name in row))
    return table(
        [words(name) for name in names],
        [[cell(name, row.get(name)) for name in names] for row in rows],
        style,
    )


def cell(name: str, value: Any) -> str:
    """A value as it is read: a dash if there is none, the elements of a list one after another."""
    if value is None:
        return "–"
    if isinstance(value, list):
        return ", ".join(cell(name, part) for part in value)
    if isinstance(value, float):
        return format(value, FORMATS.get(name, ".4f")) if math.isfinite(value) else "–"
    return f"{value:,}" if is_number(value) else str(value)


def words(name: str) -> str:
    """A name of the code as it is read."""
    return " ".join(SPELLED.get(word, word) for word in name.split("_"))


def safe(text: str) -> str:
    """Text for HTML: nothing of it is markup or a control character."""
    return html.escape(printable(text))


def is_number(value: Any) -> bool:
    """Whether a value is a number, which True is not."""
    return isinstance(value, int | float) and not isinstance(value, bool)
