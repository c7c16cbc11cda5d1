"""Pictures of coloured shapes.

A scene holds one to three things, each in a cell of its own of 3 x 3, on a grey ground; or, for
pictures as small as 16 x 16, one thing alone in the whole picture (`cells=1`). Colours, sizes and
places vary, but never so far that one could be taken for another. Scene n of a split is a function
of (seed, split, n).

Held out are combinations: every two things of a training scene may stand together in training by
their colours and shapes, and one that is alone by its size, too; in the other splits at least one
combination is held out for that split and none for the other, whatever the seed. So no training
picture has what a test picture has, but each colour, shape and size of it.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from itertools import combinations
from typing import Literal

import numpy as np
from PIL import Image, ImageDraw

from glassformer.data.config import NAMES, SplitName
from glassformer.demos.hashing import split_by_hash

SIZES = ("large", "small")
COLOURS = {
    name: tuple(map(int, parts))
    for name, *parts in map(
        str.split,
        """\
red 222 40 44
orange 246 140 24
yellow 250 222 50
green 40 162 72
cyan 66 208 222
blue 44 84 222
purple 142 62 192
pink 246 132 192
""".splitlines(),
    )
}
"""Names of colours, and about what they look like: red, green and blue from 0 to 255."""
SHAPES = ("circle", "square", "triangle", "star", "diamond", "cross")
GROUNDS = ("plain", "gradient", "stripes", "checks")
HELD_OUT: dict[SplitName, int] = {"validation": 10, "test": 15}
"""Percent of the combinations."""

# with which every thing is trained alone in at least one size, and each colour and shape tested
# alone
_SALT = "64156"
_RADIUS = {"large": 0.42, "small": 0.28}  # in cells, as the next
_SHIFT = {"large": 0.05, "small": 0.12}
_REPEATED = 0.25  # how often a thing has the colour, and how often the shape, of the one before it

Kind = tuple[str, str, str]
"""Size, colour and shape."""


@dataclass(frozen=True)
class Thing:
    """A coloured shape in a cell, and what of its look has no name."""

    kind: Kind
    row: int
    column: int
    shift: tuple[float, float] = (0.0, 0.0)
    """To the right and down, in cells."""
    turn: float = 0.0
    """Clockwise, in radians."""
    tint: tuple[float, float, float] = (0.0, 0.0, 0.0)
    """What is added to the colour."""


@dataclass(frozen=True)
class Scene:
    """One to three things in reading order on a ground of two greys; `cells` along a side, 3 or
    1."""

    things: tuple[Thing, ...]
    cells: int = 3
    ground: str = "plain"
    greys: tuple[tuple[float, ...], tuple[float, ...]] = (
        (232.0, 232.0, 232.0),
        (232.0, 232.0, 232.0),
    )
    """Red, green and blue of both."""
    angle: float = 0.0
    """How the ground's pattern is turned, in radians."""


def scenes(
    split: SplitName, count: int, seed: int = 0, cells: Literal[1, 3] = 3
) -> Iterator[Scene]:
    """The first `count` scenes of a split; scene n is a function of (seed, split, n)."""
    return (_scene(split, number, seed, cells) for number in range(count))


def draw(scene: Scene, size: int = 48) -> np.ndarray:
    """The picture of a scene, uint8 [size, size, 3], its edges smooth."""
    picture = _ground(scene, size)
    for thing in scene.things:
        covered = _covered(thing, scene.cells, size)[:, :, None]
        colour = np.clip(np.add(COLOURS[thing.kind[1]], thing.tint), 0, 255)
        picture += covered * (colour - picture)
    return (np.clip(picture, 0, 255) + 0.5).astype(np.uint8)


@cache
def split_of(*kinds: Kind) -> SplitName:
    """The split that one thing alone, or two things together, belong to."""
    if len(kinds) == 1:
        key = " ".join(kinds[0])
    else:
        key = " and ".join(sorted(f"{colour} {shape}" for _, colour, shape in kinds))
    return split_by_hash(_SALT + key, HELD_OUT)


def _belongs(kinds: list[Kind], split: SplitName) -> bool:
    groups = combinations(kinds, 2) if len(kinds) > 1 else [(kinds[0],)]
    found = {split_of(*group) for group in groups}
    return split in found and found <= {split, "train"}


