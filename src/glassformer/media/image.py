"""Images to patches and back: resized to one size and channel count, normalized, cut.

    uint8 [H, W, C] ── fit ──> uint8 [h, w, c]
    uint8 [N, h, w, c] ── normalized ──> float ── patches ──> [N, T, P]

Everything follows from one configuration, which is saved with the model as `image.json`.
"""

from math import gcd
from typing import Literal, Self, final

import numpy as np
import torch
from PIL import Image, ImageOps
from pydantic import field_validator, model_validator

from glassformer.core.axes import Float, Tensor
from glassformer.core.errors import ConfigError, DataError
from glassformer.core.record import Record
from glassformer.media.patches import Reader, pair, patchify, unpatchify

LARGEST_SIDE = 4096
CHUNK = 1024
FILTERS = {
    "nearest": Image.Resampling.NEAREST,
    "bilinear": Image.Resampling.BILINEAR,
    "bicubic": Image.Resampling.BICUBIC,
}


class ImageConfig(Record):
    """The `processor.image` section of a recipe; resolved when size, channels, `mean` and `std` are
    known."""

    section = "processor.image"

    size: int | tuple[int, int] | None = None
    """(height, width) in pixels, or both as one; null: that of the first training image."""
    channels: Literal[1, 3] | None = None
    """1 makes colours grey, 3 repeats grey; null: those of the first training image."""
    patch: int | tuple[int, int] = 4
    """(rows, columns) of a patch, or both as one."""
    resize: Literal["stretch", "crop", "pad"] = "crop"
    """Of an image of another size: stretch it, crop what is too long (shorter side resized, centre
    cut), or pad it with black."""
    resize_to: int | tuple[int, int] | None = None
    """Size before the centre is cut to `size`: of crop, the shorter side; of stretch, (height,
    width), or both as one. null: no more than is kept."""
    interpolation: Literal["bilinear", "bicubic", "nearest"] = "bilinear"
    """Interpolation of resized images; all but nearest smooth as they shrink."""
    mean: tuple[float, ...] | None = None
    """Mean of each channel, 0 to 1, which is subtracted; null: that of the training images."""
    std: tuple[float, ...] | None = None
    """Standard deviation of each channel, a divisor; null: likewise."""
    value_range: tuple[float, float] | None = None
    """Values that are black and white in images of more than 8 bits; null: those of the training
    images, up to a power of two."""
    found_channels: Literal[1, 3] | None = None
    """Channels of the first training image, where channels is null."""

    @model_validator(mode="after")
    def _patches_fit(self) -> Self:
        p, q = self.patch_size
        if min(p, q) < 1:
            raise ValueError(f"a patch of {p} x {q} is none; use 1 or more")
        if self.size is None:
            return self
        height, width = self.dims
        if not 1 <= min(height, width) <= max(height, width) <= LARGEST_SIDE:
            raise ValueError(
                f"size {height} x {width} must be from 1 x 1 to {LARGEST_SIDE} x {LARGEST_SIDE}"
            )
        if height % p or width % q:
            side = gcd(height, width)
            divisors = [n for n in range(1, side + 1) if side % n == 0]
            raise ValueError(
                f"a patch of {p} x {q} must divide the size {height} x {width}; use "
                f"{' or '.join(map(str, sorted(divisors, key=lambda n: abs(n - p))[:2]))}, or "
                f"another size"
            )
        return self

    @model_validator(mode="after")
    def _the_centre_fits(self) -> Self:
        to = self.resize_to
        if to is None:
            return self
        if self.resize == "pad" or (self.resize == "crop" and not isinstance(to, int)):
            raise ValueError(
                f"resize_to={to} needs resize='stretch', or of one number also resize='crop'"
            )
        if self.size is None or not all(
            low <= side <= LARGEST_SIDE for low, side in zip(self.dims, pair(to), strict=True)
        ):
            raise ValueError(f"resize_to={to} must be from size={self.size} to {LARGEST_SIDE}")
        return self

    @model_validator(mode="after")
    def _normalization_fits(self) -> Self:
        if self.mean is None or self.std is None:
            if self.mean is not self.std:
                raise ValueError("mean and std belong together; set both or neither")
            return self
        counts = len(self.mean), len(self.std)
        channels = self.channels or self.found_channels or len(self.mean)
        if set(counts) != {channels} or channels not in (1, 3):
            raise ValueError(
                f"mean and std need a number for each channel, got {counts[0]} and {counts[1]}"
            )
        means, deviations = sorted(self.mean), sorted(self.std)
        if not (0 <= means[0] <= means[-1] <= 1 and 0 < deviations[0] <= deviations[-1] <= 1):
            raise ValueError(
                "mean and std are those of pixels from 0 to 1, and std is above 0; divide them by "
                "255"
            )
        return self

    @field_validator("value_range")
    @classmethod
    def _ascends(cls, value: tuple[float, float] | None) -> tuple[float, float] | None:
        if value is not None and not value[0] < value[1]:
            raise ValueError(f"black must be below white, got {value[0]:g} and {value[1]:g}")
        return value

    @property
    def patch_size(self) -> tuple[int, int]:
        """(rows, columns) of a patch."""
        return pair(self.patch)

    @property
    def dims(self) -> tuple[int, int]:
        """(height, width); ConfigError: not known yet."""
        if self.size is None:
            raise ConfigError(
                "processor.image.size is not set and no image was read; set it to (height, width)."
            )
        return pair(self.size)

    def fill_in(self, pixels: np.ndarray) -> "ImageConfig":
        """Fill in size and channels from an image [H, W, C] where they are not set.

        ConfigError: the patch does not divide it.
        """
        found = self.model_dump()
        if self.size is None:
            found["size"] = pixels.shape[:2]
        if self.channels is None and self.found_channels is None:
            found["found_channels"] = pixels.shape[2]
        return ImageConfig.parse(found)


