"""Distorted letters, digits and signs of four scripts.

Digits and Latin letters are those of the font that Pillow brings; Greek and Cyrillic letters and
katakana, which it lacks, are drawn here from strokes. Of signs that look alike (O and 0, Γ and r,
Cyrillic В and B) one is in at most: a small convolutional network that saw 12,000 pictures eight
times is right about 98.8 % of others. Every picture has its own weight, size, place, slant, turn,
warp, blur, light and noise, light on dark or dark on light:

    clean sign  ->  sampled at (linear map + smooth warp) of each pixel  ->  blurred
        ->  ink on ground  ->  lit, noisy

Picture n of a split is a function of (split, n).
Source of the warp: Simard et al. 2003, Best practices for convolutional neural networks applied to
visual document analysis.
"""

from functools import cache
from pathlib import Path

import numpy as np
from PIL import Image, ImageDraw, ImageFilter, ImageFont

from glassformer.data.config import NAMES, SplitName
from glassformer.demos.writers import write_png, write_table
from glassformer.errors import ConfigError
from glassformer.random_stream import generator

SIZE = 32
"""Pixels along a side of a picture."""
_TABLE = """\
Δ 40-78-18-40
Λ 08-40-88
Ξ 10-70 24-64 18-78
Π 00-80 20-28 60-68
Σ 70-10-44-18-78
Φ 40-48 ~42-74-46-14-42
Ψ 40-48 ~00-03-26-46-66-83-80
Ω 08-38 ~38-15-13-40-73-75-58 58-88
Б 70-10-18 ~13-43-76-48-18
Ж 40-48 00-44-08 80-44-88
И 10-18-70-78
Ц 10-17-77-79 60-67
Ш 00-08-88-80 40-48
Ю 00-08 04-34 ~60-84-68-34-60
Я 68-60-40 ~40-12-44 44-64 44-18
ア 00-80 ~80-71-53 ~42-45-18
キ 12-71 05-84 30-58
サ 02-82 20-25 ~60-64-38
ホ 02-82 40-48 24-07 64-87
ヲ 10-80 14-74 ~80-75-18
"""
STROKES = {line[0]: line[2:] for line in _TABLE.splitlines()}
"""Points xy of each stroke on a grid from 0 to 8, y downward; ~ goes through them in a curve."""
CLASSES = (*"0123456789ABCDEFGHJKLMNPQRSTUVWXYZadefnt", *STROKES)
"""The signs, which are the classes."""
COUNTS: dict[SplitName, int] = {"train": 12_000, "validation": 1000, "test": 3000}
"""Pictures of each split."""

_CLEAN = 96  # pixels along a side of a clean sign, which is sampled down to SIZE
_FINE = 3  # times larger they are drawn, to be smooth
_WEIGHTS = (0, 1, 2, 3)  # of the pen: from regular to heavy
_KNOTS = 5  # along a side, between which the warp and the clouds of the ground are smooth
_BATCH = 500
_PARTS = (
    4,
    _KNOTS**2,
    _KNOTS**2,
    _KNOTS**2,
    SIZE**2,
)  # normal numbers of a picture: ends of light, warps, clouds, noise
_CHOICES = 16  # even numbers of a picture


def write_glyphs(folder: Path) -> None:
    """Write each picture as PNG, and a table of files and classes for each split.

    A folder for each class would not do: on some systems `A` and `a` are the same folder.
    """
    for split in NAMES:
        (folder / split).mkdir()
        pictures, labels = glyphs(split, COUNTS[split])
        names = [
            write_png(folder / split / f"{number}.png", pixels)
            for number, pixels in enumerate(pictures)
        ]
        rows = zip(names, labels, strict=True)
        write_table(folder / f"{split}.tsv", "file_name label", rows)


