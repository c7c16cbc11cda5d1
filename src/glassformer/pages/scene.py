"""Pictures as scenes: boxes, lines and texts with places, written as SVG or drawn as PNG.

    marks ──> Scene ──┬─> svg    part of a page, light and dark
                      ├─> file   SVG file
                      └─> image  for PNG files (Pillow)

x goes to the right and y down, in pixels; a scene is as large as its marks. Colours are names of
`COLOURS`; files are for a light page.
"""

import re
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cache, lru_cache
from typing import Literal, cast

import numpy as np
from PIL import Image, ImageDraw, ImageFont

from glassformer.pages.images import palette, shade
from glassformer.pages.kit import COLOURS, Html, escape

Bounds = tuple[float, float, float, float]
"""Left, top, right and bottom."""
Corner = tuple[int, int]
MARGIN = 24
"""Pixels around the marks of a file."""
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


@dataclass(frozen=True)
class _Area:
    x: float
    y: float
    width: float
    height: float

    @property
    def bounds(self) -> Bounds:
        """Return the place of the rectangle."""
        return self.x, self.y, self.x + self.width, self.y + self.height

    @property
    def _place(self) -> str:
        return (
            f'x="{self.x:.5g}" y="{self.y:.5g}" width="{self.width:.5g}" height="{self.height:.5g}"'
        )


@dataclass(frozen=True)
class Box(_Area):
    """A rectangle of one colour, its corners round if it has a `radius`; its title is on hover."""

    fill: str
    radius: float = 0
    title: str = ""

    def svg(self) -> str:
        """Return the rectangle as an SVG element."""
        return (
            f'<rect {self._place} rx="{self.radius:.4g}" fill="var(--{self.fill})">'
            f"{_title(self.title)}</rect>"
        )

    def draw(self, image: Image.Image, corner: Corner, scale: float) -> None:
        """Draw the rectangle with its upper left corner at a pixel."""
        (x, y), colour = corner, COLOURS[self.fill][0]
        place = x, y, max(x, x + self.width * scale - 1), max(y, y + self.height * scale - 1)
        ImageDraw.Draw(image).rounded_rectangle(place, self.radius * scale, colour)


@dataclass(frozen=True)
class Shades(_Area):
    """An image of steps of the ramp, uint8 [rows, columns]; its title is on hover."""

    steps: np.ndarray
    title: str = ""

    def svg(self) -> str:
        """Return the image as an SVG element for each theme."""
        return "".join(
            f'<image class="{theme}" {self._place} href="{address}" preserveAspectRatio="none" '
            f'image-rendering="pixelated">{_title(self.title)}</image>'
            for theme, address in zip(("light", "dark"), palette(self.steps), strict=True)
        )

    def draw(self, image: Image.Image, corner: Corner, scale: float) -> None:
        """Draw the image with its upper left corner at a pixel."""
        size = round(self.width * scale), round(self.height * scale)
        shades = shade(self.steps, dark=False).convert("RGB")
        image.paste(shades.resize(size, Image.Resampling.BOX), corner)


@dataclass(frozen=True)
class Line:
    """A line through points."""

    points: Sequence[tuple[float, float]]
    colour: str
    width: float = 1
    title: str = ""

    @property
    def bounds(self) -> Bounds:
        """Return the place of the points."""
        x, y = zip(*self.points, strict=True)
        return min(x), min(y), max(x), max(y)

    def svg(self) -> str:
        """Return the line as an SVG element."""
        points = " ".join(f"{x:.1f},{y:.1f}" for x, y in self.points)
        return (
            f'<polyline points="{points}" fill="none" stroke="var(--{self.colour})" '
            f'stroke-width="{self.width}">{_title(self.title)}</polyline>'
        )

    def draw(self, image: Image.Image, corner: Corner, scale: float) -> None:
        """Draw the line with the upper left corner of its bounds at a pixel."""
        places = corner + scale * (np.array(self.points) - self.bounds[:2])
        width = max(1, round(self.width * scale))
        ImageDraw.Draw(image).line([*map(tuple, places)], COLOURS[self.colour][0], width, "curve")


