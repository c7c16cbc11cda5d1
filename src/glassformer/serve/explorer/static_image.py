"""An image of a selection, drawn without a browser: all heads, one head, or the likeliest next
tokens.

    answers of the handler ──> boxes and words ──┬─> PNG (Pillow)
                                                 └─> SVG (text)

Colours are those of `pages.colours` on a light page. Masked cells are left out.
"""

import io
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from html import escape
from typing import Any, Literal

import numpy as np
from PIL import Image, ImageDraw

from glassformer.errors import GlassformerError
from glassformer.pages import images
from glassformer.pages.colours import INK, MARK, PAPER, SOFT, STEPS, Colour, css, ramp
from glassformer.pages.lettering import blank, line_image
from glassformer.serve.explorer.schema import PAGES
from glassformer.serve.explorer.selection import Selection, filled, sides
from glassformer.serve.explorer.wire import Reply

LABELLED, DRAWN = 64, 640
"""Elements up to which cells are drawn one by one and named; pixels of a larger pattern's side."""
MARGIN, SMALL, LARGE = 24, 14, 18
THUMB, GAP = 72, 10
BARS, BAR, ROW = 10, 420, 30
LONGEST = 18
BLANKS = str.maketrans({" ": "·", "\n": "⏎", "\t": "⇥"})
SHADES = np.array(ramp(dark=False), np.uint8)


@dataclass(frozen=True)
class Box:
    """A rectangle of one colour, or an image uint8 [H, W, 3] in its place."""

    x: int
    y: int
    width: int
    height: int
    fill: Colour | np.ndarray
    frame: bool = False

    def svg(self) -> str:
        """The rectangle as an SVG element, and that of its frame."""
        at = f'x="{self.x}" y="{self.y}" width="{self.width}" height="{self.height}"'
        if isinstance(self.fill, tuple):
            drawn = f'<rect {at} fill="{css(self.fill)}"/>'
        else:
            drawn = (
                f'<image {at} href="{images.png(self.fill)}" preserveAspectRatio="none" '
                'image-rendering="pixelated"/>'
            )
        frame = f'<rect {at} fill="none" stroke="{css(MARK)}" stroke-width="2"/>'
        return drawn + frame if self.frame else drawn


@dataclass(frozen=True)
class Word:
    """A line of text; (x, y) is the middle of its left end, its right `end`, or its foot if it is
    `upright`."""

    x: int
    y: int
    text: str
    colour: Colour = INK
    size: int = SMALL
    anchor: Literal["start", "end", "upright"] = "start"

    def svg(self) -> str:
        """The line as an SVG element."""
        place = f'x="{self.x}" y="{self.y}" text-anchor="{self.anchor}"'
        if self.anchor == "upright":
            place = f'transform="translate({self.x} {self.y}) rotate(-90)"'
        return (
            f'<text {place} font-size="{self.size}" fill="{css(self.colour)}" '
            f'dominant-baseline="central" xml:space="preserve">{escape(self.text)}</text>'
        )


@dataclass
class StaticImage:
    """Boxes and words on a page at least as wide as its title."""

    title: str
    width: int
    height: int
    boxes: list[Box] = field(default_factory=list)
    words: list[Word] = field(default_factory=list)

    def __post_init__(self):
        self.width = max(self.width, text_width(self.title, LARGE) + MARGIN) + MARGIN
        self.words.append(Word(MARGIN, MARGIN, self.title, size=LARGE))

    def png(self) -> bytes:
        """The image as a PNG file."""
        image = blank(self.width, self.height)
        draw = ImageDraw.Draw(image)
        for box in self.boxes:
            x, y = box.x + box.width - 1, box.y + box.height - 1
            if isinstance(box.fill, tuple):
                draw.rectangle((box.x, box.y, x, y), fill=box.fill)
            else:
                rows, columns, _ = box.fill.shape
                larger = box.width >= columns and box.height >= rows
                way = Image.Resampling.NEAREST if larger else Image.Resampling.BOX
                scaled = Image.fromarray(box.fill).resize((box.width, box.height), way)
                image.paste(scaled, (box.x, box.y))
            if box.frame:
                draw.rectangle((box.x - 3, box.y - 3, x + 3, y + 3), outline=MARK, width=2)
        for word in self.words:
            line = line_image(word.text, word.size, word.colour)
            place = word.x - (line.width if word.anchor == "end" else 0), word.y - line.height // 2
            if word.anchor == "upright":
                line = line.rotate(90, expand=True)
                place = word.x - line.width // 2, word.y - line.height
            image.paste(line, place)
        file = io.BytesIO()
        image.save(file, "png", optimize=True)
        return file.getvalue()

    def svg(self) -> str:
        """The image as an SVG file; cells are rectangles, a large pattern is an embedded image."""
        size = f'width="{self.width}" height="{self.height}"'
        head = (
            f'<svg xmlns="http://www.w3.org/2000/svg" {size} viewBox="0 0 {self.width} '
            f'{self.height}" font-family="system-ui, sans-serif">'
        )
        parts = [one.svg() for one in (*self.boxes, *self.words)]
        return "\n".join([head, f'<rect {size} fill="{css(PAPER)}"/>', *parts, "</svg>\n"])


