"""Occurrences of a word as numbered dots in a plane, an SVG."""

from collections.abc import Sequence
from itertools import combinations

import numpy as np

SIDE, EDGE = 260, 26
"""Side of a map and its margin, in its own units."""


def dots_svg(points: np.ndarray, title: str, *, few: bool) -> str:
    """Points [N, 2] in [-1, 1] as dots numbered from 1.

    Of few, those that would lie on one another share a dot; of many, only those that lie apart have
    their number.
    """
    places = SIDE / 2 + points * [1, -1] * (SIDE / 2 - EDGE)
    groups = _apart(places) if few or not points.any() else []
    dots = "".join(
        f'<rect x="{x - half:.1f}" y="{y - 10:.1f}" width="{2 * half:.1f}" height="20" rx="10"/>'
        f'<text x="{x:.1f}" y="{y + 4.3:.1f}">{label}</text>'
        for x, y, half, label in groups
    )
    told = "; ".join(label for *_, label in groups) or f"{len(places)} occurrences"
    axes = f'<path class="rule" d="M{SIDE / 2} 8V{SIDE - 8}M8 {SIDE / 2}H{SIDE - 8}"/>'
    return (
        f'<svg class="map" viewBox="0 0 {SIDE} {SIDE}" role="img" aria-label="{title}, what '
        f'lies together: {told}">'
        f"{axes}{dots or _small(places)}</svg>"
    )


def _small(places: np.ndarray) -> str:
    """Dots that may cover one another, each with its number beside it where there is room."""
    dots = ""
    boxes = [
        (x + 5, y - 5, x + 7 + 6 * len(str(i)), y + 5)
        for i, (x, y) in enumerate(places.tolist(), 1)
    ]
    numbered: list[int] = []
    for i, (x, y) in enumerate(places.tolist()):
        dots += (
            f'<circle class="dot" cx="{x:.1f}" cy="{y:.1f}" r="3.5" '
            f'opacity=".65"><title>{i + 1}</title></circle>'
        )
        left, top, right, bottom = boxes[i]
        others = np.delete(places, i, 0)
        inside = (
            (left - 9 < others[:, 0]) & (others[:, 0] < right + 3) & (np.abs(others[:, 1] - y) < 8)
        )
        if inside.any() or any(
            left < boxes[j][2]
            and boxes[j][0] < right
            and top < boxes[j][3]
            and boxes[j][1] < bottom
            for j in numbered
        ):
            continue
        numbered.append(i)
        dots += f'<text class="small" x="{x + 6:.1f}" y="{y + 3.5:.1f}">{i + 1}</text>'
    return dots


def _apart(places: np.ndarray) -> list[tuple[float, float, float, str]]:
    """Dots that do not cover one another: middle, half width and label of each; what would lie
    together is one."""
    groups = [[i] for i in range(len(places))]
    while True:
        dots = [
            _dot(places[group].mean(0), _ranges([i + 1 for i in sorted(group)])) for group in groups
        ]
        covered = (
            (i, j)
            for i, j in combinations(range(len(dots)), 2)
            if abs(dots[i][1] - dots[j][1]) < 19
            and abs(dots[i][0] - dots[j][0]) < dots[i][2] + dots[j][2] - 1
        )
        pair = next(covered, None)
        if pair is None:
            return dots
        groups[pair[0]] += groups.pop(pair[1])


def _dot(place: np.ndarray, label: str) -> tuple[float, float, float, str]:
    half = 10 + 3.4 * (len(label) - 1)
    return min(max(float(place[0]), half + 2), SIDE - half - 2), float(place[1]), half, label


def _ranges(numbers: Sequence[int]) -> str:
    """Ascending numbers as 1–4, 7; the last ones left out where there are too many."""
    runs: list[list[int]] = []
    for number in numbers:
        if runs and number == runs[-1][1] + 1:
            runs[-1][1] = number
        else:
            runs.append([number, number])
    shown = [str(a) if a == b else f"{a}–{b}" if b > a + 1 else f"{a}, {b}" for a, b in runs]
    return ", ".join(shown if len(shown) <= 5 else [*shown[:5], "…"])
