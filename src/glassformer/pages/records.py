"""Records of metrics as tables: names and values as they are read."""

import math
from collections.abc import Sequence
from typing import Any

from glassformer.metrics.scores import SCORES
from glassformer.pages.kit import Html, table

Record = dict[str, Any]
FORMATS = {"seconds": ",.0f"} | {name: score.table for name, score in SCORES.items()}
SPELLED = {word.lower(): word for score in SCORES.values() for word in score.text.split()}


def record_table(caption: str, rows: Sequence[Record], kind: str = "rows") -> Html:
    """A table with a column for each name in any row."""
    names = list(dict.fromkeys(name for row in rows for name in row))
    values = ([shown(name, row.get(name)) for name in names] for row in rows)
    return table(caption, [*map(words, names)], values, kind)


def shown(name: str, value: Any) -> str:
    """A value as text: a dash if there is none, elements of a list separated by commas."""
    match value:
        case list():
            return ", ".join(shown(name, part) for part in value)
        case float() if math.isfinite(value):
            return format(value, FORMATS.get(name, ".4f"))
        case None | float():
            return "–"
    return f"{value:,}" if is_number(value) else str(value)


def words(name: str) -> str:
    """A name of a field as text."""
    return " ".join(SPELLED.get(word, word) for word in name.split("_"))


def is_number(value: Any) -> bool:
    """Whether a value is a number; booleans are not."""
    return isinstance(value, int | float) and not isinstance(value, bool)
