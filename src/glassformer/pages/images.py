"""Arrays as images and files inside a page, as data addresses; images as PNG files."""

import base64
import io
from pathlib import Path

import numpy as np
from PIL import Image
from PIL.PngImagePlugin import PngInfo

from glassformer.files import replacing
from glassformer.pages import colours

SMALL = 96
"""Pixels of the longer side of a small image."""


def address(media_type: str, content: bytes) -> str:
    """Data address of a file's content."""
    return f"data:{media_type};base64,{base64.b64encode(content).decode()}"


def png(pixels: np.ndarray) -> str:
    """Address of an image, uint8 [H, W, C] with C 1 (grey), 3 or 4 (with opacity)."""
    return _png(_image(pixels))


def write_png(image: Image.Image, path: Path) -> None:
    """Write a PNG file that names glassformer as its software; CheckpointError: it cannot be."""
    about = PngInfo()
    about.add_text("Software", "glassformer")
    with replacing(path) as temporary:
        image.save(temporary, "png", pnginfo=about)


def shades(values: np.ndarray) -> tuple[str, str]:
    """Addresses of values from 0 to 1, [H, W], on a linear scale of the ramp: light and dark."""
    return palette(np.rint(np.clip(values, 0, 1) * (colours.STEPS - 1)).astype(np.uint8))


def palette(steps: np.ndarray) -> tuple[str, str]:
    """Addresses of steps of the ramp, uint8 [H, W], one pixel for each: light and dark."""
    image, found = Image.fromarray(steps), []
    for dark in (False, True):
        image.putpalette([part for shade in colours.ramp(dark=dark) for part in shade])
        found.append(_png(image))
    return found[0], found[1]


def thumbnail(pixels: np.ndarray, most: int) -> np.ndarray:
    """An image, uint8 [H, W, C], with sides of at most `most` pixels."""
    image = _image(pixels)
    image.thumbnail((most, most), Image.Resampling.BOX, reducing_gap=None)
    return np.array(image).reshape(image.height, image.width, -1)


def brightness(spectrogram: np.ndarray) -> np.ndarray:
    """A normalized spectrogram, float [frames, mels], as values from 0 to 1, [mels, frames], low
    bands at the bottom.

    The range is two standard deviations around each band's mean.
    """
    return np.clip(spectrogram.T[::-1] / 4 + 0.5, 0, 1)


def small(values: np.ndarray) -> str:
    """Address of a thumbnail: of pixels uint8 [H, W, C], or of a spectrogram [frames, mels]."""
    if values.dtype == np.uint8:
        return png(thumbnail(values, SMALL))
    return shades(brightness(values))[0]


def _image(pixels: np.ndarray) -> Image.Image:
    return Image.fromarray(pixels[..., 0] if pixels.shape[2] == 1 else pixels)


def _png(image: Image.Image) -> str:
    file = io.BytesIO()
    image.save(file, "png", optimize=True)
    return address("image/png", file.getvalue())
