"""Distorted letters, digits and signs of four scripts.

Digits and Latin letters are those of the font that Pillow brings; Greek and Cyrillic letters and
katakana, which it lacks, are drawn here from strokes. Of signs that look alike (O and 0, Γ and r,
Cyrillic В and B) at most one is included: a small convolutional network that saw 12,000 images
eight times is right about 98.8 % of others. Every image has its own weight, size, place, slant,
rotation, warp, blur, light and noise, light on dark or dark on light:

    clean sign  ->  sampled at (linear map + smooth warp) of each pixel  ->  blurred
        ->  ink on ground  ->  lit, noisy

Image n of a split is a function of (split, n).
Source of the warp: Simard et al. 2003, Best practices for convolutional neural networks applied to
visual document analysis.
"""

from collections.abc import Mapping
from functools import cache
from pathlib import Path

import numpy as np
from PIL import Image, ImageDraw, ImageFilter, ImageFont

from glassformer.data.config import NAMES, SplitName
from glassformer.demos.tables import constants
from glassformer.demos.writers import write_png, write_table
from glassformer.errors import ConfigError
from glassformer.random_stream import generator

_TABLES = constants("glyphs")
SIZE = 32
"""Pixels along a side of an image."""
STROKES: dict[str, str] = _TABLES["strokes"]
"""Points xy of each stroke on a grid from 0 to 8, y downward; ~ goes through them in a curve."""
CLASSES = (*_TABLES["font"], *STROKES)
"""The signs, which are the classes."""
COUNTS: dict[SplitName, int] = {"train": 12_000, "validation": 1000, "test": 3000}
"""Images of each split."""

_CLEAN = 96  # pixels along a side of a clean sign, which is sampled down to SIZE
_FINE = 3  # drawn so many times larger, for smooth edges
_WEIGHTS = (0, 1, 2, 3)  # of the pen: from regular to heavy
_KNOTS = 5  # along a side, between which the warp and the clouds of the ground are smooth
_BATCH = 500
_CHOICES = 16  # uniform numbers of an image: class, weight, then its look
_PARTS = (4, _KNOTS**2, _KNOTS**2, _KNOTS**2, SIZE**2)
"""Normal numbers of an image: slopes of light, two of the warp, clouds, noise."""
_AXIS = np.linspace(-1, 1, SIZE, dtype=np.float32)

Look = Mapping[str, np.ndarray]
"""Numbers of tables/glyphs.json by name, low + (high - low) * uniform ** power, float32 [N, 1, 1]:
angles in radians, sizes and places in half the side of an image, blur as the weight of a
neighbour."""


def write_glyphs(folder: Path) -> None:
    """Write each image as PNG, and a table of files and classes for each split.

    A folder for each class would not do: on some systems `A` and `a` are the same folder.
    """
    for split in NAMES:
        (folder / split).mkdir()
        images, labels = glyphs(split, COUNTS[split])
        files = (folder / split / f"{number}.png" for number in range(len(images)))
        rows = zip(map(write_png, files, images), labels, strict=True)
        write_table(folder / f"{split}.tsv", "file_name label", rows)


def glyphs(split: SplitName, count: int) -> tuple[np.ndarray, list[str]]:
    """The first `count` images of a split, uint8 [N, 32, 32, 1], and their classes.

    ConfigError: a Pillow without fonts.
    """
    images, labels = np.empty((count, SIZE, SIZE, 1), np.uint8), np.empty(count, int)
    for begin in range(0, count, _BATCH):
        part = slice(begin, min(begin + _BATCH, count))
        labels[part], images[part, :, :, 0] = _batch(split, range(count)[part])
    return images, [CLASSES[label] for label in labels.tolist()]


def _batch(split: SplitName, numbers: range) -> tuple[np.ndarray, np.ndarray]:
    """Classes int [N] and images uint8 [N, S, S]."""
    generators = [generator(0, NAMES.index(split), number) for number in numbers]
    even = np.stack([random.random(_CHOICES) for random in generators])
    normal = np.stack([random.standard_normal(sum(_PARTS), np.float32) for random in generators])
    lit, right, down, clouds, noise = np.split(normal, np.cumsum(_PARTS)[:-1], axis=1)
    label, weight = (even[:, :2] * (len(CLASSES), len(_WEIGHTS))).astype(int).T
    ranges = enumerate(_TABLES["look"].items(), start=2)
    look: Look = {
        name: (low + (high - low) * even[:, i, None, None] ** power).astype(np.float32)
        for i, (name, (low, high, power)) in ranges
    }
    x, y = _places(look, right, down)
    ink = _blurred(_sampled(_clean(), label * len(_WEIGHTS) + weight, x, y), look["blur"])
    inverted = look["inverted"] < 0.5
    ground = np.where(inverted, look["dark"], look["light"])
    pen = np.where(inverted, look["light"], look["dark"])
    slope = lit[:, 0, None, None] * _AXIS[:, None] + lit[:, 1, None, None] * _AXIS
    cloudy = ground + _smooth(clouds) * look["clouds"]
    image = cloudy + ink * (pen - cloudy) + 0.10 * slope
    image = image + noise.reshape(-1, SIZE, SIZE) * look["noise"]
    return label, (np.clip(image, 0, 1) * 255 + 0.5).astype(np.uint8)


