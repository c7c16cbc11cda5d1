"""Images of every split with their classes: files in folders, tables and archives, arrays (IDX,
NumPy)."""

import io
import math
import warnings
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import IO, cast

import numpy as np
from PIL import Image, ImageOps, UnidentifiedImageError

from glassformer.core.errors import ConfigError, DataError, amount
from glassformer.data.config import DataConfig, Paths, SplitName
from glassformer.data.formats.contents import content, open_source
from glassformer.data.formats.idx import npz_names, read_idx, read_npy, read_npz
from glassformer.data.formats.records import check_used, named_class
from glassformer.data.records.labelled_files import COLUMNS, LabelledFile, labelled_files
from glassformer.data.sources import Source, list_names, resolve
from glassformer.data.splits import in_splits

SUFFIXES = (".png", ".jpg", ".jpeg", ".webp", ".bmp", ".gif", ".tif", ".tiff")
FORMATS = ("PNG", "JPEG", "WEBP", "BMP", "GIF", "TIFF")
"""Formats that Pillow may read; others are rare, and some run programs."""
WIDE_SUFFIXES, WIDE_MODES = (".png", ".tif", ".tiff"), "IF"
"""Suffixes and modes of Pillow that may have more than 8 bits."""
LARGEST = 1 << 26
"""Most pixels in one image."""
Range = tuple[float, float]
"""The values that are black and white."""
SIXTEEN_BITS = (0.0, 65535.0)
IMAGES, LABELS = ("images", "x", "data"), ("labels", "label", "y", "targets")
"""Names of arrays in .npz files."""


@dataclass(frozen=True, slots=True)
class Picture(LabelledFile):
    """An image, decoded on request, and its distinct classes."""

    array: np.ndarray | None = field(default=None, repr=False, compare=False)
    """The pixels of an image that lies in an array; None: it is a file."""

    def pixels(self, values: Range = SIXTEEN_BITS) -> np.ndarray:
        """A copy of the pixels, uint8 [H, W, C] with C 1 or 3; see `decode`."""
        if self.array is not None:
            return np.array(self.array, order="C")
        return decode(content(self.source), self.where, values)


def pictures(config: DataConfig) -> list[Picture]:
    """Every image of every split, in a fixed order; splits that have no files are held out
    at random.

    DataError: no images, one without a class, an array of another kind, or other than one class for
    each image.
    """
    if not _in_arrays(config):
        return labelled_files(config, SUFFIXES, "image", Picture)
    check_used(config, (*COLUMNS, "label_pattern"), used=False, path=config.train.path)
    rows = {split: list(_arrays(config, split)) for split in config.with_files}
    return [
        Picture(source, (label,), split, array=pixels)
        for split, (source, label, pixels) in in_splits(config, rows.__getitem__)
    ]


def value_range(images: Iterable[Picture]) -> Range | None:
    """The range of images of more than 8 bits, that of their numbers of bits; None: no such image.

    An image that cannot be read has none.
    """
    found = list[Range]()
    for image in images:
        source = image.source
        wide = source.row or image.where.lower().endswith(WIDE_SUFFIXES)
        if image.array is not None or not wide:
            continue
        with suppress(DataError), open_source(source) as file, _image_of(file, image.where) as wide:
            if wide.mode[0] in WIDE_MODES:
                found.append(_own_range(np.asarray(wide), image.where))
    return (min(low for low, _ in found), max(high for _, high in found)) if found else None


def decode(raw: bytes, where: str, values: Range | None = None) -> np.ndarray:
    """Decode an image file to uint8 [H, W, C], with one channel if it is grey, else RGB.

    Applies the EXIF orientation, blends transparency with white and keeps the first frame; more
    than 8 bits are scaled from `values`, or from the image's own range. DataError: damaged, another
    format, more than 2**26 pixels (by the header, before allocation). Not thread-safe.
    """
    with _image_of(io.BytesIO(raw), where) as image:
        image.load()
        upright: Image.Image = image
        with suppress(Exception):  # an image with damaged EXIF data is not rotated
            upright = ImageOps.exif_transpose(image)
        if upright.mode[0] in WIDE_MODES:
            return _levels(np.asarray(upright), values, where)
        return _pixels(upright)


@contextmanager
def _image_of(file: io.BufferedIOBase, where: str) -> Iterator[Image.Image]:
    """Open an image; DataError as of `decode`, also for what its use raises."""
    with warnings.catch_warnings():  # of Pillow about unusual files
        warnings.simplefilter("ignore")
        try:
            with Image.open(cast(IO[bytes], file), formats=FORMATS) as image:
                width, height = image.size
                if not 0 < width * height <= LARGEST:
                    raise _too_large(where, f"{width:,} x {height:,} pixels")
                yield image
        except DataError:
            raise
        except Image.DecompressionBombError as problem:
            size = str(problem).partition("(")[2].partition(")")[0] or "more pixels"
            raise _too_large(where, size) from None
        except UnidentifiedImageError:
            raise DataError(
                f"{where} is not an image; give PNG, JPEG, WebP, BMP, GIF or TIFF files"
            ) from None
        except Exception as problem:  # noqa: BLE001 - decoders raise anything
            reason = " ".join(str(problem).split())[:80] or type(problem).__name__
            raise DataError(f"{where} is a damaged image ({reason}); copy it again") from None