def _scene(split: SplitName, number: int, seed: int, cells: int) -> Scene:
    key, counter = [seed, NAMES.index(split)], [0, 0, cells, number]
    random = np.random.Generator(np.random.Philox(key=key, counter=counter))
    n = 1 if cells == 1 else (1, 2, 2, 3, 3)[random.integers(5)]
    kinds = _kinds(random, n)
    while not _belongs(kinds, split):
        kinds = _kinds(random, n)
    places = sorted(random.permutation(cells * cells)[:n].tolist())
    things = (
        _placed(random, kind, *divmod(place, cells))
        for kind, place in zip(kinds, places, strict=True)
    )
    level = random.uniform(185, 250)  # lighter than every colour is in one of its parts
    first = level + random.uniform(-6, 6, 3)
    second = first + random.choice([-1, 1]) * random.uniform(10, 26)
    ground = str(random.choice(GROUNDS)) if cells > 1 else "plain"
    angle = random.uniform(0, 2 * math.pi)
    return Scene(
        tuple(things), cells, ground, (tuple(first.tolist()), tuple(second.tolist())), angle
    )


def _kinds(random: np.random.Generator, n: int) -> list[Kind]:
    kinds: list[Kind] = []
    for _ in range(n):
        size, colour, shape = (
            names[random.integers(len(names))] for names in (SIZES, tuple(COLOURS), SHAPES)
        )
        again = random.random(2) < _REPEATED
        if kinds:
            colour, shape = (
                kinds[-1][1] if again[0] else colour,
                kinds[-1][2] if again[1] else shape,
            )
        kinds.append((size, colour, shape))
    return kinds


def _placed(random: np.random.Generator, kind: Kind, row: int, column: int) -> Thing:
    x, y = random.uniform(-_SHIFT[kind[0]], _SHIFT[kind[0]], 2).tolist()
    turn, (red, green, blue) = random.uniform(-0.15, 0.15), random.uniform(-12, 12, 3).tolist()
    return Thing(kind, row, column, (x, y), turn, (red, green, blue))


def _ground(scene: Scene, size: int) -> np.ndarray:
    """The empty picture, float64 [S, S, 3]."""
    axis = np.linspace(-1, 1, size)
    x = math.cos(scene.angle) * axis + math.sin(scene.angle) * axis[:, None]
    y = math.cos(scene.angle) * axis[:, None] - math.sin(scene.angle) * axis
    match scene.ground:
        case "gradient":
            share = 0.5 + x / 2.9
        case "stripes":
            share = np.clip(0.5 + 2 * np.sin(14 * x), 0, 1)
        case "checks":
            share = np.clip(0.5 + 2 * np.sin(11 * x) * np.sin(11 * y), 0, 1)
        case _:
            share = np.zeros((size, size))
    first, second = map(np.array, scene.greys)
    return first + share[:, :, None] * (second - first)


def _covered(thing: Thing, cells: int, size: int) -> np.ndarray:
    """How much of each pixel a thing covers, [S, S] in [0, 1]."""
    fine = max(4, 128 // size)  # times larger it is drawn, to be smooth
    side = size * fine
    cosine, sine = math.cos(thing.turn), math.sin(thing.turn)
    points = (
        _outline(thing.kind[2])
        @ np.array([[cosine, sine], [-sine, cosine]])
        * _RADIUS[thing.kind[0]]
    )
    points = (points + thing.shift + (thing.column + 0.5, thing.row + 0.5)) * (side / cells)
    mask = Image.new("L", (side, side))
    ImageDraw.Draw(mask).polygon([(x, y) for x, y in points.tolist()], fill=255)
    return np.asarray(mask.reduce(fine), np.float64) / 255


@cache
def _outline(shape: str) -> np.ndarray:
    """The corners of a shape of about radius 1, x to the right and y downward, [P, 2]."""
    match shape:
        case "circle":
            return _corners(48, 0.95)
        case "square":
            return _points("-1 -1  1 -1  1 1  -1 1") * 0.84
        case "triangle":
            return _corners(3, 1.15) + np.array([0, 0.2])
        case "star":
            star = _corners(10, 1.15)
            star[1::2] *= 0.45
            return star + np.array([0, 0.05])
        case "diamond":
            return _points("0 -1.12  0.7 0  0 1.12  -0.7 0")
        case _:  # a cross, one corner after the other
            corners = "-1 3  1 3  1 1  3 1  3 -1  1 -1  1 -3  -1 -3  -1 -1  -3 -1  -3 1  -1 1"
            return _points(corners) * 0.325


def _points(text: str) -> np.ndarray:
    """Points of "x y  x y", [P, 2]."""
    return np.array(text.split(), float).reshape(-1, 2)


def _corners(n: int, radius: float) -> np.ndarray:
    """Corners on a circle, the first one on top, [n, 2]."""
    angle = 2 * np.pi * np.arange(n) / n
    return radius * np.stack([np.sin(angle), -np.cos(angle)], axis=1)