def static_image(
    handle: Callable[[Any], Reply], s: Selection, card: Mapping[str, Any], looked: Mapping[str, Any]
) -> StaticImage:
    """The image that the selected page has in the schema: all heads, the likeliest outcomes, or the
    selected head."""
    drawing, name = PAGES[s["page"]].get("drawing"), card["name"]
    kind = "cross-attention" if s["site"] == "cross" else "attention"
    if drawing == "heads":
        reply = handle(filled("thumbnails", s, size=THUMB))
        title = f"{name}: {kind} of all heads, layers downwards"
        return _grid(reply.arrays["thumbnails"], (s["layer"], s["head"]), title)
    if drawing == "outcomes":
        top = looked["outcome"]["rows"][s["position"]]["top"][:BARS]
        return _bars(top, f"{name}: the likeliest next tokens")
    try:
        reply = handle(filled("head", s))
        roots, causal = reply.arrays["pattern"], reply.header["mask"] == "causal"
        hidden = reply.arrays.get("masked", np.triu(np.full(roots.shape, causal), 1)) > 0
    except GlassformerError:  # too large to be sent as a whole
        reply = handle(filled("thumbnails", s, size=256))
        roots = reply.arrays["thumbnails"][s["layer"], s["head"]]
        hidden = np.zeros(roots.shape, bool)
    labels = [[shown(one["label"]) for one in side] for side in sides(s, looked)]
    return _matrix(roots, hidden, labels, f"{name}: {kind}, layer {s['layer']} head {s['head']}")


def shades(roots: np.ndarray) -> np.ndarray:
    """The colours of √-bytes, uint8 [..., 3]."""
    return SHADES[np.rint(roots / 255 * (STEPS - 1)).astype(int)]


def _grid(thumbnails: np.ndarray, selected: tuple[int, int], title: str) -> StaticImage:
    (layers, heads), step = thumbnails.shape[:2], THUMB + GAP
    left, top, middle = MARGIN + 28, MARGIN + 56, (THUMB - text_width("0")) // 2
    page = StaticImage(title, left + heads * step, top + layers * step + MARGIN)
    for head in range(heads):
        page.words.append(Word(left + head * step + middle, top - 16, str(head), SOFT))
    for layer in range(layers):
        y = top + layer * step + THUMB // 2
        page.words.append(Word(left - 12, y, str(layer), SOFT, anchor="end"))
    for layer, head in np.ndindex(layers, heads):
        x, y, pixels = left + head * step, top + layer * step, shades(thumbnails[layer, head])
        page.boxes.append(Box(x, y, THUMB, THUMB, pixels, (layer, head) == selected))
    return page


def _matrix(
    roots: np.ndarray, hidden: np.ndarray, labels: Sequence[Sequence[str]], title: str
) -> StaticImage:
    longest, pixels = max(roots.shape), shades(roots)
    labelled = roots.shape == tuple(map(len, labels)) and longest <= LABELLED
    cell = max(8, min(28, DRAWN // longest)) if labelled else DRAWN / longest
    height, width = (round(n * cell) for n in roots.shape)
    rows, columns = labels if labelled else ([], [])
    left, top = (MARGIN + 12 + max(map(text_width, names), default=0) for names in (rows, columns))
    top += LARGE + 16
    page = StaticImage(title, left + width, top + height + MARGIN + 20)
    note = "rows: queries; columns: keys; each row sums to 1"
    page.words.append(Word(MARGIN, page.height - MARGIN, note, SOFT))
    if not labelled:
        pixels[hidden] = PAPER
        page.boxes.append(Box(left, top, width, height, pixels))
        return page
    size = round(cell)
    for i, name in enumerate(rows):
        page.words.append(Word(left - 8, top + i * size + size // 2, name, SOFT, anchor="end"))
    for j, name in enumerate(columns):
        x = left + j * size + size // 2
        page.words.append(Word(x, top - 8, name, SOFT, anchor="upright"))
    for i, j in np.argwhere(~hidden).tolist():
        colour = tuple(pixels[i, j].tolist())
        page.boxes.append(Box(left + j * size, top + i * size, size - 1, size - 1, colour))
    return page


def _bars(top: Sequence[Mapping[str, Any]], title: str) -> StaticImage:
    left = MARGIN + 180
    page = StaticImage(title, left + BAR + 90, 2 * MARGIN + 40 + ROW * len(top))
    for i, one in enumerate(top):
        y, long = MARGIN + 50 + i * ROW, max(1, round(BAR * one["p"] / top[0]["p"]))
        page.words += [
            Word(left - 10, y, shown(one["label"]), anchor="end"),
            Word(left + long + 8, y, f"{one['p']:.3g}", SOFT),
        ]
        page.boxes.append(Box(left, y - 9, long, 18, ramp(dark=False)[-1]))
    return page


def shown(label: str) -> str:
    """A token as it is drawn: with visible blanks, and cut if it is long."""
    seen = "".join(letter if letter.isprintable() else "�" for letter in label.translate(BLANKS))
    return seen if len(seen) <= LONGEST else f"{seen[: LONGEST - 1]}…"


def text_width(text: str, size: int = SMALL) -> int:
    """The pixels that a line takes."""
    return line_image(text, size, SOFT).width
