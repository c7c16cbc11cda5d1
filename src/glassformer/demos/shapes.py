"""Images of coloured shapes.

A scene holds one to three things, each in its own cell of 3 x 3, on a grey ground; or, for
images as small as 16 x 16, one thing alone in the whole image (`cells=1`). Colours, sizes and
places vary, but never so far that one could be taken for another. Scene n of a split is a function
of (seed, split, n).

Combinations are held out: every two things of a training scene may stand together in training by
their colours and shapes, and one that is alone by its size, too; in the other splits at least one
combination is held out for that split and none for the other, whatever the seed. So no training
image has the combinations of a test image, but each of its colours, shapes and sizes.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from itertools import combinations
from typing import Literal

import numpy as np
from numpy.random import Generator, Philox
from PIL import Image, ImageDraw

from glassformer.data.config import NAMES, SplitName
from glassformer.demos.hashing import split_by_hash
from glassformer.demos.tables import constants

_TABLES = constants("shapes")
SIZES, SHAPES = tuple[str, ...](_TABLES["sizes"]), tuple[str, ...](_TABLES["shapes"])
COLOURS: dict[str, list[int]] = _TABLES["colours"]
"""Names of colours, with red, green and blue from 0 to 255."""
HELD_OUT: dict[SplitName, int] = {"validation": 10, "test": 15}
"""Percent of the combinations."""

_GROUNDS = {
    "plain": lambda x, y: 0 * x,
    "gradient": lambda x, y: 0.5 + x / 2.9,
    "stripes": lambda x, y: np.clip(0.5 + 2 * np.sin(14 * x), 0, 1),
    "checks": lambda x, y: np.clip(0.5 + 2 * np.sin(11 * x) * np.sin(11 * y), 0, 1),
}  # share of the second grey at each pixel
# with it, every thing is trained alone in at least one size, each colour and shape tested alone
_SALT = "64156"
_RADIUS = {"large": 0.42, "small": 0.28}  # in cells, as the next
_SHIFT = {"large": 0.05, "small": 0.12}
_REPEATED = 0.25  # how often a thing has the colour, and how often the shape, of the one before it

Kind = tuple[str, ...]
"""Size, colour and shape."""


@dataclass(frozen=True)
class Thing:
    """A coloured shape in a cell, and the details of its look that have no name."""

    kind: Kind
    row: int
    column: int
    shift: tuple[float, ...] = (0.0, 0.0)
    """To the right and down, in cells."""
    turn: float = 0.0
    """Clockwise, in radians."""
    tint: tuple[float, ...] = (0.0, 0.0, 0.0)
    """Added to the colour."""


@dataclass(frozen=True)
class Scene:
    """One to three things in reading order on a ground of two greys; `cells` along a side, 3 or
    1."""

    things: tuple[Thing, ...]
    cells: int = 3
    ground: str = "plain"
    greys: tuple[tuple[float, ...], ...] = ((232.0,) * 3,) * 2
    """Red, green and blue of both."""
    angle: float = 0.0
    """Rotation of the ground's pattern, in radians."""


def scenes(
    split: SplitName, count: int, seed: int = 0, cells: Literal[1, 3] = 3
) -> Iterator[Scene]:
    """The first `count` scenes of a split; scene n is a function of (seed, split, n)."""
    return (_scene(split, number, seed, cells) for number in range(count))


def draw(scene: Scene, size: int = 48) -> np.ndarray:
    """The image of a scene, uint8 [size, size, 3], its edges smooth."""
    image = _ground(scene, size)
    for thing in scene.things:
        covered = _covered(thing, scene.cells, size)[:, :, None]
        colour = np.clip(np.add(COLOURS[thing.kind[1]], thing.tint), 0, 255)
        image += covered * (colour - image)
    return (np.clip(image, 0, 255) + 0.5).astype(np.uint8)


@cache
def split_of(*kinds: Kind) -> SplitName:
    """The split that one thing alone, or two things together, belong to."""
    if len(kinds) == 1:
        return split_by_hash(_SALT + " ".join(kinds[0]), HELD_OUT)
    return split_by_hash(
        _SALT + " and ".join(sorted(" ".join(kind[1:]) for kind in kinds)), HELD_OUT
    )


