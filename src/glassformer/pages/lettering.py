"""Lines of text as masks; a letter that no font here has is an empty box."""

from contextlib import suppress
from functools import cache, lru_cache
from typing import cast

from PIL import Image, ImageDraw, ImageFont

FONTS = (
    "DejaVuSans.ttf",
    "NotoSans-Regular.ttf",
    "NotoSansCJK-Regular.ttc",
    "segoeui.ttf",
    "YuGothR.ttc",
    "msyh.ttc",
    "Arial Unicode.ttf",
    "Hiragino Sans GB.ttc",
)
"""Fonts looked for by name, beside Pillow's own; the first with all letters of a word draws it."""


def text_mask(text: str, size: int) -> Image.Image:
    """Return a line of text, white on black."""
    seen = "".join(letter if letter.isprintable() else "�" for letter in text)
    # A font draws what it lacks as it draws a letter that no font has.
    fits = lambda font: sum(_mask(font, one) != _mask(font, "\U0010ffff") for one in set(seen))
    return _mask(max(_fonts(size), key=fits), seen)  # the first of equal ones


@cache
def _fonts(size: int) -> tuple[ImageFont.FreeTypeFont, ...]:
    """Return the fonts of FONTS on this system, and last Pillow's own, with Latin letters only."""
    found = []
    for name in FONTS:
        with suppress(OSError):
            found.append(ImageFont.truetype(name, size))
    return (*found, cast(ImageFont.FreeTypeFont, ImageFont.load_default(size)))


@lru_cache(1 << 12)
def _mask(font: ImageFont.FreeTypeFont, text: str) -> Image.Image:
    size = max(1, round(font.getlength(text))), sum(font.getmetrics())
    mask = Image.new("L", size)
    ImageDraw.Draw(mask).text((0, 0), text, 255, font=font)
    return mask
