"""Cross-attention as a PNG: words by words in large, every layer and head in small, on a light
page.

Letters that no font here has come out as its empty box.
"""

from functools import cache
from pathlib import Path

import numpy as np
from PIL import Image, ImageDraw, ImageFont

from glassformer.files import replacing
from glassformer.inspect import ramp
from glassformer.inspect.alignment import CrossAttention

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
"""What is looked for by name, beside Pillow's own font; the first that has all letters of a word
draws it."""

MARGIN, GAP, CELL, SMALL, CAPTION = 48, 40, 84, 260, 40
LARGEST = 6000
"""The large picture's cells shrink so that neither side has more pixels than this."""
LONGEST = 24
"""Of a longer word only so many characters are drawn."""
INK, SOFT, PAPER, MARK = (29, 35, 39), (91, 101, 109), (253, 253, 252), (179, 71, 0)
"""The colours of text, captions, page and aligned cells: those of the HTML page in light."""


def attention_png(look: CrossAttention, path: Path) -> None:
    """Draw a pair's cross-attention into a file, which is whole or not there: the picture of
    `attention_html`.

    The ringed cells are those of `CrossAttention.align()`. CheckpointError: the file cannot be
    written.
    """
    words, heads = _words(look), _heads(look)
    width = max(words.width, heads.width)
    image = Image.new(
        "RGB", (width + 2 * MARGIN, words.height + heads.height + 2 * MARGIN + GAP), PAPER
    )
    image.paste(words, (MARGIN, MARGIN))
    image.paste(heads, (MARGIN, MARGIN + words.height + GAP))
    with replacing(path) as temporary:
        image.save(temporary, "png")


def _words(look: CrossAttention) -> Image.Image:
    """The large picture: target words down, source words across."""
    rows, columns = look.target.words, look.source.words
    if not rows or not columns:
        return line_image("There are no words to compare.", 28, SOFT)
    cell = max(4, min(CELL, LARGEST // max(len(rows), len(columns))))
    size = max(9, min(28, int(cell * 0.42)))
    down, across = (
        [line_image(_cut(word), size, INK) for word in words] for words in (rows, columns)
    )
    if upright := max(name.width for name in across) > cell - 8:
        across = [name.rotate(90, expand=True) for name in across]
    left, top = max(name.width for name in down) + 16, max(name.height for name in across) + 16
    image = Image.new("RGB", (left + cell * len(columns), top + cell * len(rows)), PAPER)
    for t, name in enumerate(down):
        image.paste(name, (left - 16 - name.width, top + t * cell + (cell - name.height) // 2))
    for s, name in enumerate(across):
        image.paste(
            name,
            (
                left + s * cell + (cell - name.width) // 2,
                top - (12 if upright else 8) - name.height,
            ),
        )
    _draw_cells(image, look, (left, top), cell)
    return image


def _draw_cells(
    image: Image.Image, look: CrossAttention, corner: tuple[int, int], cell: int
) -> None:
    draw, shades, weights = (
        ImageDraw.Draw(image),
        ramp.ramp(dark=False),
        look.words().double().numpy(),
    )
    pad, best = max(0, cell // 28), {(t, s) for s, t in look.align()}
    for (t, s), step in np.ndenumerate(ramp.steps(weights)):
        x, y = corner[0] + s * cell, corner[1] + t * cell
        box = (x + pad, y + pad, x + cell - 1 - pad, y + cell - 1 - pad)
        ring = MARK if (t, s) in best else None
        draw.rounded_rectangle(
            box, cell // 9, fill=shades[step], outline=ring, width=max(1, cell // 16)
        )
        if cell >= 40:
            text, middle = number(float(weights[t, s])), (x + cell / 2, y + cell / 2)
            draw.text(
                middle,
                text,
                ramp.ink(shades[step]),
                font=font_for("", int(cell * 0.3)),
                anchor="mm",
            )


def _heads(look: CrossAttention) -> Image.Image:
    """The small pictures: a row for each layer, a column for each head, over tokens."""
    layers, heads, rows, columns = look.patterns.shape
    ratio = min(2.0, max(0.5, rows / columns))
    high, shades = round(SMALL * ratio), np.array(ramp.ramp(dark=False), dtype=np.uint8)
    step = (SMALL + GAP // 2, high + CAPTION + GAP // 2)
    image = Image.new("RGB", (heads * step[0] - GAP // 2, layers * step[1] - GAP // 2), PAPER)
    for layer, head in np.ndindex(layers, heads):
        x, y = head * step[0], layer * step[1]
        pattern = Image.fromarray(shades[ramp.steps(look.patterns[layer, head].double().numpy())])
        way = Image.Resampling.NEAREST if columns <= SMALL else Image.Resampling.BOX
        image.paste(pattern.resize((SMALL, high), way), (x, y))
        frame = MARK if layer == look.best_layer else (225, 229, 232)
        ImageDraw.Draw(image).rectangle((x, y, x + SMALL - 1, y + high - 1), outline=frame, width=2)
        image.paste(line_image(f"layer {layer} · head {head}", 22, SOFT), (x, y + high + 6))
    return image


def line_image(text: str, size: int, colour: ramp.Colour) -> Image.Image:
    """A line of text, cut tightly at its sides and as high as its font is."""
    font = font_for(text, size)
    box, (up, down) = font.getbbox(text, anchor="ls"), font.getmetrics()
    image = Image.new("RGB", (max(1, int(box[2] - box[0]) + 1), up + down), PAPER)
    ImageDraw.Draw(image).text((-box[0], up), text, colour, font=font, anchor="ls")
    return image


def number(weight: float) -> str:
    """Two digits, as .43; a dot for less than that."""
    return "·" if weight < 0.005 else f"{weight:.2f}".removeprefix("0")


def _cut(word: str) -> str:
    return word if len(word) <= LONGEST else f"{word[: LONGEST - 1]}…"


def font_for(text: str, size: int) -> ImageFont.FreeTypeFont:
    """The font that has most of the letters, the first of equal ones."""
    return max(_fonts(size), key=lambda font: sum(_has(font, letter) for letter in set(text)))


@cache
def _fonts(size: int) -> tuple[ImageFont.FreeTypeFont, ...]:
    """The fonts of FONTS that this system has; Pillow's own, which has Latin letters alone, comes
    last."""
    found = []
    for name in FONTS:
        try:
            found.append(ImageFont.truetype(name, size))
        except OSError:
            continue
    own = ImageFont.load_default(size)
    return (*found, own) if isinstance(own, ImageFont.FreeTypeFont) else tuple(found)


def _has(font: ImageFont.FreeTypeFont, letter: str) -> bool:
    """Whether the font draws the letter otherwise than what it has no picture of."""
    return letter.isspace() or _drawn(font, letter) != _drawn(font, "\U0010ffff")


@cache
def _drawn(font: ImageFont.FreeTypeFont, letter: str) -> bytes:
    image = Image.new("L", (2 * int(font.size), 2 * int(font.size)))
    ImageDraw.Draw(image).text((0, 0), letter, 255, font=font)
    return image.tobytes()
