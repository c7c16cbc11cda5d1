"""Which classes a model takes for which others."""

from collections.abc import Sequence
from typing import Any

Pairs = Sequence[tuple[int, str, str]]
"""Count, right class, predicted class; the most frequent first."""


def confused(confusion: dict[str, Any]) -> Pairs:
    """The errors of a confusion matrix ("names", "counts"), rows the right classes."""
    names = confusion["names"]
    pairs = [
        (n, names[gold], names[found])
        for gold, row in enumerate(confusion["counts"])
        for found, n in enumerate(row)
        if n and gold != found
    ]
    return sorted(pairs, key=lambda pair: (-pair[0], *pair[1:]))


def confused_values(pairs: Pairs) -> list[dict[str, Any]]:
    """The same for JSON."""
    return [{"gold": gold, "predicted": found, "n": n} for n, gold, found in pairs]


def confused_lines(pairs: Pairs) -> list[str]:
    """The five most frequent for a terminal."""
    lines = [f"  {n:3} times {gold} taken for {found}" for n, gold, found in pairs[:5]]
    return ["\nmost often confused:", *lines]
