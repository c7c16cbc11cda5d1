"""`glassformer demo vision`: digits in small images, turned, faint and noisy.

Every image has its own size, place, rotation, brightness and noise, light on dark or dark on
light, so no image comes twice.
"""

from functools import cache
from pathlib import Path

import numpy as np
from numpy.random import Generator
from PIL import Image, ImageDraw, ImageFont

from glassformer.data.config import SplitName
from glassformer.data.records.pictures import pictures
from glassformer.demos.kit import Shown, counts, show_classes, write_labelled
from glassformer.run import Run

SIZE = 32
load_font = cache(ImageFont.load_default)
COUNTS = counts(6_000, 300, 2_000)
"""Images of each split."""


def write_digits(folder: Path) -> None:
    """Write each image as PNG, and a table of files and classes for each split."""
    write_labelled(folder, COUNTS, ".png", _write)


def _write(random: Generator, split: SplitName, file: Path) -> str:
    digit = str(random.integers(10))
    Image.fromarray(draw(random, digit)).save(file)
    return digit


def draw(random: Generator, digit: str) -> np.ndarray:
    """Return an image of a digit, uint8 [32, 32]."""
    image = Image.new("L", (SIZE, SIZE))
    place = tuple(random.uniform(12, 20, 2).tolist())
    font = load_font(int(random.integers(18, 27)))
    ImageDraw.Draw(image).text(place, digit, 255, font, "mm")
    turned = image.rotate(random.uniform(-30, 30), Image.Resampling.BICUBIC)
    dark, light = random.uniform(0, 0.3), random.uniform(0.6, 1)
    ground, ink = random.permutation([dark, light])
    pixels = ground + (ink - ground) * np.asarray(turned) / 255
    noisy = pixels + random.uniform(0, 0.1) * random.standard_normal((SIZE, SIZE))
    return (255 * np.clip(noisy, 0, 1)).astype(np.uint8)


def show(run: Run) -> Shown:
    """Accuracy on other images beside two baselines."""
    return show_classes(run, "image", pictures, lambda row: row.pixels())
