"""A record as a line to look at."""

from pathlib import Path
from typing import Any

LONGEST = 400


def shown(record: Any) -> str:
    """Its text (of a pair, both), its parts with the names of their files, or the file's place."""
    parts = getattr(record, "parts", None)
    if parts is not None:
        return " ".join(
            value if kind == "text" else f"[{Path(value).name}]" for kind, value in parts
        )
    text, pair = getattr(record, "text", None), getattr(record, "pair", None)
    if text is None:
        return record.where
    return (text if pair is None else f"{text} / {pair}")[:LONGEST]
