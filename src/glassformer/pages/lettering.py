"""Lines of text as images on a light page; a letter that no font here has is an empty box."""

from functools import cache

from PIL import Image, ImageDraw, ImageFont

from glassformer.pages.colours import PAPER, Colour

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


def line_image(text: str, size: int, colour: Colour) -> Image.Image:
    """A line of text, cut tightly at its sides and as high as its font."""
    font = font_for(text, size)
    box, (up, down) = font.getbbox(text, anchor="ls"), font.getmetrics()
    image = blank(max(1, int(box[2] - box[0]) + 1), up + down)
    ImageDraw.Draw(image).text((-box[0], up), text, colour, font=font, anchor="ls")
    return image


def blank(width: int, height: int) -> Image.Image:
    """An empty page."""
    return Image.new("RGB", (width, height), PAPER)


def font_for(text: str, size: int) -> ImageFont.FreeTypeFont:
    """The font with most of the letters, the first of equal ones."""
    return max(_fonts(size), key=lambda font: sum(_has(font, letter) for letter in set(text)))


@cache
def _fonts(size: int) -> tuple[ImageFont.FreeTypeFont, ...]:
    """The fonts of FONTS on this system, and last Pillow's own, which has Latin letters only."""
    found = []
    for name in (*FONTS, None):
        try:
            font = ImageFont.truetype(name, size) if name else ImageFont.load_default(size)
        except OSError:
            continue
        found += [font] * isinstance(font, ImageFont.FreeTypeFont)
    return tuple(found)


def _has(font: ImageFont.FreeTypeFont, letter: str) -> bool:
    """Whether a font draws a letter differently from a missing one."""
    return letter.isspace() or _drawn(font, letter) != _drawn(font, "\U0010ffff")


@cache
def _drawn(font: ImageFont.FreeTypeFont, letter: str) -> bytes:
    image = Image.new("L", (2 * int(font.size), 2 * int(font.size)))
    ImageDraw.Draw(image).text((0, 0), letter, 255, font=font)
    return image.tobytes()