def _places(look: Look, right: np.ndarray, down: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The place in a clean sign of each pixel of the images: x and y in pixels, each float32 [N, S,
    S]."""
    x = _AXIS - look["right"] + _smooth(right) * look["warp"]
    y = _AXIS[:, None] - look["down"] + _smooth(down) * look["warp"]
    cosine, sine = np.cos(look["rotation"]), np.sin(look["rotation"])
    x, y = (
        (cosine * x + sine * y) * (1 / look["width"]),
        (cosine * y - sine * x) * (1 / look["height"]),
    )
    half = (_CLEAN - 1) / 2
    return half + half * (x + look["slant"] * y), half + half * y


def _smooth(knots: np.ndarray) -> np.ndarray:
    """A smooth field of pixels through numbers at knots [N, K * K], float32 [N, S, S]."""
    place = np.linspace(0, _KNOTS - 1, SIZE)[:, None] - np.arange(_KNOTS)
    bell = np.exp(-0.9 * place**2)
    mix = (bell / bell.sum(axis=1, keepdims=True)).astype(np.float32)
    return mix @ knots.reshape(-1, _KNOTS, _KNOTS) @ mix.T


def _sampled(clean: np.ndarray, which: np.ndarray, x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """The given clean signs between their pixels, float32 [N, S, S]; empty at and beyond their
    edges."""
    x, y = np.clip(x, 0, _CLEAN - 1.001), np.clip(y, 0, _CLEAN - 1.001)
    left, top = x.astype(np.int32), y.astype(np.int32)
    x, y = x - left, y - top
    at, flat = (which[:, None, None] * _CLEAN + top) * _CLEAN + left, clean.reshape(-1)
    above, below = (flat[row] * (1 - x) + flat[row + 1] * x for row in (at, at + _CLEAN))
    return above * (1 - y) + below * y


def _blurred(ink: np.ndarray, side: np.ndarray) -> np.ndarray:
    """Each image mixed with its neighbours in both directions, by weights up to 1/4, 1/2, 1/4."""
    for _ in range(2):  # along a line, then, transposed, along a column
        wide = np.pad(ink, [(0, 0), (0, 0), (1, 1)])
        ink = ((1 - 2 * side) * ink + side * (wide[:, :, :-2] + wide[:, :, 2:])).transpose(0, 2, 1)
    return ink


@cache
def _clean() -> np.ndarray:
    """Every sign in every weight, softened for sampling down, float32 [C * W, 96, 96] in [0, 1]."""
    try:
        font = ImageFont.load_default(size=72 * _FINE)
    except ImportError:
        raise ConfigError(
            "The signs need Pillow's own font, which this Pillow lacks: pip install "
            "--force-reinstall pillow."
        ) from None
    drawn = [_drawn(sign, weight, font) for sign in CLASSES for weight in _WEIGHTS]
    return np.stack(drawn).astype(np.float32) / 255


def _drawn(
    sign: str, weight: int, font: ImageFont.FreeTypeFont | ImageFont.ImageFont
) -> np.ndarray:
    side = _CLEAN * _FINE
    image = Image.new("L", (side, side))
    draw = ImageDraw.Draw(image)
    if sign in STROKES:
        for stroke in STROKES[sign].split():
            _draw_stroke(draw, stroke, (7 + 2 * weight) * _FINE)
    else:
        left, top, right, bottom = draw.textbbox((0, 0), sign, font=font)
        at = ((side - left - right) / 2, (side - top - bottom) / 2)
        draw.text(at, sign, fill=255, font=font, stroke_width=weight * _FINE)
    smaller = image.resize((_CLEAN, _CLEAN), Image.Resampling.BOX)
    return np.asarray(
        smaller.filter(ImageFilter.BoxBlur(1))
    )  # a pixel is as wide as three of these


def _draw_stroke(draw: ImageDraw.ImageDraw, stroke: str, width: int) -> None:
    """Draw a line or a Catmull-Rom spline, closed if its last point is the first, with round
    ends."""
    points = np.array([[*point] for point in stroke.removeprefix("~").split("-")], float)
    if stroke.startswith("~"):
        closed = (points[0] == points[-1]).all()
        before, after = (points[-2], points[1]) if closed else (points[0], points[-1])
        knots, t = np.vstack([before, points, after]), np.linspace(0, 1, 13)[:-1, None]
        a, b, c, d = (knots[i : i + len(points) - 1, None] for i in range(4))
        line, square = 2 * b + (c - a) * t, (2 * a - 5 * b + 4 * c - d) * t**2
        curve = 0.5 * (line + square + (3 * b - a - 3 * c + d) * t**3)
        points = np.vstack([curve.reshape(-1, 2), points[-1]])
    side = _CLEAN * _FINE
    placed = (side / 2 + (points - 4) * (side * 0.54 / 8)).tolist()
    draw.line([(x, y) for x, y in placed], fill=255, width=width, joint="curve")
    for x, y in (placed[0], placed[-1]):
        draw.ellipse((x - width / 2, y - width / 2, x + width / 2, y + width / 2), fill=255)