def _own_range(values: np.ndarray, where: str) -> Range:
    """From 0, or below it, to the greatest value, both up to a power of two."""
    low, high = float(values.min()), float(values.max())
    if not np.isfinite([low, high]).all():
        raise DataError(f"{where} has values that are infinite or no numbers; write it again")
    whole = values.dtype.kind in "iu"

    def bound(value: float) -> float:
        if whole:
            return float((1 << max(8, int(value).bit_length())) - 1)
        return 2.0 ** max(0, math.ceil(math.log2(max(value, 1.0))))

    return (-bound(-low) if low < 0 else 0.0, bound(high))


def _levels(array: np.ndarray, values: Range | None, where: str) -> np.ndarray:
    own = _own_range(array, where)
    low, high = values or own
    levels = np.floor((array.astype(np.float64) - low) * 256 / (high - low))
    return levels.clip(0, 255).astype(np.uint8)[..., None]


def _pixels(image: Image.Image) -> np.ndarray:
    grey = image.mode in ("1", "L", "LA", "La")
    if image.mode == "P":
        colours = np.array(image.getpalette("RGB") or [0], np.uint8)
        grey = len(colours) % 3 == 0 and bool((colours.reshape(-1, 3) == colours[::3, None]).all())
    if image.has_transparency_data:
        both = np.asarray(image.convert("RGBA")).astype(np.uint16)
        colour, alpha = both[..., : 1 if grey else 3], both[..., 3:]
        return ((colour * alpha + 255 * (255 - alpha) + 127) // 255).astype(np.uint8)
    mode = "L" if grey else "RGB"
    pixels = np.array(image if image.mode == mode else image.convert(mode))
    return pixels[..., None] if grey else pixels


def _too_large(where: str, size: str) -> DataError:
    return DataError(
        f"{where} has {size} by its header, and 1 to {LARGEST:,} can be read; make it smaller"
    )


def _in_arrays(config: DataConfig) -> bool:
    """Whether the images are arrays, not files."""
    ends = (".npy", ".npz", ".idx", "ubyte")
    names = [name.lower().removesuffix(".gz") for name in list_names(config.train.path)]
    found = config.format == "auto" and bool(names) and all(one.endswith(ends) for one in names)
    return found or config.format in ("idx", "numpy")


def _arrays(config: DataConfig, split: SplitName) -> Iterator[tuple[Source, str, np.ndarray]]:
    """Origin, class and pixels (a view) of each image of a split."""
    of = config.splits[split]
    path = _single(of.path, config, f"{split}.path")
    if of.labels is not None:
        label_path = _single(of.labels, config, f"{split}.labels")
    elif path.endswith(".npz"):
        label_path = path
    else:
        raise ConfigError(
            f"data.{split}.labels is not set; give the file with the classes of {path}, or an .npz "
            "file that holds both."
        )
    stack, labels = _stack(_array(path, IMAGES), path), _array(label_path, LABELS)
    labels = labels[:, 0] if labels.ndim == 2 and labels.shape[1] == 1 else labels
    if labels.ndim != 1 or labels.dtype.kind not in "iubU":
        shape = " x ".join(map(str, labels.shape))
        raise DataError(
            f"{label_path} holds {shape} of {labels.dtype} as classes; give one whole number or "
            f"name each"
        )
    if len(labels) != len(stack):
        raise DataError(
            f"{label_path} has {len(labels):,} classes for the {amount(len(stack), 'image')} of "
            f"{path}; give one for each"
        )
    names = {label: named_class(str(label), config, label_path) for label in set(labels.tolist())}
    for i, (label, pixels) in enumerate(zip(labels.tolist(), stack, strict=True), 1):
        yield Source(f"{path}, image {i}", path), names[label], pixels


def _single(named: Paths, config: DataConfig, setting: str) -> str:
    sources = resolve(named, config)
    if len(sources) != 1:
        raise ConfigError(
            f"data.{setting} stands for {len(sources)} files; give one array with all images."
        )
    return sources[0].path


def _array(path: str, wanted: tuple[str, ...]) -> np.ndarray:
    if path.removesuffix(".gz").endswith(".npy"):
        return read_npy(path)
    if not path.endswith(".npz"):
        return read_idx(path)
    names = npz_names(path)
    name = next((name for name in wanted if name in names), None)
    if name is None:
        raise DataError(
            f"{path} holds {', '.join(names) or 'nothing'}; an array called {' or '.join(wanted)} "
            f"is needed"
        )
    return read_npz(path, name)


def _stack(array: np.ndarray, path: str) -> np.ndarray:
    """The array as [N, H, W, C]."""
    array = np.asarray(array)  # a view of a mapped file, without what makes that slow
    if array.ndim == 3:
        array = array[..., None]
    elif array.ndim == 4 and array.shape[3] not in (1, 3) and array.shape[1] in (1, 3):
        array = np.moveaxis(array, 1, 3)
    if array.dtype != np.uint8 or array.ndim != 4 or array.shape[3] not in (1, 3):
        shape = " x ".join(map(str, array.shape))
        raise DataError(
            f"{path} holds {shape} of {array.dtype}; give whole numbers from 0 to 255 (uint8): "
            f"images x rows x columns, with or without 1 or 3 channels at the end"
        )
    return array