@dataclass(frozen=True)
class Text:
    """A line of text; (x, y) is its middle, that of its start or end, or its foot if `upright`."""

    x: float
    y: float
    text: str
    colour: str = "soft"
    size: float = 14
    anchor: Literal["start", "middle", "end", "upright"] = "middle"

    @property
    def bounds(self) -> Bounds:
        """Return the place of the text in a font of this system."""
        width, height = text_mask(self.text, round(self.size)).size
        if self.anchor == "upright":
            return self.x - height / 2, self.y - width, self.x + height / 2, self.y
        left = self.x - width * ("start", "middle", "end").index(self.anchor) / 2
        return left, self.y - height / 2, left + width, self.y + height / 2

    def svg(self) -> str:
        """Return the text as an SVG element."""
        place = f'x="{self.x:.5g}" y="{self.y:.5g}" text-anchor="{self.anchor}"'
        if self.anchor == "upright":
            place = f'transform="translate({self.x:.5g} {self.y:.5g}) rotate(-90)"'
        return (
            f'<text {place} font-size="{self.size:.3g}" fill="var(--{self.colour})" '
            f'dominant-baseline="central">{escape(self.text)}</text>'
        )

    def draw(self, image: Image.Image, corner: Corner, scale: float) -> None:
        """Draw the text with its upper left corner at a pixel."""
        mask = text_mask(self.text, round(self.size * scale))
        mask = mask.rotate(90, expand=True) if self.anchor == "upright" else mask
        image.paste(COLOURS[self.colour][0], corner, mask)


Mark = Box | Shades | Line | Text


class Scene(list[Mark]):
    """Marks in the order in which they are drawn."""

    @property
    def bounds(self) -> Bounds:
        """Return the place of all marks."""
        left, top, right, bottom = zip(*(mark.bounds for mark in self), strict=True)
        return min(left), min(top), max(right), max(bottom)

    def svg(self, label: str, kind: str = "") -> Html:
        """Return the scene as a part of a page, which follows the page's theme."""
        left, top, right, bottom = self._view(2)
        wide, high = right - left, bottom - top
        return Html(
            f'<svg xmlns="http://www.w3.org/2000/svg" class="{kind}" width="{wide:.0f}" '
            f'height="{high:.0f}" viewBox="{left:.1f} {top:.1f} {wide:.1f} {high:.1f}" role="img" '
            f'aria-label="{escape(label)}" font-family="system-ui, sans-serif">'
            f"{''.join(mark.svg() for mark in self)}</svg>"
        )

    def file(self, label: str) -> str:
        """Return the scene as an SVG file."""
        left, top, right, bottom = self._view(MARGIN)
        paper = Box(left, top, right - left, bottom - top, "paper")
        light = re.sub('<image class="dark".*?</image>', "", Scene([paper, *self]).svg(label))
        return re.sub(r'="var\(--(\w+)\)"', lambda name: f'="{COLOURS[name[1]][0]}"', light) + "\n"

    def image(self, scale: float = 1) -> Image.Image:
        """Return the scene as an image, enlarged by `scale`."""
        left, top, right, bottom = self._view(MARGIN)
        size = round((right - left) * scale), round((bottom - top) * scale)
        image = Image.new("RGB", size, COLOURS["paper"][0])
        for mark in self:
            x, y, *_ = mark.bounds
            mark.draw(image, (round((x - left) * scale), round((y - top) * scale)), scale)
        return image

    def _view(self, margin: float) -> Bounds:
        left, top, right, bottom = self.bounds
        return left - margin, top - margin, right + margin, bottom + margin


def _title(text: str) -> str:
    return f"<title>{escape(text)}</title>" if text else ""


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
