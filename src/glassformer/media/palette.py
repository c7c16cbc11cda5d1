"""Images as tokens: each pixel is an index into a small palette of colours (Image GPT, Chen et al.
2020).

    uint8 [H, W, C] ── fit ──> uint8 [h, w, 3]
    uint8 [N, h, w, 3] ── ids ──> [N, h * w] ── pixels ──> uint8

The palette comes from k-means over pixels of training images; it is saved with the model as
`palette.json`.
"""

import os
from typing import Any, Literal, Self, final

import numpy as np
from pydantic import Field, model_validator

from glassformer.errors import ConfigError, DataError, counted
from glassformer.media.image import ImageConfig, ImageReader
from glassformer.media.reader import load_config, save_config
from glassformer.random_stream import generator
from glassformer.record import Record

FILE = "palette.json"
LARGEST_SIDE = 256
SAMPLE = 1 << 16
"""Pixels that k-means runs on."""
ROUNDS = 100
_AT_ONCE = 1 << 13


class PaletteConfig(Record):
    """The `processor.palette` section of a recipe: images are generated pixel by pixel."""

    section = "processor.palette"

    size: int | tuple[int, int] = 16
    """(height, width) in pixels, or both as one."""
    colours: int = Field(default=32, ge=2, le=512)
    """Colours of the palette, at most."""
    resize: Literal["stretch", "crop", "pad"] = "crop"
    """Of an image of another size: as processor.image.resize."""
    interpolation: Literal["bilinear", "bicubic", "nearest"] = "bilinear"
    """Interpolation of resized images."""

    @model_validator(mode="after")
    def _fits(self) -> Self:
        if not all(1 <= side <= LARGEST_SIDE for side in self.dims):
            height, width = self.dims
            raise ValueError(
                f"size {height} x {width} must be from 1 x 1 to {LARGEST_SIDE} x {LARGEST_SIDE}"
            )
        return self

    @property
    def dims(self) -> tuple[int, int]:
        """(height, width)."""
        return (self.size, self.size) if isinstance(self.size, int) else self.size

    @property
    def n_pixels(self) -> int:
        """Pixels of an image; each is a token."""
        return self.dims[0] * self.dims[1]

    def fit(self, pixels: np.ndarray, where: str = "the image") -> np.ndarray:
        """Resize an image, uint8 [H, W, C], to uint8 [h, w, 3]; see `ImageReader.fit`."""
        values = {"size": self.dims, "resize": self.resize, "interpolation": self.interpolation}
        return ImageReader(ImageConfig.parse({**values, "channels": 3, "patch": 1})).fit(
            pixels, where
        )