def _belongs(kinds: list[Kind], split: SplitName) -> bool:
    found = {split_of(*group) for group in combinations(kinds, min(len(kinds), 2))}
    return split in found and found <= {split, "train"}


def _scene(split: SplitName, number: int, seed: int, cells: int) -> Scene:
    key, counter = [seed, NAMES.index(split)], [0, 0, cells, number]
    random = Generator(Philox(key=key, counter=counter))
    n = 1 if cells == 1 else (1, 2, 2, 3, 3)[random.integers(5)]
    kinds = _kinds(random, n)
    while not _belongs(kinds, split):
        kinds = _kinds(random, n)
    places = sorted(random.permutation(cells * cells)[:n].tolist())
    level = random.uniform(185, 250)  # lighter than every colour is in one of its parts
    first = level + random.uniform(-6, 6, 3)
    second = first + random.choice([-1, 1]) * random.uniform(10, 26)
    ground = str(random.choice([*_GROUNDS])) if cells > 1 else "plain"
    greys, angle = (tuple(first.tolist()), tuple(second.tolist())), random.uniform(0, 2 * np.pi)
    things = tuple(
        _placed(random, kind, *divmod(place, cells))
        for kind, place in zip(kinds, places, strict=True)
    )
    return Scene(things, cells, ground, greys, angle)


def _kinds(random: Generator, n: int) -> list[Kind]:
    kinds: list[Kind] = []
    for _ in range(n):
        kind = [names[random.integers(len(names))] for names in (SIZES, [*COLOURS], SHAPES)]
        for which, again in enumerate(random.random(2) < _REPEATED, start=1):
            if kinds and again:
                kind[which] = kinds[-1][which]
        kinds.append(tuple(kind))
    return kinds


def _placed(random: Generator, kind: Kind, row: int, column: int) -> Thing:
    far = _SHIFT[kind[0]]
    shift, turn = random.uniform(-far, far, 2).tolist(), random.uniform(-0.15, 0.15)
    return Thing(kind, row, column, tuple(shift), turn, tuple(random.uniform(-12, 12, 3).tolist()))


def _ground(scene: Scene, size: int) -> np.ndarray:
    """The empty image, float64 [S, S, 3]."""
    axis = np.linspace(-1, 1, size)
    cosine, sine = np.cos(scene.angle), np.sin(scene.angle)
    x, y = cosine * axis + sine * axis[:, None], cosine * axis[:, None] - sine * axis
    first, second = map(np.array, scene.greys)
    return first + _GROUNDS[scene.ground](x, y)[:, :, None] * (second - first)


def _covered(thing: Thing, cells: int, size: int) -> np.ndarray:
    """The share of each pixel that a thing covers, [S, S] in [0, 1]."""
    fine = max(4, 128 // size)  # drawn so many times larger, for smooth edges
    side = size * fine
    cosine, sine = np.cos(thing.turn), np.sin(thing.turn)
    rotation, (size_name, _, shape) = np.array([[cosine, sine], [-sine, cosine]]), thing.kind
    points = _outline(shape) @ rotation * _RADIUS[size_name]
    points = (points + thing.shift + (thing.column + 0.5, thing.row + 0.5)) * (side / cells)
    mask = Image.new("L", (side, side))
    ImageDraw.Draw(mask).polygon([(x, y) for x, y in points.tolist()], fill=255)
    return np.asarray(mask.reduce(fine), np.float64) / 255


@cache
def _outline(shape: str) -> np.ndarray:
    """The corners of a shape of about radius 1, x to the right and y downward, [P, 2]."""
    if shape in _TABLES["corners"]:
        return np.array(_TABLES["corners"][shape], float)
    n, radius, down = _TABLES["regular"][shape].values()
    angle = 2 * np.pi * np.arange(n) / n  # the first corner is on top
    points = radius * np.stack([np.sin(angle), -np.cos(angle)], axis=1)
    if shape == "star":
        points[1::2] *= 0.45
    return points + np.array([0, down])
