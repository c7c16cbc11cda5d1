"""Images as tokens: each pixel is an index into a small palette of colours.

Source: Image GPT, Chen et al. 2020.

    uint8 [H, W, C] ── fit ──> uint8 [h, w, 3]
    uint8 [N, h, w, 3] ── ids ──> [N, h * w] ── pixels ──> uint8

The palette comes from Pillow's k-means over pixels of training images; it is saved with the model
as `palette.json`.
"""

import os
from typing import Any, Literal, Self, final

import numpy as np
from PIL import Image
from pydantic import Field, model_validator

from glassformer.core.errors import ConfigError, DataError, amount
from glassformer.core.files import file_in, write_json
from glassformer.core.random_stream import generator
from glassformer.core.record import Record
from glassformer.media.image import ImageConfig, ImageReader
from glassformer.media.patches import load_config, pair

FILE = "palette.json"
LARGEST_SIDE = 256
SAMPLE = 1 << 16
"""Pixels that k-means runs on."""


class PaletteConfig(Record):
    """The `processor.palette` section of a recipe: images are generated pixel by pixel."""

    section = "processor.palette"

    size: int | tuple[int, int] = 16
    """(height, width) in pixels, or both as one."""
    colours: int = Field(default=32, ge=2, le=256)
    """Colours of the palette, at most."""
    resize: Literal["stretch", "crop", "pad"] = "crop"
    """Of an image of another size: as processor.image.resize."""
    interpolation: Literal["bilinear", "bicubic", "nearest"] = "bilinear"
    """Interpolation of resized images."""

    @model_validator(mode="after")
    def _fits(self) -> Self:
        height, width = self.dims
        if not 1 <= min(self.dims) <= max(self.dims) <= LARGEST_SIDE:
            raise ValueError(
                f"size {height} x {width} must be from 1 x 1 to {LARGEST_SIDE} x {LARGEST_SIDE}"
            )
        return self

    @property
    def dims(self) -> tuple[int, int]:
        """(height, width)."""
        return pair(self.size)

    @property
    def n_pixels(self) -> int:
        """Pixels of an image; each is a token."""
        return self.dims[0] * self.dims[1]

    def fit(self, pixels: np.ndarray, where: str = "the image") -> np.ndarray:
        """Resize an image, uint8 [H, W, C], to uint8 [h, w, 3]; see `ImageReader.fit`."""
        values = self.model_dump(include={"resize", "interpolation"})
        values |= {"size": self.dims, "channels": 3, "patch": 1}
        return ImageReader(ImageConfig.parse(values)).fit(pixels, where)


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
        if len(pixels) > SAMPLE:
            chosen = generator(seed, 0).integers(0, len(pixels), SAMPLE)
            pixels = pixels[np.sort(chosen)]
        colours = np.unique(pixels, axis=0)
        if len(colours) > config.colours:
            sample, method = Image.fromarray(pixels[None]), Image.Quantize.MAXCOVERAGE
            found = sample.quantize(config.colours, method, kmeans=1).getpalette("RGB")
            colours = np.unique(np.array(found, np.uint8).reshape(-1, 3), axis=0)
        return cls(config, colours)

    def ids(self, pixels: np.ndarray) -> np.ndarray:
        """The index of the nearest colour for each pixel of images, uint8 [N, h, w, 3], in reading
        order, int64 [N, h * w]."""
        # |p - c|^2 - |p|^2: whole numbers, exact in float32
        colours = self.colours.astype(np.float32)
        squares = np.square(colours).sum(1)
        images = pixels.reshape(len(pixels), -1, 3).astype(np.float32)
        return np.stack([(squares - 2 * image @ colours.T).argmin(1) for image in images])

    def pixels(self, ids: np.ndarray) -> np.ndarray:
        """Inverse of `ids`: indices [N, h * w] to images, uint8 [N, h, w, 3]."""
        return self.colours[ids].reshape(len(ids), *self.config.dims, 3)

    def summary(self) -> str:
        """Size and number of colours, for a person."""
        height, width = self.config.dims
        return f"{height} x {width} images in {amount(len(self.colours), 'colour')}"

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write `palette.json` (into a folder if `path` is one), replaced as one step."""
        values = {**self.config.model_dump(mode="json"), "rgb": self.colours.tolist()}
        write_json(file_in(path, FILE), values)

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Self:
        """Read `palette.json` (or a folder that holds it); DataError: damaged."""
        return load_config(path, FILE, cls._of)

    @classmethod
    def _of(cls, values: dict[str, Any]) -> Self:
        colours = np.array(values.pop("rgb", None))
        config = PaletteConfig.parse(values)
        fits = colours.dtype.kind == "i" and colours.ndim == 2 and colours.shape[1] == 3
        if not fits or not 0 <= colours.min() <= colours.max() <= 255:
            raise ConfigError("it holds no list of colours [red, green, blue] from 0 to 255")
        return cls(config, colours.astype(np.uint8))
