"""A picture of what is selected, drawn without a browser: all heads, one head, or the likeliest
next tokens.

    answers of the handler ──> boxes and words ──┬─> PNG (Pillow)
                                                 └─> SVG (text)

Colours are those of `pages.colours` on a light page. Where the model sees nothing, the cell is left
out.
"""

import base64
import io
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from html import escape
from typing import Any

import numpy as np
from PIL import Image, ImageDraw

from glassformer.errors import GlassformerError
from glassformer.pages import colours
from glassformer.pages.colours import INK, MARK, PAPER, SOFT
from glassformer.pages.lettering import line_image
from glassformer.serve.explorer.schema import filled
from glassformer.serve.explorer.selection import Selection, sides
from glassformer.serve.explorer.wire import Reply

LABELLED, DRAWN = 64, 640
"""Elements up to which cells are drawn one by one and have names; pixels of a larger pattern's
side."""
MARGIN, SMALL, LARGE = 24, 14, 18
THUMB, GAP = 72, 10
BARS, BAR = 10, 420
LONGEST = 18
BLANKS = {" ": "·", "\n": "⏎", "\t": "⇥"}


@dataclass(frozen=True)
class Box:
    """A rectangle in one colour, or a picture uint8 [H, W, 3] in its place."""

    x: int
    y: int
    width: int
    height: int
    colour: colours.Colour | None = None
    pixels: np.ndarray | None = None
    frame: bool = False


@dataclass(frozen=True)
class Word:
    """A line of text: its left end at x, or its right one; or its foot, if it is `upright`. y is
    its middle."""

    x: int
    y: int
    text: str
    colour: colours.Colour = INK
    size: int = SMALL
    end: bool = False
    upright: bool = False


