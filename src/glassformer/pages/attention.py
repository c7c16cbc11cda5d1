"""Cross-attention as a page and as a PNG: words by words large, every layer and head small.

The PNG is for a light page.
"""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
from PIL import Image, ImageDraw

from glassformer.inspect.alignment import CrossAttention
from glassformer.pages import colours, kit
from glassformer.pages.colours import INK, MARK, SOFT, TICKS, ramp, step, steps
from glassformer.pages.images import palette, write_png
from glassformer.pages.kit import Html, cut, decimal, escape, spaced
from glassformer.pages.lettering import blank, font_for, line_image

SIDEWAYS, DENSE = 12, 24
"""Source words from which names stand upright, and from which cells show no numbers."""
MARGIN, GAP, CELL, SMALL, CAPTION = 48, 40, 84, 260, 40
LARGEST = 6000
"""Most pixels of a side of the image of words; its cells shrink to fit."""
LONGEST = 24
"""Most characters of a word that are drawn."""
FRAME = (225, 229, 232)
EMPTY = "There are no words to compare"


def attention_html(look: CrossAttention, title: str) -> str:
    """A page of a pair's cross-attention: words, alignment, and the pattern of every head."""
    texts = "".join(
        f"<dt>{name}</dt><dd><bdi>{escape(side.text)}</bdi></dd>"
        for name, side in (("source", look.source), ("target", look.target))
    )
    return kit.document(
        title, f'<dl class="pair">{texts}</dl>', _word_table(look), _head_grid(look)
    )


def attention_png(look: CrossAttention, path: Path) -> None:
    """Write the image of a pair's cross-attention; its ringed cells are the alignment.

    CheckpointError: the file cannot be written.
    """
    words, heads = _word_image(look), _head_image(look)
    width, height = max(words.width, heads.width), words.height + heads.height + GAP
    image = blank(width + 2 * MARGIN, height + 2 * MARGIN)
    image.paste(words, (MARGIN, MARGIN))
    image.paste(heads, (MARGIN, MARGIN + words.height + GAP))
    write_png(image, path)


def _weight(weight: float) -> str:
    """Two digits, as .43; a dot below half a hundredth."""
    return "·" if weight < 0.005 else decimal(weight)


def _shape(wide: int, high: int) -> float:
    """Ratio of the sides of a small image, between 1/2 and 2."""
    return min(2.0, max(0.5, wide / high))


def _word_table(look: CrossAttention) -> str:
    """The table of words, its legend and the alignment."""
    pairs, weights = look.align(), look.words().double().numpy()
    if not pairs:
        return f"<h2>Words</h2><p>{EMPTY}: a side of the pair is empty.</p>"
    layer = f"layer {look.best_layer}, the one before the last"
    about = (
        "Rows are target words, columns source words. A number is the share of attention that the "
        "source word got while the target word was predicted, the mean over the heads of "
        f"{layer if len(look.patterns) > 1 else 'the only layer'}. Attention to tokens of no word, "
        "such as the end of the source, is under “other”."
    )
    other = np.maximum(0, 1 - weights.sum(1, keepdims=True))
    names, numbers, rows = [*look.source.words, "other"], [], []
    for t, (word, row) in enumerate(zip(look.target.words, weights.tolist(), strict=True)):
        cells = []
        for s, (source, weight) in enumerate(zip(look.source.words, row, strict=True)):
            best = (s, t) in pairs
            title = f"{source} → {word}: {weight:.4f}{', largest of its row' * best}"
            cells.append(kit.cell(_weight(weight), step(weight), title, marked=best))
        rest = float(other[t, 0])
        rows.append((word, [*cells, f'<td class="rest">{_weight(rest)}</td>']))
        numbers.append([word, *(f"{weight:.4f}" for weight in (*row, rest))])
    kind = "side " * (len(names) > SIDEWAYS) + "dense" * (len(names) > DENSE)
    ticks = ((step(tick), f"{tick:g}") for tick in TICKS)
    digits = kit.table("Attention", ["", *names], numbers)
    aligned = " ".join(f"<span>{source}-{target}</span>" for source, target in pairs)
    return (
        f"<h2>Words</h2>{kit.paragraph(about)}"
        f"{kit.matrix('Attention between words', '', names, rows, kind)}"
        f"{kit.legend(ticks, 'share of attention', marked='largest of its row')}"
        f"{kit.folded('The numbers to four digits', digits)}"
        "<h2>Alignment</h2><p>Every target word with the source word that it attended to most, as "
        "source-target, counted from 0. Attention tells where the model looked, not what it took "
        f"from there.</p><code>{aligned}</code>"
    )


