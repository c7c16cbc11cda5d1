"""Cross-attention as a PNG on a light page: words by words in large, every layer and head in small.

Letters that no font of this system has are drawn as an empty box.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import numpy as np
from PIL import Image, ImageDraw, ImageFont

from glassformer.files import replacing
from glassformer.pages.colours import INK, MARK, PAPER, SOFT, Colour, ink, ramp, steps
from glassformer.pages.kit import cut, decimal

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
MARGIN, GAP, CELL, SMALL, CAPTION = 48, 40, 84, 260, 40
LARGEST = 6000
"""Most pixels of a side of the large picture; its cells shrink to fit."""
LONGEST = 24
"""Most characters of a word that are drawn."""
FRAME = (225, 229, 232)


@dataclass(frozen=True)
class PairAttention:
    """Cross-attention of a pair; texts, words and tokens are those of the source and the target."""

    texts: tuple[str, str]
    words: tuple[Sequence[str], Sequence[str]]
    tokens: tuple[Sequence[str], Sequence[str]]
    weights: np.ndarray
    """Attention between words, [target words, source words]."""
    aligned: Sequence[tuple[int, int]]
    """Pairs (source word, target word)."""
    patterns: np.ndarray
    """Attention between tokens, [L, H, T, S]."""
    layer: int
    """Layer of `weights`."""


def attention_png(look: PairAttention, path: Path) -> None:
    """Write the picture of a pair's cross-attention; its ringed cells are the alignment.

    CheckpointError: the file cannot be written.
    """
    words, heads = _words(look), _heads(look)
    size = max(words.width, heads.width), words.height + heads.height + GAP
    image = _blank(size[0] + 2 * MARGIN, size[1] + 2 * MARGIN)
    image.paste(words, (MARGIN, MARGIN))
    image.paste(heads, (MARGIN, MARGIN + words.height + GAP))
    with replacing(path) as temporary:
        image.save(temporary, "png")


def weight_text(weight: float) -> str:
    """Two digits, as .43; a dot below half a hundredth."""
    return "·" if weight < 0.005 else decimal(weight)


def line_image(text: str, size: int, colour: Colour) -> Image.Image:
    """A line of text, cut tightly at its sides and as high as its font."""
    font = font_for(text, size)
    box, (up, down) = font.getbbox(text, anchor="ls"), font.getmetrics()
    image = _blank(max(1, int(box[2] - box[0]) + 1), up + down)
    ImageDraw.Draw(image).text((-box[0], up), text, colour, font=font, anchor="ls")
    return image


def font_for(text: str, size: int) -> ImageFont.FreeTypeFont:
    """The font with most of the letters, the first of equal ones."""
    return max(_fonts(size), key=lambda font: sum(_has(font, letter) for letter in set(text)))


def _words(look: PairAttention) -> Image.Image:
    """The large picture: target words down, source words across."""
    columns, rows = look.words
    if not rows or not columns:
        return line_image("There are no words to compare.", 28, SOFT)
    cell = max(4, min(CELL, LARGEST // max(len(rows), len(columns))))
    size = max(9, min(28, int(cell * 0.42)))
    down, across = (
        [line_image(cut(word, LONGEST - 1), size, INK) for word in words]
        for words in (rows, columns)
    )
    if max(name.width for name in across) > cell - 8:
        across = [name.rotate(90, expand=True) for name in across]
    left, top = max(name.width for name in down) + 16, max(name.height for name in across) + 16
    image = _blank(left + cell * len(columns), top + cell * len(rows))
    for t, name in enumerate(down):
        image.paste(name, (left - 16 - name.width, top + t * cell + (cell - name.height) // 2))
    for s, name in enumerate(across):
        image.paste(name, (left + s * cell + (cell - name.width) // 2, top - 12 - name.height))
    _draw_cells(image, look, (left, top), cell)
    return image


def _draw_cells(
    image: Image.Image, look: PairAttention, corner: tuple[int, int], cell: int
) -> None:
    draw, shades = ImageDraw.Draw(image), ramp(dark=False)
    pad, font, aligned = cell // 28, font_for("", int(cell * 0.3)), set(look.aligned)
    for (t, s), step in np.ndenumerate(steps(look.weights)):
        x, y = corner[0] + s * cell, corner[1] + t * cell
        box = (x + pad, y + pad, x + cell - 1 - pad, y + cell - 1 - pad)
        ring, shade = MARK if (s, t) in aligned else None, shades[step]
        draw.rounded_rectangle(box, cell // 9, fill=shade, outline=ring, width=max(1, cell // 16))
        if cell >= 40:
            middle = x + cell / 2, y + cell / 2
            draw.text(
                middle, weight_text(float(look.weights[t, s])), ink(shade), font=font, anchor="mm"
            )


def _heads(look: PairAttention) -> Image.Image:
    """The small pictures: a row for each layer, a column for each head, over tokens."""
    layers, heads, rows, columns = look.patterns.shape
    high = round(SMALL * min(2.0, max(0.5, rows / columns)))
    shades = np.array(ramp(dark=False), dtype=np.uint8)
    across, down = SMALL + GAP // 2, high + CAPTION + GAP // 2
    image = _blank(heads * across - GAP // 2, layers * down - GAP // 2)
    draw = ImageDraw.Draw(image)
    for layer, head in np.ndindex(layers, heads):
        x, y = head * across, layer * down
        pattern = Image.fromarray(shades[steps(look.patterns[layer, head])])
        way = Image.Resampling.NEAREST if columns <= SMALL else Image.Resampling.BOX
        image.paste(pattern.resize((SMALL, high), way), (x, y))
        frame = MARK if layer == look.layer else FRAME
        draw.rectangle((x, y, x + SMALL - 1, y + high - 1), outline=frame, width=2)
        image.paste(line_image(f"layer {layer} · head {head}", 22, SOFT), (x, y + high + 6))
    return image


def _blank(width: int, height: int) -> Image.Image:
    return Image.new("RGB", (width, height), PAPER)


@cache
def _fonts(size: int) -> tuple[ImageFont.FreeTypeFont, ...]:
    """The fonts of FONTS on this system, and last Pillow's own, which has Latin letters only."""
    found = []
    for name in FONTS:
        try:
            found.append(ImageFont.truetype(name, size))
        except OSError:
            continue
    own = ImageFont.load_default(size)
    return (*found, own) if isinstance(own, ImageFont.FreeTypeFont) else tuple(found)


def _has(font: ImageFont.FreeTypeFont, letter: str) -> bool:
    """Whether a font draws a letter differently from a missing one."""
    return letter.isspace() or _drawn(font, letter) != _drawn(font, "\U0010ffff")


@cache
def _drawn(font: ImageFont.FreeTypeFont, letter: str) -> bytes:
    image = Image.new("L", (2 * int(font.size), 2 * int(font.size)))
    ImageDraw.Draw(image).text((0, 0), letter, 255, font=font)
    return image.tobytes()
