"""Images cut into patches, patches put together, and the base of the readers of images and audio.

A reader makes patches by a configuration, which is saved beside a model's weights as JSON.

    pixels [N, rows·p, columns·q, C]  <->  patches [N, rows·columns, p·q·C]

Patches are in reading order, flattened by row, column, channel (Note D: 16 x 16 x 3 = 768): patches
times W equal a convolution with kernel and stride (p, q) and the weights W reshaped to [p, q, C,
D].
"""

import json
import math
import os
from collections.abc import Callable
from functools import cached_property
from typing import Any, ClassVar, Self, TypeVar

import torch
from jaxtyping import Shaped

from glassformer.core.axes import Tensor
from glassformer.core.errors import ConfigError, DataError
from glassformer.core.files import file_in, read_bytes, write_json
from glassformer.core.record import Record

LARGEST_FILE = 1 << 20
Made = TypeVar("Made")


def pair(size: int | tuple[int, int]) -> tuple[int, int]:
    """Height and width of a size, which may be one number."""
    return (size, size) if isinstance(size, int) else size


class Reader:
    """Files to patches, by a configuration with `patch_size`, `mean` and `std`."""

    kind: ClassVar[type[Record]]
    file: ClassVar[str]
    """The file in a run folder that holds the configuration."""
    shape: tuple[int, int, int]
    """Height, width and channels of every image; of audio, frames, bands and 1."""
    record_shape: tuple[int, ...]
    """Shape of a decoded record: an image's, or samples."""

    def __init__(self, config: Any) -> None:
        self.config = config

    @property
    def grid(self) -> tuple[int, int]:
        """Rows and columns of patches; of audio, patches along time and along frequency."""
        (height, width, _), (p, q) = self.shape, self.config.patch_size
        return height // p, width // q

    @property
    def n_patches(self) -> int:
        """Patches of one input."""
        return math.prod(self.grid)

    @property
    def patch_width(self) -> int:
        """Numbers in a patch."""
        return math.prod(self.config.patch_size) * self.shape[2]

    @cached_property
    def normal(self) -> tuple[Tensor, Tensor]:
        """Mean and standard deviation."""
        section, mean, std = self.kind.section, self.config.mean, self.config.std
        if mean is None or std is None:
            raise ConfigError(
                f"{section}.mean and {section}.std are not set; compute them from training data by "
                f"`resolve`."
            )
        return torch.tensor(mean), torch.tensor(std)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the configuration (into a folder if `path` is one), replaced as one step.

        ConfigError: `mean` and `std` are not known.
        """
        _ = self.normal
        write_json(file_in(path, self.file), self.config.model_dump())

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Self:
        """Read the configuration (from a folder if `path` is one); DataError: damaged."""
        return load_config(path, cls.file, cls._of)

    @classmethod
    def _of(cls, values: dict[str, Any]) -> Self:
        reader = cls(cls.kind.parse(values))
        _ = reader.normal
        return reader


def load_config(
    path: str | os.PathLike[str], name: str, make: Callable[[dict[str, Any]], Made]
) -> Made:
    """Return what `make` makes of the values in a file (`name` in it, if `path` is a folder).

    DataError, also for a ConfigError of `make`: no such file, more than 2**20 bytes, no JSON
    object.
    """
    file = file_in(path, name)
    raw = read_bytes(file, LARGEST_FILE, name)
    try:
        values = json.loads(raw)
        if not isinstance(values, dict):
            raise DataError(f"{file} is not a JSON object; restore it")
        return make(values)
    except (ValueError, RecursionError) as problem:
        raise DataError(f"{file} is not JSON ({problem}); restore it") from None
    except ConfigError as problem:
        raise DataError(f"{file} is damaged: {str(problem).rstrip('.')} (restore it)") from None


def patchify(
    pixels: Shaped[Tensor, "N height width channels"], size: tuple[int, int]
) -> Shaped[Tensor, "N T P"]:
    """Cut images into patches of `size` (rows, columns), which divides them, in reading order."""
    (n, height, width, channels), (p, q) = pixels.shape, size
    rows, columns = height // p, width // q
    cut = pixels.reshape(n, rows, p, columns, q, channels).transpose(2, 3)
    return cut.reshape(n, rows * columns, p * q * channels)


def unpatchify(
    patches: Shaped[Tensor, "N T P"], size: tuple[int, int], grid: tuple[int, int]
) -> Shaped[Tensor, "N height width channels"]:
    """Put the patches of a grid of (rows, columns) together, the inverse of `patchify`."""
    (n, _, width), (p, q), (rows, columns) = patches.shape, size, grid
    channels = width // (p * q)
    laid = patches.reshape(n, rows, columns, p, q, channels).transpose(2, 3)
    return laid.reshape(n, rows * p, columns * q, channels)
