"""Arrays as images and files inside a page, as data addresses; images as PNG files."""

import base64
import io
from pathlib import Path

import numpy as np
from PIL import Image
from PIL.PngImagePlugin import PngInfo

from glassformer.core.files import replacing
from glassformer.pages.kit import ramp, steps

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
    with replacing(path) as temporary:
        temporary.write_bytes(encode_png(image))


def encode_png(image: Image.Image) -> bytes:
    """Return an image as a PNG file that names glassformer as its software."""
    about, file = PngInfo(), io.BytesIO()
    about.add_text("Software", "glassformer")
    image.save(file, "png", optimize=True, pnginfo=about)
    return file.getvalue()


def palette(shades: np.ndarray) -> tuple[str, str]:
    """Return addresses of steps of the ramp, uint8 [H, W], a pixel for each: light and dark."""
    return _png(shade(shades, dark=False)), _png(shade(shades, dark=True))


def shade(shades: np.ndarray, *, dark: bool) -> Image.Image:
    """Return steps of the ramp, uint8 [H, W], as an image with a palette."""
    image = Image.fromarray(shades)
    image.putpalette(ramp(dark=dark).tobytes())
    return image


def brightness(spectrogram: np.ndarray) -> np.ndarray:
    """A normalized spectrogram, float [frames, mels], as values from 0 to 1, [mels, frames], low
    bands at the bottom.

    The range is two standard deviations around each band's mean.
    """
    return np.clip(spectrogram.T[::-1] / 4 + 0.5, 0, 1)


def small(values: np.ndarray) -> str:
    """Return the address of a thumbnail: of pixels uint8 [H, W, C], or of a spectrogram."""
    if values.dtype != np.uint8:
        return palette(steps(brightness(values)))[0]
    image = _image(values)
    image.thumbnail((SMALL, SMALL), Image.Resampling.BOX, reducing_gap=None)
    return _png(image)


def _image(pixels: np.ndarray) -> Image.Image:
    return Image.fromarray(pixels[..., 0] if pixels.shape[2] == 1 else pixels)


def _png(image: Image.Image) -> str:
    return address("image/png", encode_png(image))
