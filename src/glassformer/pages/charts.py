"""Charts as SVG: axes with lines, dots and bars, and a scatter plot of numbered points."""

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import combinations

import numpy as np

from glassformer.pages.kit import Html, escape, figure

Point = tuple[float, float]
LEFT, RIGHT, TOP, BOTTOM = 56, 16, 24, 42
SIDE, EDGE = 260, 26
"""Side and margin of a scatter plot, in units of its view box."""


class Axes:
    """Linear scales from data to a view box, and the marks drawn on them."""

    def __init__(self, x: Point, y: Point, width: int = 720, height: int = 270) -> None:
        self.x, self.y, self.width, self.height = x, y, width, height
        self.marks: list[str] = []

    def at(self, x: float, y: float) -> Point:
        """Place of a point of the data."""
        across, up = ((v - a) / (b - a) for v, (a, b) in ((x, self.x), (y, self.y)))
        room = self.height - BOTTOM - TOP
        return LEFT + across * (self.width - LEFT - RIGHT), self.height - BOTTOM - up * room

    def line(self, points: Iterable[Point], kind: str) -> None:
        """A line through points."""
        path = " ".join("{:.1f},{:.1f}".format(*self.at(*point)) for point in points)
        self.marks.append(f'<polyline class="{kind}" points="{path}"/>')

    def dots(self, points: Iterable[Point], title: Callable[[float, float], str]) -> None:
        """A dot at each point, with a title shown on hover."""
        self.marks += (_circle(*self.at(*point), title(*point)) for point in points)

    def bar(self, low: float, high: float, value: float, title: str) -> None:
        """A bar from 0 to a value, between two places of the x axis."""
        (left, top), (right, bottom) = self.at(low, value), self.at(high, 0)
        self.marks.append(
            f'<rect class="bar" x="{left + 1:.1f}" y="{top:.1f}" width="{right - left - 2:.1f}" '
            f'height="{bottom - top:.1f}"><title>{escape(title)}</title></rect>'
        )

    def text(self, x: float, y: float, text: str, kind: str = "", up: float = 0) -> None:
        """Text centred above a point of the data."""
        left, top = self.at(x, y)
        self.marks.append(
            f'<text class="{kind}" x="{left:.1f}" y="{top - up:.1f}">{escape(text)}</text>'
        )

    def svg(self, label: str, x: Iterable[tuple[float, str]], y: Iterable[float]) -> Html:
        """The chart with ticks: those of x by name, those of y with a grid line each."""
        grid = ""
        for tick in y:
            at = self.at(self.x[0], tick)[1]
            grid += (
                f'<line class="rule" x1="{LEFT}" x2="{self.width - RIGHT}" y1="{at:.1f}" '
                f'y2="{at:.1f}"/>'
                f'<text class="tick" x="{LEFT - 8}" y="{at + 4:.1f}">{tick:,.6g}</text>'
            )
        for tick, name in x:
            self.text(tick, self.y[0], name, up=-26)
        return Html(
            f'<svg class="chart" viewBox="0 0 {self.width} {self.height}" role="img" '
            f'aria-label="{escape(label)}">{grid}{"".join(self.marks)}</svg>'
        )


def line_chart(caption: str, thin: Sequence[Point], thick: Sequence[Point]) -> Html:
    """A figure of two lines over steps, the thick one with dots; nothing if both are empty."""
    thin, thick = ([p for p in line if math.isfinite(p[1])] for line in (thin, thick))
    if not thin and not thick:
        return Html()
    x, y = map(_span, zip(*thin, *thick, strict=True))
    axes = Axes(x, y)
    axes.line(thin, "thin")
    axes.line(thick, "thick")
    axes.dots(thick, lambda step, value: f"step {step:g}: {value:.4f}")
    whole = [(tick, f"{tick:,.6g}") for tick in ticks(*x) if tick.is_integer()]
    return figure(caption, axes.svg(caption, whole, ticks(*y)))


def named_lines(caption: str, lines: Mapping[str, Sequence[Point]], chosen: str | None) -> Html:
    """A figure of lines over steps with their names on hover, one of them thick; nothing if all are
    empty."""
    shown = {
        name: [point for point in line if math.isfinite(point[1])] for name, line in lines.items()
    }
    if not any(shown.values()):
        return Html()
    x, y = map(_span, zip(*(point for line in shown.values() for point in line), strict=True))
    axes = Axes(x, y)
    for name, line in sorted(shown.items(), key=lambda named: named[0] == chosen):
        axes.line(line, "thick" if name == chosen else "thin")
        dots = line if name == chosen else line[-1:]
        axes.dots(dots, lambda step, value, name=name: f"{name}, step {step:g}: {value:.4f}")
    whole = [(tick, f"{tick:,.6g}") for tick in ticks(*x) if tick.is_integer()]
    return figure(caption, axes.svg(caption, whole, ticks(*y)))


