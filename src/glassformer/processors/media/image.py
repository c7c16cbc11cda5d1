"""The processor of images: pixels to patches (Note D: divide, flatten, times W_emb)."""

import io
from collections.abc import Sequence
from contextlib import suppress
from functools import cached_property
from typing import Any

import numpy as np
from PIL import Image

from glassformer.core.axes import Float, Tensor
from glassformer.core.errors import DataError, amount
from glassformer.data.arrays import hinting
from glassformer.data.records.labelled_files import TABLES
from glassformer.data.records.pictures import (
    SIXTEEN_BITS,
    SUFFIXES,
    Picture,
    Range,
    decode,
    pictures,
    value_range,
)
from glassformer.media.image import ImageConfig, ImageReader
from glassformer.media.image_augment import Augmentation, AugmentConfig
from glassformer.processors.inputs import Records, split_of
from glassformer.processors.media.processor import MediaProcessor


class ImageProcessor(MediaProcessor[ImageReader]):
    """Images of one size, cut into patches."""

    name, noun, array, dtype = "image", "image", "pixels", "uint8"
    auto_class = "AutoImageProcessor"
    record, records = Picture, staticmethod(pictures)
    kind = ImageReader
    stored_fields = frozenset(ImageConfig.model_fields) - {"mean", "std", "patch"}
    suffixes = (*SUFFIXES, *TABLES)
    accept = "image/png,image/jpeg,image/gif,image/webp,image/bmp,image/tiff"

    @cached_property
    def _augmentation(self) -> Augmentation:
        return Augmentation(self._config, self.how.seed)

    @cached_property
    def _config(self) -> AugmentConfig:
        return self.how.image or AugmentConfig()

    @classmethod
    def complete(cls, config: ImageConfig, records: Records, skip: bool) -> ImageConfig:
        """See `MediaProcessor`: the first training image that can be read has the size."""
        train = split_of(records, "train")
        if config.size is None or config.channels is None:
            config = _with_size(config, train, skip)
        if config.value_range is None:
            config = config.model_copy(update={"value_range": value_range(train)})
        return config

    def row(self, thing: Any, where: str) -> np.ndarray:
        """See `MediaProcessor`."""
        if isinstance(thing, Picture):
            return self.reader.fit(thing.pixels(self._values), thing.where)
        dtype, shape = getattr(thing, "dtype", type(thing).__name__), getattr(thing, "shape", ())
        if dtype != np.uint8 or len(shape) != 3 or shape[2] not in (1, 3) or not thing.size:
            raise DataError(
                f"an image is a file or pixels uint8 [H, W, 1 or 3], not {dtype} {list(shape)}; "
                "change it"
            )
        return self.reader.fit(thing, where)

    @property
    def _values(self) -> Range:
        return self.reader.config.value_range or SIXTEEN_BITS

    def patches(
        self, array: np.ndarray, numbers: np.ndarray, step: int | None
    ) -> Float[Tensor, "N T P"]:
        """See `MediaProcessor`."""
        pixels = array
        if step is not None and self._config.changes:
            pixels = self._augmentation(pixels, numbers, step)
        if step is not None and self._config.mixes:
            nothing = np.zeros(len(numbers), np.int64)
            pixels, _ = self._augmentation.mix(pixels, nothing, 1, numbers, step)
        return self.reader.patches(self.reader.normalize(pixels))

    def mixed(
        self, targets: np.ndarray, n_classes: int, numbers: Sequence[int], step: int
    ) -> np.ndarray:
        """See `Processor`."""
        if not self._config.mixes:
            return targets
        height, width, _ = self.reader.shape
        blank, chosen = np.zeros((len(numbers), height, width, 1), np.uint8), np.asarray(numbers)
        return self._augmentation.mix(blank, targets, n_classes, chosen, step)[1]

    def label(self, row: int, column: int) -> str:
        """See `MediaProcessor`."""
        return f"patch {row},{column}"

    def restored(self, patches: Float[Tensor, "T P"]) -> np.ndarray:
        """See `MediaProcessor`: uint8 [H, W, C]."""
        return self.reader.pixels_of(patches[None])[0]

    def from_file(self, content: bytes, where: str = "the image") -> np.ndarray:
        """See `MediaProcessor`: uint8 [H, W, C]."""
        return decode(content, where, self._values)

    def to_file(self, given: Any) -> bytes | None:
        """See `MediaProcessor`: PNG."""
        if not (isinstance(given, np.ndarray) and given.dtype == np.uint8 and given.ndim == 3):
            return None
        file = io.BytesIO()
        Image.fromarray(given[..., 0] if given.shape[2] == 1 else given).save(file, "png")
        return file.getvalue()

    def description(self) -> list[str]:
        """See `Processor`."""
        (height, width, channels), (rows, columns) = self.reader.shape, self.reader.grid
        patches = f"{rows} x {columns} patches of {amount(self.reader.patch_width, 'number')}"
        colours = "grey" if channels == 1 else "colour"
        return [f"{height} x {width} {colours} images in {patches}"]


def _with_size(config: ImageConfig, train: Sequence[Picture], skip: bool) -> ImageConfig:
    for image in train[:-1] if skip else ():
        with suppress(DataError):
            return config.fill_in(image.pixels())
    with hinting(skip):
        return config.fill_in(train[-1 if skip else 0].pixels())
