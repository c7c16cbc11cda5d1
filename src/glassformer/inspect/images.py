"""Arrays as pictures that stand inside a page: PNG files as addresses, as any file can be."""

import base64
import io

import numpy as np
from PIL import Image

from glassformer.inspect import ramp


def picture(pixels: np.ndarray) -> str:
    """The address of a picture, uint8 [H, W, C] with C 1 (grey), 3 or 4 (with opacity)."""
    return _png(Image.fromarray(pixels[..., 0] if pixels.shape[2] == 1 else pixels))


def shaded(values: np.ndarray, *, dark: bool) -> str:
    """The address of numbers from 0 to 1, [H, W], each in its shade of `ramp`."""
    shades = ramp.ramp(dark=dark)
    image = Image.fromarray(np.rint(np.clip(values, 0, 1) * (len(shades) - 1)).astype(np.uint8))
    image.putpalette([part for shade in shades for part in shade])
    return _png(image)


def thumbnail(pixels: np.ndarray, most: int) -> np.ndarray:
    """A picture, uint8 [H, W, C], whose sides are at most `most` pixels long."""
    height, width = pixels.shape[:2]
    if max(height, width) <= most:
        return pixels
    size = (
        max(1, round(width * most / max(height, width))),
        max(1, round(height * most / max(height, width))),
    )
    image = Image.fromarray(pixels[..., 0] if pixels.shape[2] == 1 else pixels)
    small = np.array(image.resize(size, Image.Resampling.BOX))
    return small[..., None] if small.ndim == 2 else small


def heard(spectrogram: np.ndarray) -> np.ndarray:
    """A normalized spectrogram, float [frames, mels], as numbers from 0 to 1, [mels, frames]: low
    bands at the bottom.

    Two standard deviations around each band's mean are the range.
    """
    return np.clip(spectrogram.T[::-1] / 4 + 0.5, 0, 1)


def _png(image: Image.Image) -> str:
    file = io.BytesIO()
    image.save(file, "png", optimize=True)
    return address("image/png", file.getvalue())


def address(kind: str, content: bytes) -> str:
    """The address of the content of a file of this media type."""
    return f"data:{kind};base64,{base64.b64encode(content).decode()}"
