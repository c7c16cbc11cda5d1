"""Cross-attention as a PNG on a light page: words by words large, all layers and heads small."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from PIL import Image, ImageDraw

from glassformer.files import replacing
from glassformer.pages.colours import INK, MARK, SOFT, ink, ramp, steps
from glassformer.pages.kit import cut, decimal
from glassformer.pages.lettering import blank, font_for, line_image

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
    image = blank(size[0] + 2 * MARGIN, size[1] + 2 * MARGIN)
    image.paste(words, (MARGIN, MARGIN))
    image.paste(heads, (MARGIN, MARGIN + words.height + GAP))
    with replacing(path) as temporary:
        image.save(temporary, "png")


def weight_text(weight: float) -> str:
    """Two digits, as .43; a dot below half a hundredth."""
    return "·" if weight < 0.005 else decimal(weight)


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
    image = blank(left + cell * len(columns), top + cell * len(rows))
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
    image = blank(heads * across - GAP // 2, layers * down - GAP // 2)
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
