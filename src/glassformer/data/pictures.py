"""Images of every split with their classes: files in folders, tables and archives, arrays (IDX,
NumPy)."""

import io
import posixpath
import warnings
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Literal

import numpy as np
from PIL import Image, UnidentifiedImageError

from glassformer.data.config import DataConfig, SplitName
from glassformer.data.formats.contents import content
from glassformer.data.formats.idx import npz_names, read_idx, read_npy, read_npz
from glassformer.data.formats.labelled_files import labelled_files, named_class
from glassformer.data.sources import Source, resolve
from glassformer.data.split_assignment import in_splits
from glassformer.errors import ConfigError, DataError, counted

SUFFIXES = (".png", ".jpg", ".jpeg", ".webp", ".bmp", ".gif")
FORMATS = ("PNG", "JPEG", "WEBP", "BMP", "GIF")
"""Formats that Pillow may read; others are rare, and some run programs."""
LARGEST = 1 << 26
"""Most pixels in one image."""
IMAGES, LABELS = ("images", "x", "data"), ("labels", "label", "y", "targets")
"""Names of arrays in .npz files."""
_ORIENTATION = 0x0112
_TURNS = {
    **{2: (False, 1, -1), 3: (False, -1, -1), 4: (False, -1, 1)},
    **{5: (True, 1, 1), 6: (True, 1, -1), 7: (True, -1, -1), 8: (True, -1, 1)},
}
"""EXIF orientations: whether to transpose, then the steps along rows and columns."""


@dataclass(frozen=True, slots=True)
class Picture:
    """An image, decoded on request, and its distinct classes."""

    where: str
    labels: tuple[str, ...]
    group: str | None
    split: SplitName
    held: Source | np.ndarray = field(repr=False, compare=False)
    """A file, or a view of an array."""

    def pixels(self) -> np.ndarray:
        """A copy of the pixels, uint8 [H, W, C] with C 1 or 3; DataError: see `decode`."""
        return (
            np.array(self.held, order="C")
            if isinstance(self.held, np.ndarray)
            else decode(content(self.held), self.where)
        )


def pictures(config: DataConfig) -> list[Picture]:
    """Every image of every split, in a fixed order; splits without files of their own are held out
    at random.

    DataError: no images, one without a class, an array of another kind, or other than one class for
    each image.
    """
    if _kind(config) == "images":
        return [
            Picture(file.where, file.labels, file.group, file.split, file.source)
            for file in labelled_files(config, SUFFIXES, "picture")
        ]
    arrays = {
        split: _arrays(config, split)
        for split, of in config.splits.items()
        if split == "train" or of.path
    }
    return [
        Picture(where, (label,), None, split, pixels)
        for split, (where, label, pixels) in in_splits(
            config, lambda split: iter(zip(*arrays[split], strict=True))
        )
    ]


def decode(raw: bytes, where: str) -> np.ndarray:
    """Decode an image file to uint8 [H, W, C], with one channel if it is grey, else RGB.

    Applies the EXIF orientation, blends transparency with white, keeps the upper eight of 16 bits
    and the first frame. DataError: damaged, another format, more than 2**26 pixels (by the header,
    before allocation). Not thread-safe.
    """
    with warnings.catch_warnings():  # Pillow says on stderr what it thinks of odd files
        warnings.simplefilter("ignore")
        try:
            with Image.open(io.BytesIO(raw), formats=FORMATS) as picture:
                width, height = picture.size
                if not 0 < width * height <= LARGEST:
                    raise _too_large(where, f"{width:,} x {height:,} pixels")
                return _upright(picture, _pixels(picture))
        except DataError:
            raise
        except Image.DecompressionBombError as problem:
            raise _too_large(
                where, str(problem).partition("(")[2].partition(")")[0] or "more pixels"
            ) from None
        except UnidentifiedImageError:
            raise DataError(
                f"{where} is not a picture; give PNG, JPEG, WebP, BMP or GIF files"
            ) from None
        except Exception as problem:  # noqa: BLE001 - what decoders raise on damaged files is not foreseeable
            reason = " ".join(str(problem).split())[:80] or type(problem).__name__
            raise DataError(f"{where} is a damaged picture ({reason}); copy it again") from None