@dataclass
class StaticImage:
    """Boxes and words on a page of that size."""

    width: int
    height: int
    boxes: list[Box] = field(default_factory=list)
    words: list[Word] = field(default_factory=list)

    def png(self) -> bytes:
        """The picture as a PNG file."""
        image = Image.new("RGB", (self.width, self.height), PAPER)
        draw = ImageDraw.Draw(image)
        for box in self.boxes:
            corner, far = (box.x, box.y), (box.x + box.width - 1, box.y + box.height - 1)
            if box.pixels is not None:
                fine = box.width >= box.pixels.shape[1] and box.height >= box.pixels.shape[0]
                way = Image.Resampling.NEAREST if fine else Image.Resampling.BOX
                image.paste(
                    Image.fromarray(box.pixels).resize((box.width, box.height), way), corner
                )
            elif box.colour is not None:
                draw.rectangle((*corner, *far), fill=box.colour)
            if box.frame:
                draw.rectangle(
                    (corner[0] - 3, corner[1] - 3, far[0] + 3, far[1] + 3), outline=MARK, width=2
                )
        for word in self.words:
            line = line_image(word.text, word.size, word.colour)
            if word.upright:
                line = line.rotate(90, expand=True)
                image.paste(line, (word.x - line.width // 2, word.y - line.height))
            else:
                image.paste(
                    line, (word.x - (line.width if word.end else 0), word.y - line.height // 2)
                )
        file = io.BytesIO()
        image.save(file, "png", optimize=True)
        return file.getvalue()

    def svg(self) -> str:
        """The picture as an SVG file; cells are rectangles, a large pattern is one embedded
        picture."""
        size = f'width="{self.width}" height="{self.height}"'
        parts = [
            f'<rect {size} fill="{colours.css(PAPER)}"/>',
            *map(_box_svg, self.boxes),
            *map(_word_svg, self.words),
        ]
        head = (
            f'<svg xmlns="http://www.w3.org/2000/svg" {size} viewBox="0 0 {self.width} '
            f'{self.height}"'
        )
        return "\n".join([f'{head} font-family="system-ui, sans-serif">', *parts, "</svg>\n"])


def _box_svg(box: Box) -> str:
    at = f'x="{box.x}" y="{box.y}" width="{box.width}" height="{box.height}"'
    drawn = "" if box.colour is None else f'<rect {at} fill="{colours.css(box.colour)}"/>'
    if box.pixels is not None:
        file = io.BytesIO()
        Image.fromarray(box.pixels).save(file, "png", optimize=True)
        address = f"data:image/png;base64,{base64.b64encode(file.getvalue()).decode()}"
        drawn = (
            f'<image {at} href="{address}" preserveAspectRatio="none" image-rendering="pixelated"/>'
        )
    mark = (
        f'<rect {at} fill="none" stroke="{colours.css(MARK)}" stroke-width="2"/>'
        if box.frame
        else ""
    )
    return drawn + mark


def _word_svg(word: Word) -> str:
    how = (
        f'font-size="{word.size}" fill="{colours.css(word.colour)}" dominant-baseline="central" '
        f'xml:space="preserve"'
    )
    place = f'x="{word.x}" y="{word.y}" text-anchor="{"end" if word.end else "start"}"'
    if word.upright:
        place = f'transform="translate({word.x} {word.y}) rotate(-90)"'
    return f"<text {place} {how}>{escape(word.text)}</text>"


def static_image(
    handle: Callable[[Any], Reply], s: Selection, card: Mapping[str, Any], looked: Mapping[str, Any]
) -> StaticImage:
    """The picture of a selection: all heads on `attention`, the next tokens on `next`, the selected
    head elsewhere."""
    kind = "cross-attention" if s["site"] == "cross" else "attention"
    if s["page"] == "attention":
        reply = handle(filled("thumbnails", s, size=THUMB))
        return _grid(
            reply.arrays["thumbnails"], s, f"{card['name']}: {kind} of all heads, layers downwards"
        )
    if s["page"] == "next":
        top = looked["outcome"]["rows"][s["position"]]["top"][:BARS]
        return _bars(top, f"{card['name']}: the likeliest next tokens")
    (queries, keys), title = (
        sides(s, looked),
        f"{card['name']}: {kind}, layer {s['layer']} head {s['head']}",
    )
    try:
        reply = handle(filled("head", s))
        pattern, mask = reply.arrays["pattern"], reply.header["mask"]
        hidden = reply.arrays["masked"] > 0 if mask == "table" else np.zeros(pattern.shape, bool)
        if mask == "causal":
            hidden = np.triu(np.ones(pattern.shape, bool), 1)
    except GlassformerError:  # too large to be sent as a whole
        reply = handle(filled("thumbnails", s, size=256))
        pattern = reply.arrays["thumbnails"][s["layer"], s["head"]]
        hidden = np.zeros(pattern.shape, bool)
    return _matrix(
        pattern, hidden, [one["label"] for one in queries], [one["label"] for one in keys], title
    )


def shades(roots: np.ndarray) -> np.ndarray:
    """The colours of √-bytes, uint8 [..., 3]."""
    table = np.array(colours.ramp(dark=False), np.uint8)
    return table[np.rint(roots.astype(np.float64) / 255 * (len(table) - 1)).astype(int)]


def _grid(thumbnails: np.ndarray, s: Selection, title: str) -> StaticImage:
    layers, heads = thumbnails.shape[:2]
    step, left, top = THUMB + GAP, MARGIN + 28, MARGIN + 56
    page = StaticImage(
        max(left + heads * step, width(title, LARGE) + MARGIN) + MARGIN,
        top + layers * step + MARGIN,
    )
    page.words.append(Word(MARGIN, MARGIN, title, size=LARGE))
    middle = (THUMB - width("0")) // 2
    page.words += [
        Word(left + head * step + middle, top - 16, str(head), SOFT) for head in range(heads)
    ]
    page.words += [
        Word(left - 12, top + layer * step + THUMB // 2, str(layer), SOFT, end=True)
        for layer in range(layers)
    ]
    for layer, head in np.ndindex(layers, heads):
        chosen = (layer, head) == (s["layer"], s["head"])
        place = left + head * step, top + layer * step
        page.boxes.append(
            Box(*place, THUMB, THUMB, pixels=shades(thumbnails[layer, head]), frame=chosen)
        )
    return page


def _matrix(
    roots: np.ndarray, hidden: np.ndarray, rows: Sequence[str], columns: Sequence[str], title: str
) -> StaticImage:
    labelled = roots.shape == (len(rows), len(columns)) and max(roots.shape) <= LABELLED
    cell = max(8, min(28, DRAWN // max(roots.shape)))
    shape = [n * cell if labelled else round(DRAWN * n / max(roots.shape)) for n in roots.shape]
    names, above = [list(map(shown, labels)) if labelled else [] for labels in (rows, columns)]
    left, top = [
        MARGIN + 12 + max((width(name) for name in own), default=0) for own in (names, above)
    ]
    top += LARGE + 16
    page = StaticImage(
        max(left + shape[1], width(title, LARGE) + MARGIN) + MARGIN, top + shape[0] + MARGIN + 20
    )
    page.words.append(Word(MARGIN, MARGIN, title, size=LARGE))
    page.words.append(
        Word(MARGIN, page.height - MARGIN, "rows ask, columns answer; a row sums to 1", SOFT)
    )
    colours = shades(roots)
    if not labelled:
        colours[hidden] = PAPER
        page.boxes.append(Box(left, top, shape[1], shape[0], pixels=colours))
        return page
    page.words += [
        Word(left - 8, top + i * cell + cell // 2, name, SOFT, end=True)
        for i, name in enumerate(names)
    ]
    page.words += [
        Word(left + j * cell + cell // 2, top - 8, name, SOFT, upright=True)
        for j, name in enumerate(above)
    ]
    for i, j in np.argwhere(~hidden):
        colour = tuple(int(part) for part in colours[i, j])
        page.boxes.append(
            Box(
                left + int(j) * cell,
                top + int(i) * cell,
                cell - 1,
                cell - 1,
                (colour[0], colour[1], colour[2]),
            )
        )
    return page


def _bars(top: Sequence[Mapping[str, Any]], title: str) -> StaticImage:
    left, row = MARGIN + 180, 30
    page = StaticImage(left + BAR + 90 + MARGIN, 2 * MARGIN + 40 + row * len(top))
    page.words.append(Word(MARGIN, MARGIN, title, size=LARGE))
    for i, one in enumerate(top):
        y, long = MARGIN + 50 + i * row, max(1, round(BAR * one["p"] / top[0]["p"]))
        page.words += [
            Word(left - 10, y, shown(one["label"]), end=True),
            Word(left + long + 8, y, f"{one['p']:.3g}", SOFT),
        ]
        page.boxes.append(Box(left, y - 9, long, 18, colours.ramp(dark=False)[-1]))
    return page


def shown(label: str) -> str:
    """A token as it is drawn: its blanks to be seen, and not too long."""
    seen = "".join(BLANKS.get(letter, letter if letter.isprintable() else "�") for letter in label)
    return seen if len(seen) <= LONGEST else f"{seen[: LONGEST - 1]}…"


def width(text: str, size: int = SMALL) -> int:
    """The pixels that a line takes."""
    return line_image(text, size, SOFT).width