def _head_grid(look: CrossAttention) -> str:
    """Small images, one for every head of every layer, over tokens."""
    layers, heads = look.patterns.shape[:2]
    grids = "".join(
        f'<div class="grid" style="--columns:{heads}">'
        f"{''.join(_figure(look, layer, head) for head in range(heads))}</div>"
        for layer in range(layers)
    )
    source, target = (_tokens(side.pieces) for side in (look.source, look.target))
    tokens = kit.folded(
        "The tokens in their order", f"<p>target {target}</p><p>source {source}</p>"
    )
    return (
        "<h2>Every layer and head</h2><p>The same over tokens: target tokens from top to bottom, "
        "each row the prediction of its token; source tokens from left to right. Below each "
        "image stands its largest weight. The layer used above is outlined.</p>"
        f"{tokens}{grids}"
    )


def _tokens(pieces: Sequence[str]) -> str:
    return " ".join(f'<span class="token">{spaced(piece)}</span>' for piece in pieces)


def _figure(look: CrossAttention, layer: int, head: int) -> Html:
    pattern = look.patterns[layer, head].double().numpy()
    row, column = map(int, np.unravel_index(pattern.argmax(), pattern.shape))
    label = f"layer {layer} · head {head}"
    pair = f"{spaced(look.source.pieces[column])} → {spaced(look.target.pieces[row])}"
    shape = f' style="aspect-ratio:{_shape(*pattern.shape[::-1]):.3f}"'
    image = kit.image(f"Attention of {label}", *palette(steps(pattern)), shape)
    caption = Html(f"{label}<small>{pair} {_weight(pattern.max())}</small>")
    return kit.figure(caption, image, "used" if layer == look.best_layer else "")


def _word_image(look: CrossAttention) -> Image.Image:
    """The large image: target words down, source words across."""
    columns, rows = look.source.words, look.target.words
    if not rows or not columns:
        return line_image(f"{EMPTY}.", 28, SOFT)
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
    image: Image.Image, look: CrossAttention, corner: tuple[int, int], cell: int
) -> None:
    draw, shades = ImageDraw.Draw(image), ramp(dark=False)
    pad, font, pairs = cell // 28, font_for("", int(cell * 0.3)), look.align()
    for (t, s), weight in np.ndenumerate(look.words().double().numpy()):
        x, y = corner[0] + s * cell, corner[1] + t * cell
        box = (x + pad, y + pad, x + cell - 1 - pad, y + cell - 1 - pad)
        ring, shade = MARK if (s, t) in pairs else None, shades[step(weight)]
        draw.rounded_rectangle(box, cell // 9, fill=shade, outline=ring, width=max(1, cell // 16))
        if cell >= 40:
            at, ink = (x + cell / 2, y + cell / 2), colours.ink(shade)
            draw.text(at, _weight(weight), ink, font=font, anchor="mm")


def _head_image(look: CrossAttention) -> Image.Image:
    """The small images: a row for each layer, a column for each head, over tokens."""
    layers, heads, rows, columns = look.patterns.shape
    high = round(SMALL * _shape(rows, columns))
    shades = np.array(ramp(dark=False), dtype=np.uint8)
    across, down = SMALL + GAP // 2, high + CAPTION + GAP // 2
    image = blank(heads * across - GAP // 2, layers * down - GAP // 2)
    draw = ImageDraw.Draw(image)
    for layer, head in np.ndindex(layers, heads):
        x, y = head * across, layer * down
        pattern = Image.fromarray(shades[steps(look.patterns[layer, head].double().numpy())])
        way = Image.Resampling.NEAREST if columns <= SMALL else Image.Resampling.BOX
        image.paste(pattern.resize((SMALL, high), way), (x, y))
        frame = MARK if layer == look.best_layer else FRAME
        draw.rectangle((x, y, x + SMALL - 1, y + high - 1), outline=frame, width=2)
        image.paste(line_image(f"layer {layer} · head {head}", 22, SOFT), (x, y + high + 6))
    return image