def _pixels(picture: Image.Image) -> np.ndarray:
    grey = picture.mode in ("1", "L", "LA", "La")
    if picture.mode.startswith("I"):
        return (np.asarray(picture) >> 8).clip(0, 255).astype(np.uint8)[..., None]
    if picture.mode == "P":
        colours = np.array(picture.getpalette("RGB") or [0], np.uint8)
        grey = len(colours) % 3 == 0 and bool((colours.reshape(-1, 3) == colours[::3, None]).all())
    if picture.has_transparency_data:
        both = np.asarray(picture.convert("RGBA"))
        colour, alpha = (
            both[..., : 1 if grey else 3].astype(np.uint16),
            both[..., 3:].astype(np.uint16),
        )
        return ((colour * alpha + 255 * (255 - alpha) + 127) // 255).astype(np.uint8)
    mode = "L" if grey else "RGB"
    pixels = np.array(picture if picture.mode == mode else picture.convert(mode))
    return pixels[..., None] if grey else pixels


def _upright(picture: Image.Image, pixels: np.ndarray) -> np.ndarray:
    turn = None
    with suppress(Exception):  # a picture whose EXIF is damaged stands as it is
        turn = _TURNS.get(picture.getexif().get(_ORIENTATION, 1))
    if turn is None:
        return pixels
    swapped, rows, columns = turn
    return np.ascontiguousarray((pixels.swapaxes(0, 1) if swapped else pixels)[::rows, ::columns])


def _too_large(where: str, size: str) -> DataError:
    return DataError(
        f"{where} has {size} by its header, and 1 to {LARGEST:,} can be read; make it smaller"
    )


def _kind(config: DataConfig) -> Literal["images", "array"]:
    if config.format in ("idx", "numpy"):
        return "array"
    if config.format in ("images", "csv", "tsv", "jsonl"):
        return "images"
    if config.format != "auto":
        raise ConfigError(
            f"data.format is {config.format}, which holds no pictures; set it to images, idx, "
            f"numpy, csv, tsv or jsonl."
        )
    path = config.train.path
    names = [path] if isinstance(path, str) else path or []
    return "array" if names and all(map(_is_array, names)) else "images"


def _is_array(path: str) -> bool:
    name = posixpath.basename(path.lower().removesuffix(".gz"))
    return name.endswith((".npy", ".npz", ".idx", "ubyte"))


def _arrays(config: DataConfig, split: SplitName) -> tuple[list[str], list[str], list[np.ndarray]]:
    """Origin, class and pixels (a view) of each image of a split."""
    of = config.splits[split]
    path = _single(of.path, config, f"{split}.path")
    if of.labels is None and not path.endswith(".npz"):
        raise ConfigError(
            f"data.{split}.labels is not set; give the file with the classes of {path}."
        )
    stack = _stack(_array(path, IMAGES), path)
    path_of_labels = path if of.labels is None else _single(of.labels, config, f"{split}.labels")
    labels = _array(path_of_labels, LABELS)
    labels = labels[:, 0] if labels.ndim == 2 and labels.shape[1] == 1 else labels
    if labels.ndim != 1 or labels.dtype.kind not in "iubU":
        shape = " x ".join(map(str, labels.shape))
        raise DataError(
            f"{path_of_labels} holds {shape} of {labels.dtype} as classes; give one whole "
            f"number or name each"
        )
    if len(labels) != len(stack):
        raise DataError(
            f"{path_of_labels} has {len(labels):,} classes for the "
            f"{counted(len(stack), 'picture')} of {path}; "
            "give one for each"
        )
    names = {
        label: named_class(str(label), config, path_of_labels) for label in set(labels.tolist())
    }
    return (
        [f"{path}, picture {i}" for i in range(1, len(stack) + 1)],
        [names[i] for i in labels.tolist()],
        list(stack),
    )


def _single(named: str | list[str] | None, config: DataConfig, setting: str) -> str:
    sources = resolve(named, config.root)
    if len(sources) != 1:
        raise ConfigError(
            f"data.{setting} stands for {len(sources)} files; give one array with all of the "
            f"pictures."
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
            f"{path} holds {', '.join(names) or 'nothing'}; an array called "
            f"{' or '.join(wanted)} is needed"
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
            f"pictures x rows x "
            "columns, with or without 1 or 3 channels behind"
        )
    return array
