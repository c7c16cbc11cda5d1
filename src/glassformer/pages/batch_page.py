"""Encoded inputs of a batch as a page: images and audio in patches, sequences of elements.

image       in the file and as encoded, its patches in input order with their numbers
audio       its waveform, its spectrogram over seconds and hertz, its patches
sequence    tokens with their targets, images and audio as patches between them
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from glassformer.pages.colours import steps
from glassformer.pages.images import brightness, png, shades
from glassformer.pages.kit import Html, document, escape, figure, folded, image, paragraph, spaced
from glassformer.pages.scene import Line, Scene

MOST_PATCHES, MOST_NUMBERS = 400, 256
"""Most patches of one input that are listed, and most numbers of a patch that are printed."""
CHANNELS = {1: ("",), 3: ("red: ", "green: ", "blue: ")}

Share = tuple[str, float]
"""A class and its share of the target."""


@dataclass(frozen=True)
class EncodedImage:
    """An image, uint8 [H, W, C], as encoded; `before`: as in the file, if it differs."""

    name: str
    classes: Sequence[Share]
    pixels: np.ndarray
    before: np.ndarray | None
    patches: np.ndarray
    """float32 [T, P] in input order."""
    grid: tuple[int, int]


@dataclass(frozen=True)
class EncodedAudio:
    """Audio as encoded: samples float32 [T], samples per second, the normalized spectrogram
    [frames, mels]."""

    name: str
    classes: Sequence[Share]
    samples: np.ndarray
    rate: int
    spectrogram: np.ndarray
    ticks: Sequence[tuple[float, str]]
    """Frequencies by name, with their height from 0 to 1."""
    patches: np.ndarray
    grid: tuple[int, int]
    """Number of patches along time, and along frequency."""


@dataclass(frozen=True)
class Token:
    """A token and its target, if it bears loss."""

    text: str
    target: str | None = None


@dataclass(frozen=True)
class PatchGrid:
    """Patches in a sequence: of an image, uint8 [H, W, C], or of a normalized spectrogram [frames,
    mels]."""

    kind: str
    values: np.ndarray
    grid: tuple[int, int]


@dataclass(frozen=True)
class EncodedSequence:
    """A sequence; for an encoder-decoder, `elements` of the decoder and `source` of the encoder."""

    name: str
    elements: Sequence[Token | PatchGrid]
    source: Sequence[Token | PatchGrid] = ()


EncodedInput = EncodedImage | EncodedAudio | EncodedSequence


def batch_html(title: str, about: Iterable[str], inputs: Sequence[EncodedInput]) -> str:
    """A page of encoded inputs, after sentences about them."""
    cards = map(_card, range(1, len(inputs) + 1), inputs)
    return document(title, *map(paragraph, about), *cards)


def _card(number: int, one: EncodedInput) -> str:
    shares = style = ""
    if isinstance(one, EncodedSequence):
        body = _sequence(one)
    else:
        image = isinstance(one, EncodedImage)
        sheet = _Sheet(one.pixels if image else one.spectrogram, one.grid)
        style, body = sheet.style, _image(one, sheet) if image else _audio(one, sheet)
        shares = "".join(
            f'<span class="class"><bdi>{escape(name)}</bdi>{f" {x:.0%}" * (x <= 0.995)}</span>'
            for name, x in one.classes
            if x > 0.005
        )
    return (
        f'<section class="card encoded" style="{style}"><h2><span class="n">{number}</span> '
        f"<bdi>{escape(one.name)}</bdi></h2><p>{shares}</p>{body}</section>"
    )


class _Sheet:
    """Patches of an image or a spectrogram on the page: rows, columns, the place of each."""

    def __init__(self, values: np.ndarray, grid: tuple[int, int]) -> None:
        n = grid[0] * grid[1]
        if values.ndim == 3:
            self.rows, self.columns = grid
            self.places = [divmod(i, self.columns) for i in range(n)]
            source = f"--img:url({png(values)});--aspect:{values.shape[1]}/{values.shape[0]}"
        else:  # patches are in order of time, then from low bands up; low bands are at the bottom
            self.columns, self.rows = grid
            last = self.rows - 1
            self.places = [(last - i % self.rows, i // self.rows) for i in range(n)]
            light, dark = shades(brightness(values))
            source = f"--img:url({light});--dark:url({dark});--aspect:5/2"
        self.style = f"{source};--rows:{self.rows};--columns:{self.columns}"
        self.order = sorted(range(n), key=self.places.__getitem__)
        """Patches from the upper left in reading order."""

    def position(self, patch: int) -> str:
        """Style that shows one patch of the whole."""
        row, column = self.places[patch]
        x, y = 100 * column / max(1, self.columns - 1), 100 * row / max(1, self.rows - 1)
        return f"background-position:{x:.4g}% {y:.4g}%"

    def whole(self, label: str) -> str:
        """The whole under the grid of its patches."""
        cells = "".join(f'<i title="patch {k}"></i>' for k in self.order)
        return f'<span class="px whole" role="img" aria-label="{escape(label)}">{cells}</span>'

    def listed(self, patches: np.ndarray, shape: tuple[int, ...], axes: str, about: str) -> str:
        """The patches [T, P] in input order, each with its numbers."""
        n, of = patches.shape
        listed = ""
        for k, patch in enumerate(patches[:MOST_PATCHES]):
            row, column = self.places[k]
            summary = f'<b class="px" style="{self.position(k)}"></b><small>{k}</small>'
            numbers = f"row {row}, column {column}; {about} = {of} numbers"
            numbers += _numbers(patch.reshape(shape), axes)
            listed += folded(Html(summary), numbers)
        rest = f"<small>and {n - MOST_PATCHES:,} more</small>" if n > MOST_PATCHES else ""
        return (
            f"<div><h3>{n} patches in input order; open one to see its numbers</h3>"
            f'<div class="patches">{listed}{rest}</div></div>'
        )


def _image(one: EncodedImage, sheet: _Sheet) -> str:
    height, width, channels = one.pixels.shape
    shape = height // sheet.rows, width // sheet.columns, channels
    before = ""
    if one.before is not None:
        before = figure("in the file", image("before", png(one.before)), "before")
    caption = f"as encoded: {width} x {height} pixels, {sheet.columns} x {sheet.rows} patches"
    whole = figure(caption, sheet.whole(f"{one.name} as encoded"), "")
    about = f"{shape[0]} rows x {shape[1]} columns" + " in three channels" * (channels == 3)
    return (
        f'<div class="two"><div>{whole}{before}</div>'
        f"{sheet.listed(one.patches, shape, 'row by column', about)}</div>"
    )


def _audio(one: EncodedAudio, sheet: _Sheet) -> str:
    frames, mels = one.spectrogram.shape
    shape = frames // sheet.columns, mels // sheet.rows, 1
    seconds = len(one.samples) / one.rate
    hertz = "".join(
        f'<i style="bottom:{100 * at:.2f}%">{escape(name)}</i>' for at, name in one.ticks
    )
    clock = "".join(
        f'<i style="left:{20 * i}%">{seconds * i / 5:.3g}{" s" * (i == 5)}</i>' for i in range(6)
    )
    about = f"{shape[0]} frames x {shape[1]} bands"
    return (
        f'<div class="plot"><div></div>{_waveform(one.samples)}<div class="hertz">{hertz}</div>'
        f"{sheet.whole(f'spectrogram of {one.name}')}"
        f'<div></div><div class="clock">{clock}</div></div>'
        f"{sheet.listed(one.patches, shape, 'frame by band', about)}"
    )


def _waveform(samples: np.ndarray) -> Html:
    """Return the largest and the least sample of each of 480 stretches as one line."""
    parts = np.array_split(samples, min(480, len(samples)))
    top = max(0.05, np.abs(samples).max())
    ends = [(i, pick(part)) for i, part in enumerate(parts) for pick in (np.max, np.min)]
    line = Line([(i, -30 * end / top) for i, end in ends], "mark")
    return Scene([line]).svg(f"waveform, at most {top:.2f}", "wave")


def _sequence(one: EncodedSequence) -> str:
    bearing = sum(isinstance(e, Token) and e.target is not None for e in one.elements)
    about = f"{sum(map(_length, one.elements))} elements, {bearing} bear loss; targets are below"
    source = f"<h3>encoder</h3>{_line(one.source)}<h3>decoder</h3>" if one.source else ""
    return f"{paragraph(about, 'small')}{source}{_line(one.elements)}"


def _length(element: Token | PatchGrid) -> int:
    return 1 if isinstance(element, Token) else element.grid[0] * element.grid[1]


def _line(elements: Sequence[Token | PatchGrid]) -> str:
    shown, at = "", 0
    for element in elements:
        shown += _token(element, at) if isinstance(element, Token) else _patches(element, at)
        at += _length(element)
    return f'<div class="line">{shown}</div>'


def _token(token: Token, at: int) -> str:
    kind, target = "element", ""
    if token.target is not None:
        kind, target = "element bears", f"<b>{spaced(token.target)}</b>"
    text = f"<span>{spaced(token.text)}</span>"
    return f'<span class="{kind}" title="element {at}">{text}{target}</span>'


def _patches(part: PatchGrid, at: int) -> str:
    sheet, n = _Sheet(part.values, part.grid), _length(part)
    cells = "".join(
        f'<b class="px" style="{sheet.position(i)}" title="element {at + i}, patch {i}"></b>'
        for i in sheet.order
    )
    about = f"{escape(part.kind)}, {n} patches: elements {at} to {at + n - 1}"
    return (
        f'<span class="part" style="{sheet.style}"><span class="cells">{cells}</span>'
        f"<small>{about}</small></span>"
    )


def _numbers(values: np.ndarray, axes: str) -> Html:
    """The numbers of a patch, [p, q, C], as the model reads them: a table for each channel."""
    if values.size > MOST_NUMBERS:
        return Html(
            f"; from {values.min():.2f} to {values.max():.2f}, mean {values.mean():.2f}, too many "
            "to be printed here"
        )
    channels = zip(CHANNELS[values.shape[2]], np.moveaxis(values, 2, 0).tolist(), strict=True)
    tables = "".join(
        f"<table><caption>{name}{axes}</caption>{''.join(map(_row, channel))}</table>"
        for name, channel in channels
    )
    return Html(f'<span class="tables">{tables}</span>')


def _row(values: Sequence[float]) -> str:
    """A row of normalized numbers; the shades are two standard deviations to either side of 0."""
    cells = "".join(f'<td class="s{steps(v / 4 + 0.5)}">{v:.2f}</td>' for v in values)
    return f"<tr>{cells}</tr>"