@final
class Palette:
    """The distinct colours of a model's images, uint8 [K, 3], with K <= `config.colours`."""

    def __init__(self, config: PaletteConfig, colours: np.ndarray) -> None:
        self.config, self.colours = config, colours

    @classmethod
    def learn(cls, config: PaletteConfig, stack: np.ndarray, seed: int = 0) -> Self:
        """The palette of training images, uint8 [N, h, w, 3]; DataError: there are none."""
        pixels = stack.reshape(-1, 3)
        if not len(pixels):
            raise DataError(
                "there are no training images from which a palette could be made; give some"
            )
        random = generator(seed, 0)
        if len(pixels) > SAMPLE:
            pixels = pixels[np.sort(random.integers(0, len(pixels), SAMPLE))]
        points, counts = np.unique(pixels, axis=0, return_counts=True)
        if len(points) <= config.colours:
            return cls(config, points)
        centres, _ = lloyd(points, counts, seeded(points, counts, config.colours, random))
        return cls(config, np.unique(centres.round().astype(np.uint8), axis=0))

    def ids(self, pixels: np.ndarray) -> np.ndarray:
        """The index of the nearest colour for each pixel of images, uint8 [N, h, w, 3], in reading
        order, int64 [N, h * w]."""
        found, _ = nearest(pixels.reshape(-1, 3), self.colours)
        return found.reshape(len(pixels), -1)

    def pixels(self, ids: np.ndarray) -> np.ndarray:
        """Inverse of `ids`: indices [N, h * w] to images, uint8 [N, h, w, 3]."""
        return self.colours[ids].reshape(len(ids), *self.config.dims, 3)

    def described(self) -> str:
        """Size and number of colours, for a person."""
        height, width = self.config.dims
        return f"{height} x {width} images in {counted(len(self.colours), 'colour')}"

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write `palette.json` (into a folder if `path` is one), replaced as one step."""
        values = {**self.config.model_dump(mode="json"), "rgb": self.colours.tolist()}
        save_config(path, FILE, values)

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Self:
        """Read `palette.json` (or a folder that holds it); DataError: damaged."""
        return load_config(path, FILE, cls._of)

    @classmethod
    def _of(cls, values: dict[str, Any]) -> Self:
        colours = values.pop("rgb", None)
        config = PaletteConfig.parse(values)
        if not _are_colours(colours, config.colours):
            raise ConfigError(
                f"it holds no list of 1 to {config.colours} different colours [red, green, blue]"
            )
        return cls(config, np.array(colours, np.uint8))


def nearest(points: np.ndarray, centres: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The index of the nearest centre [K, D] for each point [N, D] (of ties the first), and its
    squared distance."""
    centres, squares = centres.astype(np.float64), (centres.astype(np.float64) ** 2).sum(1)
    found, distances = np.empty(len(points), np.int64), np.empty(len(points))
    for begin in range(0, len(points), _AT_ONCE):
        some = points[begin : begin + _AT_ONCE].astype(np.float64)
        table = squares - 2 * some @ centres.T  # |p - c|^2 - |p|^2: exact for whole numbers
        own = found[begin : begin + _AT_ONCE] = table.argmin(1)
        distances[begin : begin + _AT_ONCE] = ((some - centres[own]) ** 2).sum(1)
    return found, distances


def seeded(
    points: np.ndarray, counts: np.ndarray, k: int, random: np.random.Generator
) -> np.ndarray:
    """Initial centres by k-means++ (Arthur & Vassilvitskii 2007), float64 [k, D]."""
    points = points.astype(np.float64)
    chosen, distances, mass = [], np.inf, np.cumsum(counts.astype(np.float64))
    for _ in range(k):
        place = int(np.searchsorted(mass, random.random() * mass[-1], "right"))
        chosen.append(points[min(place, len(points) - 1)])
        distances = np.minimum(distances, ((points - chosen[-1]) ** 2).sum(1))
        mass = np.cumsum(distances * counts)
    return np.array(chosen)


def lloyd(
    points: np.ndarray, counts: np.ndarray, centres: np.ndarray, rounds: int = ROUNDS
) -> tuple[np.ndarray, list[float]]:
    """Lloyd's algorithm until assignments stop changing; also the mean squared error before each
    round, which never rises.

    A centre without points moves to the point with the largest error.
    """
    errors: list[float] = []
    before, weights, points = None, counts.astype(np.float64), points.astype(np.float64)
    for _ in range(rounds):
        found, distances = nearest(points, centres)
        errors.append(float((distances * weights).sum() / weights.sum()))
        if before is not None and (found == before).all():
            break
        mass = np.bincount(found, weights, len(centres))
        sums = np.stack(
            [np.bincount(found, weights * column, len(centres)) for column in points.T], 1
        )
        centres = sums / np.maximum(mass, 1)[:, None]
        empty = np.flatnonzero(mass == 0)
        centres[empty] = points[np.argsort(-distances * weights, kind="stable")[: len(empty)]]
        before = found
    return centres, errors


def _are_colours(values: object, most: int) -> bool:
    if not isinstance(values, list) or not 1 <= len(values) <= most:
        return False
    if any(not isinstance(colour, list) or len(colour) != 3 for colour in values):
        return False
    whole = all(type(v) is int and 0 <= v <= 255 for colour in values for v in colour)
    return whole and len(set(map(tuple, values))) == len(values)