def glyphs(split: SplitName, count: int) -> tuple[np.ndarray, list[str]]:
    """The first `count` pictures of a split, uint8 [N, 32, 32, 1], and their classes.

    ConfigError: a Pillow without fonts.
    """
    pictures, labels = np.empty((count, SIZE, SIZE, 1), np.uint8), np.empty(count, int)
    for begin in range(0, count, _BATCH):
        end = min(begin + _BATCH, count)
        labels[begin:end], pictures[begin:end, :, :, 0] = _batch(split, range(begin, end))
    return pictures, [CLASSES[label] for label in labels.tolist()]


def _batch(split: SplitName, numbers: range) -> tuple[np.ndarray, np.ndarray]:
    """Classes int [N] and pictures uint8 [N, S, S]."""
    generators = [generator(0, NAMES.index(split), number) for number in numbers]
    even = np.stack([generator.random(_CHOICES) for generator in generators])
    normal = np.stack(
        [generator.standard_normal(sum(_PARTS), np.float32) for generator in generators]
    )
    lit, right, down, clouds, noise = np.split(normal, np.cumsum(_PARTS)[:-1], axis=1)
    label, weight = (
        (even[:, 0] * len(CLASSES)).astype(int),
        (even[:, 1] * len(_WEIGHTS)).astype(int),
    )
    x, y = _places(even[:, 2:9], right, down)
    ink = _blurred(_sampled(_clean(), label * len(_WEIGHTS) + weight, x, y), even[:, 9])
    dark, light = _between(even[:, 10], 0.0, 0.3), _between(even[:, 11], 0.65, 1.0)
    on_dark = even[:, 12] < 0.5
    ground, pen = np.where(on_dark, dark, light), np.where(on_dark, light, dark)
    axis = np.linspace(-1, 1, SIZE, dtype=np.float32)
    slope = lit[:, 0, None, None] * axis[:, None] + lit[:, 1, None, None] * axis
    cloudy = ground[:, None, None] + _scaled(_smooth(clouds), 0.10 * even[:, 13])
    picture = cloudy + ink * (pen[:, None, None] - cloudy)
    picture = (
        picture + 0.10 * slope + _scaled(noise.reshape(-1, SIZE, SIZE), 0.10 * even[:, 14] ** 2)
    )
    return label, (np.clip(picture, 0, 1) * 255 + 0.5).astype(np.uint8)


def _between(even: np.ndarray, low: float, high: float) -> np.ndarray:
    """Numbers of [0, 1) made numbers of [low, high), float32."""
    return (low + (high - low) * even).astype(np.float32)


def _scaled(field: np.ndarray, factor: np.ndarray) -> np.ndarray:
    return field * factor.astype(np.float32)[:, None, None]