def ticks(low: float, high: float, about: int = 5) -> list[float]:
    """Round numbers between `low` and `high`, about that many."""
    raw = (high - low) / about
    power = 10.0 ** math.floor(math.log10(raw))
    size = next(power * m for m in (1, 2, 5, 10) if power * m >= raw)
    multiples = range(math.ceil(low / size), math.floor(high / size) + 1)
    return [float(f"{i * size:.12g}") for i in multiples]


def scatter(points: np.ndarray, title: str, *, few: bool) -> Html:
    """Points [N, 2] in [-1, 1] as dots numbered from 1.

    Of few points, those that would overlap share a dot. Of many, a point has its number only where
    there is room.
    """
    places = SIDE / 2 + points * [1, -1] * (SIDE / 2 - EDGE)
    groups = _merged(places) if few or not points.any() else []
    dots = "".join(
        f'<rect x="{x - half:.1f}" y="{y - 10:.1f}" width="{2 * half:.1f}" height="20" rx="10"/>'
        f'<text class="on-mark" x="{x:.1f}" y="{y + 4.3:.1f}">{label}</text>'
        for x, y, half, label in groups
    )
    told = "; ".join(label for *_, label in groups) or f"{len(places)} points"
    return Html(
        f'<svg class="map" viewBox="0 0 {SIDE} {SIDE}" role="img" '
        f'aria-label="{escape(title)}; nearest together: {told}">'
        f'<path class="rule" d="M{SIDE / 2} 8V{SIDE - 8}M8 {SIDE / 2}H{SIDE - 8}"/>'
        f"{dots or _small_dots(places)}</svg>"
    )


def _circle(x: float, y: float, title: str, kind: str = "dot") -> str:
    return (
        f'<circle class="{kind}" cx="{x:.1f}" cy="{y:.1f}" r="3.5">'
        f"<title>{escape(title)}</title></circle>"
    )


def _span(values: Sequence[float]) -> Point:
    low, high = min(values), max(values)
    return low, high if high > low else low + 1


def _small_dots(places: np.ndarray) -> str:
    """Dots that may overlap, numbered where no other dot is near the number."""
    dots = ""
    for i, (x, y) in enumerate(places.tolist()):
        dots += _circle(x, y, str(i + 1), "dot many")
        across, down = (np.delete(places, i, 0) - (x, y)).T
        room = 10 + 6 * len(str(i + 1))
        if not ((across > -4) & (across < room) & (np.abs(down) < 10)).any():
            dots += f'<text class="beside" x="{x + 6:.1f}" y="{y + 3.5:.1f}">{i + 1}</text>'
    return dots


def _merged(places: np.ndarray) -> list[tuple[float, float, float, str]]:
    """Middle, half width and label of dots that do not overlap; points that would are one dot."""
    groups = [[i] for i in range(len(places))]
    while True:
        dots = [_dot(places[group].mean(0), sorted(group)) for group in groups]
        overlapping = (
            (i, j)
            for (i, one), (j, other) in combinations(enumerate(dots), 2)
            if abs(one[1] - other[1]) < 19 and abs(one[0] - other[0]) < one[2] + other[2] - 1
        )
        if (pair := next(overlapping, None)) is None:
            return dots
        groups[pair[0]] += groups.pop(pair[1])


def _dot(place: np.ndarray, group: Sequence[int]) -> tuple[float, float, float, str]:
    label = _ranges(group)
    half = 10 + 3.4 * (len(label) - 1)
    return float(np.clip(place[0], half + 2, SIDE - half - 2)), float(place[1]), half, label


def _ranges(group: Sequence[int]) -> str:
    """Ascending indices, counted from 1, as 1–4, 7; at most five runs."""
    edges = np.flatnonzero(np.diff(group) != 1) + 1
    runs = [(run[0] + 1, run[-1] + 1) for run in np.split(np.array(group), edges)]
    shown = [str(a) if a == b else f"{a}–{b}" if b > a + 1 else f"{a}, {b}" for a, b in runs]
    return ", ".join(shown if len(shown) <= 5 else [*shown[:5], "…"])