@final
class ImageReader(Reader):
    """Resize, normalize and cut images; ConfigError: size or channels are not known."""

    kind, file = ImageConfig, "image.json"
    config: ImageConfig

    def __init__(self, config: ImageConfig) -> None:
        super().__init__(config)
        channels = config.channels or config.found_channels
        if channels is None:
            raise ConfigError(
                "processor.image.channels is not set and no image was read; set it to 1 or 3."
            )
        self.shape = self.record_shape = (*config.dims, channels)

    def fit(self, pixels: np.ndarray, where: str = "the image") -> np.ndarray:
        """Resize an image, uint8 [H, W, C], to the model's uint8 [h, w, c].

        Grey is repeated for colour models. Colour becomes grey (ITU-R 601) only if `channels` is
        set to 1, otherwise it is a DataError.
        """
        *size, wanted = self.shape
        *own, channels = pixels.shape
        if channels > wanted and self.config.channels is None:
            raise DataError(
                f"{where} has {channels} channels and the first training image {wanted}; set "
                f"processor.image.channels to 3, or to 1 to make all of them grey"
            )
        if own != size or self.config.resize_to is not None or channels > wanted:
            image = Image.fromarray(pixels[..., 0] if channels == 1 else pixels)
            pixels = np.array(self._resize(image if channels <= wanted else image.convert("L")))
            pixels = pixels[..., None] if pixels.ndim == 2 else pixels
        return np.repeat(pixels, wanted, 2) if pixels.shape[2] < wanted else pixels

    def _resize(self, image: Image.Image) -> Image.Image:
        (height, width, _), how = self.shape, FILTERS[self.config.interpolation]
        if self.config.resize_to is not None:
            return self._centre(image, how)
        if self.config.resize == "stretch":
            return image.resize((width, height), how)
        if self.config.resize == "crop":
            return ImageOps.fit(image, (width, height), how)
        scale = min(width / image.width, height / image.height)
        wide, high = (max(1, round(side * scale)) for side in image.size)
        black = Image.new(image.mode, (width, height))
        place = (width - wide) // 2, (height - high) // 2
        black.paste(image.resize((wide, high), how), place)
        return black

    def _centre(self, image: Image.Image, how: Image.Resampling) -> Image.Image:
        """The centre of the resized image; of a long strip, only what it shows is resized, which is
        the same but for rounding."""
        (height, width, _), to, wide, high = self.shape, self.config.resize_to, *image.size
        tall, broad = pair(to or (high, wide))
        if self.config.resize == "crop":
            tall, broad = tall * high // min(wide, high), broad * wide // min(wide, high)
        left, top = (broad - width) // 2, (tall - height) // 2
        if tall * broad <= LARGEST_SIDE**2:
            whole = image.resize((broad, tall), how)
            return whole.crop((left, top, left + width, top + height))
        x, y = wide / broad, high / tall
        right, bottom = min((left + width) * x, wide), min((top + height) * y, high)
        return image.resize((width, height), how, (left * x, top * y, right, bottom))

    def resolve(self, stack: np.ndarray) -> "ImageReader":
        """Fill in `mean` and `std` from training images, uint8 [N, h, w, c], unless set."""
        if self.config.mean is not None:
            return self
        mean, std = mean_std(stack)
        return ImageReader(ImageConfig.parse(self.config.model_dump() | {"mean": mean, "std": std}))

    def normalize(self, pixels: np.ndarray | Tensor) -> Float[Tensor, "N height width channels"]:
        """Return pixels, uint8 [N, h, w, c], as (pixel / 255 - mean) / std, float32.

        ConfigError: `mean` and `std` are not known.
        """
        if isinstance(pixels, np.ndarray):
            pixels = torch.from_numpy(np.require(pixels, requirements=("C", "W")))
        mean, std = (number.to(pixels.device) for number in self.normal)
        return pixels.to(torch.float32, copy=True).mul_(1 / (255.0 * std)).sub_(mean / std)

    def patches(
        self, normalized: Float[Tensor, "N height width channels"]
    ) -> Float[Tensor, "N T P"]:
        """Patches in reading order."""
        return patchify(normalized, self.config.patch_size)

    def pixels_of(self, patches: Float[Tensor, "N T P"]) -> np.ndarray:
        """Inverse of `normalize` and `patches`: images, uint8 [N, h, w, c], rounded, clipped."""
        mean, std = self.normal
        images = unpatchify(patches.detach().float().cpu(), self.config.patch_size, self.grid)
        return images.mul(std).add(mean).mul(255.0).round().clamp(0, 255).to(torch.uint8).numpy()


def mean_std(stack: np.ndarray) -> tuple[tuple[float, ...], tuple[float, ...]]:
    """Mean and standard deviation of each channel of images, uint8 [N, H, W, C], scaled to 0..1.

    Exact up to the last rounding, from sums of whole numbers. A constant channel gets the standard
    deviation 1. DataError: no pixel.
    """
    n, parts = stack[..., 0].size, [stack[i : i + CHUNK] for i in range(0, len(stack), CHUNK)]
    if n == 0:
        raise DataError(
            "there are no training images from which processor.image.mean and std could be computed"
        )
    sums = [
        [one.sum((0, 1, 2), np.int64) for one in (part, np.square(part, dtype=np.uint16))]
        for part in parts
    ]
    # whole numbers until the divisions
    moments = np.sum(sums, 0).T.tolist()
    deviations = ((n * square - total**2) ** 0.5 / (255 * n) for total, square in moments)
    return tuple(total / (255 * n) for total, _ in moments), tuple(d or 1.0 for d in deviations)