def _places(even: np.ndarray, right: np.ndarray, down: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Where each pixel of the pictures looks in a clean sign: x and y in pixels, each float32 [N,
    S, S]."""
    turn, slant = (
        _between(even[:, 0], -0.26, 0.26),
        _between(even[:, 1], -0.3, 0.3),
    )  # radians; about 15 degrees
    wide, high = 1 / _between(even[:, 2], 0.7, 1.3), 1 / _between(even[:, 3], 0.7, 1.3)
    axis = np.linspace(-1, 1, SIZE, dtype=np.float32)
    x, y = (axis - _between(part, -0.2, 0.2)[:, None] for part in (even[:, 4], even[:, 5]))
    warp = 0.07 * even[:, 6]
    x, y = (
        x[:, None, :] + _scaled(_smooth(right), warp),
        y[:, :, None] + _scaled(_smooth(down), warp),
    )
    cosine, sine = np.cos(turn)[:, None, None], np.sin(turn)[:, None, None]
    x, y = (
        (cosine * x + sine * y) * wide[:, None, None],
        (cosine * y - sine * x) * high[:, None, None],
    )
    half = (_CLEAN - 1) / 2
    return half + half * (x + slant[:, None, None] * y), half + half * y


def _smooth(knots: np.ndarray) -> np.ndarray:
    """Numbers [N, K * K] at knots made a smooth field of pixels, float32 [N, S, S]."""
    place = np.linspace(0, _KNOTS - 1, SIZE)[:, None] - np.arange(_KNOTS)
    bell = np.exp(-0.9 * place**2)
    mix = (bell / bell.sum(axis=1, keepdims=True)).astype(np.float32)
    return mix @ knots.reshape(-1, _KNOTS, _KNOTS) @ mix.T


def _sampled(clean: np.ndarray, which: np.ndarray, x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """The given clean signs between their pixels, float32 [N, S, S]; beyond their edges is nothing,
    as at them."""
    x, y = np.clip(x, 0, _CLEAN - 1.001), np.clip(y, 0, _CLEAN - 1.001)
    left, top = x.astype(np.int32), y.astype(np.int32)
    x, y = x - left, y - top
    flat = clean.reshape(-1)
    at = (which[:, None, None] * _CLEAN + top) * _CLEAN + left
    above = flat[at] * (1 - x) + flat[at + 1] * x
    below = flat[at + _CLEAN] * (1 - x) + flat[at + _CLEAN + 1] * x
    return above * (1 - y) + below * y


def _blurred(ink: np.ndarray, strength: np.ndarray) -> np.ndarray:
    """Each picture mixed with its neighbours in both directions, up to weights of 1/4, 1/2, 1/4."""
    side = (0.25 * strength**2).astype(np.float32)[:, None, None]
    for _ in range(2):  # along a line, then, transposed, along a column
        wide = np.pad(ink, [(0, 0), (0, 0), (1, 1)])
        ink = ((1 - 2 * side) * ink + side * (wide[:, :, :-2] + wide[:, :, 2:])).transpose(0, 2, 1)
    return ink


@cache
def _clean() -> np.ndarray:
    """Every sign in every weight, softened for being sampled down, float32 [C * W, 96, 96] in [0,
    1]."""
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
    picture = Image.new("L", (side, side))
    draw = ImageDraw.Draw(picture)
    if sign in STROKES:
        _draw_strokes(draw, STROKES[sign], side, (7 + 2 * weight) * _FINE)
    else:
        left, top, right, bottom = draw.textbbox((0, 0), sign, font=font)
        at = ((side - left - right) / 2, (side - top - bottom) / 2)
        draw.text(at, sign, fill=255, font=font, stroke_width=weight * _FINE)
    smaller = picture.resize((_CLEAN, _CLEAN), Image.Resampling.BOX)
    return np.asarray(
        smaller.filter(ImageFilter.BoxBlur(1))
    )  # a picture's pixel is as wide as three of these


def _draw_strokes(draw: ImageDraw.ImageDraw, strokes: str, side: int, width: int) -> None:
    for stroke in strokes.split():
        grid = np.array([[int(x), int(y)] for x, y in stroke.removeprefix("~").split("-")], float)
        points = side / 2 + ((_curve(grid) if stroke.startswith("~") else grid) - 4) * (
            side * 0.54 / 8
        )
        draw.line([(x, y) for x, y in points.tolist()], fill=255, width=width, joint="curve")
        for x, y in points[[0, -1]].tolist():  # round ends
            draw.ellipse((x - width / 2, y - width / 2, x + width / 2, y + width / 2), fill=255)


def _curve(points: np.ndarray) -> np.ndarray:
    """A Catmull-Rom spline through points [P, 2]: closed if the last one is the first."""
    closed = bool((points[0] == points[-1]).all())
    first, last = (points[-2], points[1]) if closed else (points[0], points[-1])
    p = np.concatenate([first[None], points, last[None]])
    t = np.linspace(0, 1, 12, endpoint=False)[:, None]
    pieces = [
        0.5
        * (
            2 * b
            + (c - a) * t
            + (2 * a - 5 * b + 4 * c - d) * t**2
            + (3 * b - a - 3 * c + d) * t**3
        )
        for a, b, c, d in zip(p, p[1:], p[2:], p[3:], strict=False)
    ]
    return np.concatenate([*pieces, points[-1:]])
