"""Charts as scenes: lines, dots and bars on axes, matrices of shades, thumbnails of patterns."""

import math
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace

import numpy as np

from glassformer.pages.kit import Html, cut, render
from glassformer.pages.scene import Box, Line, Scene, Shades, Text

Point = tuple[float, float]
WIDE, HIGH = 648, 204
"""Sides of the area of a line chart."""
SIDE = 640
"""Most pixels of a side of a matrix, without its names."""
LARGEST, SMALLEST, PRINTED = 42, 8, 24
"""Side of the largest cell, of the smallest one with a name, of the smallest one with a text."""
LONGEST = 23
"""Most characters of a name that are drawn."""
THUMB, GAP = 96, 10
"""Width of a thumbnail, and the space between two."""
MAP, FEW = 200, 12
"""Side of a scatter plot, and the most points that all have a label."""


def line_chart(caption: str, lines: Mapping[str, Sequence[Point]], chosen: str | None) -> Html:
    """Return a figure of lines over steps, with names and values on hover; nothing if all are
    empty. The chosen line is thick, with a dot at each point."""
    finite = {name: [p for p in line if math.isfinite(p[1])] for name, line in lines.items()}
    points = [point for line in finite.values() for point in line]
    if not points:
        return Html()
    (left, low), (right, high) = np.min(points, 0).tolist(), np.max(points, 0).tolist()
    right, high = right + (right == left), high + (high == low)
    place = lambda x, y: (WIDE * (x - left) / (right - left), HIGH * (high - y) / (high - low))
    scene = Scene([Box(-56, -10, WIDE + 68, HIGH + 44, "card")])
    for y in ticks(low, high):
        scene.append(Line([place(left, y), place(right, y)], "line"))
        scene.append(Text(-8, place(0, y)[1], f"{y:,.6g}", anchor="end"))
    for x in ticks(left, right, right > 1):
        scene.append(Text(place(x, 0)[0], HIGH + 20, f"{x:,.6g}"))
    for name in sorted(finite, key=lambda name: name == chosen):
        line, thick = finite[name], name == chosen
        colour, width = ("mark", 2.4) if thick else ("accent", 1.6)
        scene += [Line([place(*point) for point in line], colour, width, name)] * bool(line)
        dots = line if thick or len(line) == 1 else ()
        scene += [_dot(*place(x, y), f"{name}, step {x:g}: {y:.4f}") for x, y in dots]
    return render("chart", caption=caption, drawing=scene.svg(caption, "chart"))


def ticks(low: float, high: float, whole: bool = False) -> list[float]:
    """Return about five round numbers between `low` and `high`; fewer if they must be `whole`."""
    raw = max((high - low) / 5, whole)
    power = 10.0 ** math.floor(math.log10(raw))
    size = next(power * m for m in (1, 2, 5, 10) if power * m >= raw)
    multiples = range(math.ceil(low / size), math.floor(high / size) + 1)
    return [float(f"{i * size:.12g}") for i in multiples]


def scatter(points: np.ndarray, label: str) -> Html:
    """Return points [N, 2] in [-1, 1] as dots numbered from 1; near ones share a label.

    Of many, only dots that lie apart have one.
    """
    few = len(points) <= FEW
    reach = 10 if few else 24
    scene = Scene([Box(-20, -20, MAP + 40, MAP + 40, "paper", radius=6)])
    groups = dict[tuple[float, float], list[str]]()
    for i, place in enumerate(MAP / 2 * (1 + points * (1, -1)), 1):
        scene.append(_dot(place[0], place[1], str(i)))
        near = (other for other in groups if abs(place - other).max() < reach)
        groups.setdefault(next(near, tuple(place)), []).append(str(i))
    for (x, y), group in groups.items():
        if few or len(group) == 1:
            scene.append(Text(x + 6, y, cut(", ".join(group), 16), "ink", 11, "start"))
    return scene.svg(label, "map")


def matrix(
    rows: Sequence[str],
    columns: Sequence[str],
    steps: np.ndarray,
    *,
    about: Callable[[int, int], tuple[str, str]] = lambda i, j: ("", ""),
    marked: Collection[tuple[int, int]] = (),
    side: int = SIDE,
) -> Scene:
    """Return steps of the ramp [rows, columns] as cells between names; very many are one image.

    `about`: text of a cell, if it is large enough, and title on hover. `marked` ones are framed,
    those with a step below 0 are left out.
    """
    cell = min(LARGEST, side // max(steps.shape))
    if cell < SMALLEST:
        high, wide = (round(n * side / max(steps.shape)) for n in steps.shape)
        return Scene([Shades(0, 0, wide, high, np.maximum(steps, 0).astype(np.uint8))])
    scene, gap = _names(rows, columns, cell), 1 if cell >= PRINTED else 0.5
    for (i, j), step in np.ndenumerate(steps):
        if step < 0:
            continue
        text, title = about(i, j)
        x, y, long = j * cell + gap, i * cell + gap, cell - 2 * gap
        if (i, j) in marked:
            scene.append(Box(x - 1, y - 1, long + 2, long + 2, "mark", cell / 8))
            x, y, long = x + 1, y + 1, long - 2
        scene.append(Box(x, y, long, long, f"s{step}", cell / 9, title))
        if cell >= PRINTED and text:
            size = min(0.36 * cell, 1.5 * cell / len(text))
            scene.append(Text(x + long / 2, y + long / 2, text, f"t{step}", size))
    return scene


def _names(rows: Sequence[str], columns: Sequence[str], cell: int) -> Scene:
    """Return names to the left of rows of cells and above columns, turned if they are long."""
    size = min(14, 0.8 * cell)
    scene = Scene(
        Text((j + 0.5) * cell, -14, cut(name, LONGEST), "ink", size)
        for j, name in enumerate(columns)
    )
    if any(left + cell - 4 < right for left, _, right, _ in (name.bounds for name in scene)):
        scene = Scene(replace(name, y=-6, anchor="upright") for name in scene)
    for i, name in enumerate(rows):
        scene.append(Text(-8, (i + 0.5) * cell, cut(name, LONGEST), "ink", size, "end"))
    return scene


def heads(
    steps: np.ndarray,
    chosen: Collection[tuple[int, int]],
    title: Callable[[int, int], str],
    top: float = 0,
) -> Scene:
    """Return steps of the ramp [layers, heads, rows, columns] as small images, layers downwards;
    the chosen ones are framed."""
    layers, n_heads, rows, columns = steps.shape
    high = round(THUMB * min(2.0, max(0.5, rows / columns)))
    x, y = (THUMB + GAP) * np.arange(n_heads), top + (high + GAP) * np.arange(layers)
    scene = Scene()
    for layer, head in np.ndindex(layers, n_heads):
        frame, (left, at) = "mark" if (layer, head) in chosen else "line", (x[head], y[layer])
        scene.append(Box(left - 2, at - 2, THUMB + 4, high + 4, frame))
        scene.append(Shades(left, at, THUMB, high, steps[layer, head], title(layer, head)))
    scene += [Text(left + THUMB / 2, top - 16, f"head {h}") for h, left in enumerate(x)]
    scene += [Text(-10, at + high / 2, f"layer {i}", anchor="end") for i, at in enumerate(y)]
    return scene


def _dot(x: float, y: float, title: str) -> Box:
    return Box(x - 3.5, y - 3.5, 7, 7, "mark", radius=3.5, title=title)
