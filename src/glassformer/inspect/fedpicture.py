"""What a model is fed, as one readable HTML page: pictures and sounds cut into patches, sequences
of parts.

    a picture    as it is in the file and as it is fed, its patches in the order in which they enter, their numbers
    a sound      its waveform, its spectrogram over seconds and hertz, the same of its patches
    a sequence   tokens as chips, pictures as patches between them, what is to be said at each element

Nothing is loaded from anywhere and nothing is scripted: a patch is pointed at, or reached by Tab.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from itertools import pairwise

import numpy as np

from glassformer.inspect import images, ramp
from glassformer.inspect.fedstyle import STYLE
from glassformer.inspect.picture import STYLE as PAGE

MOST_PATCHES, MOST_NUMBERS = 400, 256
"""The most patches of one picture that are listed, and the most numbers of one that are written
out."""
CHANNELS = {1: ("",), 3: ("red", "green", "blue")}

Share = tuple[str, float]
"""A class and how much of it a picture is."""


@dataclass(frozen=True)
class FedPicture:
    """A picture, uint8 [H, W, C], as it is fed; `before`: as it is in the file, if that is
    something else."""

    name: str
    classes: Sequence[Share]
    pixels: np.ndarray
    before: np.ndarray | None
    patches: np.ndarray
    """float32 [T, P] in the order in which they enter."""
    grid: tuple[int, int]


@dataclass(frozen=True)
class FedSound:
    """A sound as it is fed: samples float32 [T], their number a second, the normalized spectrogram
    [frames, mels]."""

    name: str
    classes: Sequence[Share]
    samples: np.ndarray
    rate: int
    spectrogram: np.ndarray
    ticks: Sequence[tuple[float, str]]
    """Frequencies by name, and how high each lies, from 0 to 1."""
    patches: np.ndarray
    grid: tuple[int, int]
    """How many patches there are along time, and along frequency."""


@dataclass(frozen=True)
class Chip:
    """A token, and what is to be said at it, if anything is."""

    text: str
    target: str | None = None


@dataclass(frozen=True)
class Cut:
    """The patches of one picture, uint8 [H, W, C], or of a normalized spectrogram [frames, mels],
    in a sequence."""

    kind: str
    values: np.ndarray
    grid: tuple[int, int]


@dataclass(frozen=True)
class FedSequence:
    """A sequence; of an encoder-decoder, what the decoder reads, and the `source` that the encoder
    does."""

    name: str
    elements: Sequence[Chip | Cut]
    source: Sequence[Chip | Cut] = ()


Fed = FedPicture | FedSound | FedSequence


def fed_html(title: str, about: Sequence[str], fed: Sequence[Fed]) -> str:
    """A self-contained HTML document of what is fed; `about` are sentences that stand before it."""
    most = max(
        (min(len(one.patches), MOST_PATCHES) for one in fed if not isinstance(one, FedSequence)),
        default=0,
    )
    head = (
        f'<!doctype html><html lang="en"><head><meta charset="utf-8"><title>{escape(title)}</title>'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<style>{PAGE}{STYLE}{_shades()}{_pointing(most)}</style></head>"
    )
    said = "".join(f"<p>{escape(sentence)}</p>" for sentence in about)
    cards = "".join(_card(number, one) for number, one in enumerate(fed, 1))
    return f"{head}<body><main><h1>{escape(title)}</h1>{said}{cards}</main></body></html>\n"


def _card(number: int, one: Fed) -> str:
    match one:
        case FedPicture():
            return _picture(number, one)
        case FedSound():
            return _sound(number, one)
        case FedSequence():
            return _sequence(number, one)


def _picture(number: int, one: FedPicture) -> str:
    height, width, channels = one.pixels.shape
    rows, columns = one.grid
    size = height // rows, width // columns
    before = ""
    if one.before is not None:
        small = f'<span class="px whole" style="--img:url({images.picture(one.before)})" role="img"'
        before = (
            f'<figure class="before">{small} aria-label="before"></span><figcaption>in '
            f"the file</figcaption></figure>"
        )
    caption = f"as it is fed: {width} x {height} pixels, {columns} x {rows} patches"
    whole = f"<figure>{_whole(one.grid, f'{one.name} as it is fed')}<figcaption>{caption}</figcaption></figure>"
    kinds = {1: "", 3: " in three channels"}[channels]
    about = f"{size[0]} rows x {size[1]} columns{kinds} = {one.patches.shape[1]} numbers"
    numbers = [
        _table(patch.reshape(*size, channels), ("row", "column"))
        for patch in one.patches[:MOST_PATCHES]
    ]
    places = [divmod(i, columns) for i in range(len(numbers))]
    style = f"--img:url({images.picture(one.pixels)});--rows:{rows};--columns:{columns};--aspect:{width}/{height}"
    return (
        f'<section class="fed" style="{style}">{_head(number, one.name, one.classes)}'
        f'<div class="two"><div class="wholes">{whole}{before}</div>'
        f"{_listed(places, one.grid, numbers, about, len(one.patches), size[1] / size[0])}</div></section>"
    )


def _sound(number: int, one: FedSound) -> str:
    times, bands = one.grid
    frames, mels = one.spectrogram.shape
    size, seconds = (frames // times, mels // bands), len(one.samples) / one.rate
    values = images.heard(one.spectrogram)
    light, dark = (images.shaded(values, dark=dark) for dark in (False, True))
    hertz = "".join(
        f'<i style="bottom:{100 * at:.2f}%"><b>{escape(name)}</b></i>' for at, name in one.ticks
    )
    marks = [seconds * i / 5 for i in range(6)]
    clock = "".join(
        f'<i style="left:{20 * i}%"><b>{mark:.3g}{" s" if i == 5 else ""}</b></i>'
        for i, mark in enumerate(marks)
    )
    # patches enter time by time, low bands first; the picture has low bands at the bottom
    places = [
        (bands - 1 - i % bands, i // bands) for i in range(min(len(one.patches), MOST_PATCHES))
    ]
    numbers = [
        _table(patch.reshape(*size, 1), ("frame", "band")) for patch in one.patches[:MOST_PATCHES]
    ]
    about = f"{size[0]} frames x {size[1]} bands = {one.patches.shape[1]} numbers"
    style = f"--img:url({light});--dark:url({dark});--rows:{bands};--columns:{times};--aspect:5/2"
    order = [bands * column + (bands - 1 - row) for row in range(bands) for column in range(times)]
    return (
        f'<section class="fed sound" style="{style}">{_head(number, one.name, one.classes)}'
        f'<div class="plot"><div class="hertz"></div>{_waveform(one.samples)}</div>'
        f'<div class="plot"><div class="hertz">{hertz}</div>'
        f"{_whole((bands, times), f'spectrogram of {one.name}', order)}"
        f'<div></div><div class="clock">{clock}</div></div>'
        f"{_listed(places, (bands, times), numbers, about, len(one.patches), size[0] / size[1] * mels / frames * 2.5)}"
        "</section>"
    )


def _waveform(samples: np.ndarray) -> str:
    """The least and the largest sample of each of 480 stretches, as one area."""
    n, width = len(samples), 480
    edges = np.linspace(0, n, min(width, n) + 1).astype(int)
    high, low = (
        np.array([pick(samples[a:b]) for a, b in pairwise(edges)]) for pick in (np.max, np.min)
    )
    top = max(0.05, float(np.abs(samples).max()))
    x = np.linspace(0, width, len(high))
    points = [*zip(x, high, strict=True), *zip(x[::-1], low[::-1], strict=True)]
    drawn = " ".join(f"{a:.1f},{32 - 30 * b / top:.1f}" for a, b in points)
    label = f"waveform, at most {top:.2f}"
    return (
        f'<svg class="wave" viewBox="0 0 {width} 64" preserveAspectRatio="none" role="img" '
        f'aria-label="{label}">'
        f'<polygon points="{drawn}"/></svg>'
    )


def _sequence(number: int, one: FedSequence) -> str:
    bearing = sum(isinstance(e, Chip) and e.target is not None for e in one.elements)
    count = sum(1 if isinstance(e, Chip) else e.grid[0] * e.grid[1] for e in one.elements)
    said = f"{count} elements, {bearing} bear loss"
    source = (
        f"<h3>what the encoder reads</h3>{_line(one.source)}<h3>what the decoder reads</h3>"
        if one.source
        else ""
    )
    return (
        f'<section class="fed">{_head(number, one.name, ())}<p class="small">{said}; below a '
        f"token in colour stands "
        f"what is to be said there</p>{source}{_line(one.elements)}</section>"
    )


def _line(elements: Sequence[Chip | Cut]) -> str:
    parts, at = [], 0
    for element in elements:
        if isinstance(element, Chip):
            target = f"<b>{_visible(element.target)}</b>" if element.target is not None else ""
            bears = "" if element.target is None else " bears"
            parts.append(
                f'<span class="chip{bears}" title="element '
                f'{at}"><span>{_visible(element.text)}</span>{target}</span>'
            )
            at += 1
        else:
            parts.append(_cut(element, at))
            at += element.grid[0] * element.grid[1]
    return f'<div class="line">{"".join(parts)}</div>'


def _cut(cut: Cut, at: int) -> str:
    rows, columns = cut.grid
    if cut.values.ndim == 3:
        height, width = cut.values.shape[:2]
        style, places = (
            f"--img:url({images.picture(cut.values)})",
            [divmod(i, columns) for i in range(rows * columns)],
        )
    else:
        width, height = 5, 2
        values = images.heard(cut.values)
        light, dark = (images.shaded(values, dark=dark) for dark in (False, True))
        style, places = (
            f"--img:url({light});--dark:url({dark})",
            [(columns - 1 - i % columns, i // columns) for i in range(rows * columns)],
        )
        rows, columns = columns, rows
    ordered = sorted(range(len(places)), key=lambda i: places[i])
    cells = "".join(
        f'<b class="px" style="{_position(*places[i], rows, columns)}" title="element '
        f'{at + i}, patch {i}"></b>'
        for i in ordered
    )
    n = rows * columns
    about = f"{escape(cut.kind)}, {n} patches: elements {at} to {at + n - 1}"
    return (
        f'<span class="cut" '
        f'style="{style};--rows:{rows};--columns:{columns};--aspect:{width}/{height}">'
        f'<span class="cells">{cells}</span><small>{about}</small></span>'
    )


def _head(number: int, name: str, classes: Sequence[Share]) -> str:
    shown = "".join(
        f"<span "
        f'class="class"><bdi>{escape(of)}</bdi>{"" if share > 0.995 else f" {share:.0%}"}</span>'
        for of, share in classes
        if share > 0.005
    )
    return (
        f'<h2><span class="n">{number}</span> <bdi>{escape(name)}</bdi></h2><p '
        f'class="classes">{shown}</p>'
    )


def _whole(grid: tuple[int, int], label: str, order: Sequence[int] | None = None) -> str:
    """The picture under the grid of its patches."""
    cells = "".join(
        f'<i class="c{k}" title="patch {k}"></i>' for k in order or range(grid[0] * grid[1])
    )
    return (
        f'<span class="px whole" role="img" aria-label="{escape(label, quote=True)}">{cells}</span>'
    )


def _listed(
    places: Sequence[tuple[int, int]],
    grid: tuple[int, int],
    tables: Sequence[str],
    about: str,
    n: int,
    aspect: float,
) -> str:
    """The patches in their order, each with its numbers."""
    patches = "".join(
        f'<span class="patch k{k}" tabindex="0"><b class="px" '
        f'style="{_position(*at, *grid)}"></b><small>{k}</small>'
        f'<span class="numbers"><strong>patch {k}</strong>: row {at[0]}, column {at[1]}; '
        f"{about}{table}</span></span>"
        for k, (at, table) in enumerate(zip(places, tables, strict=True))
    )
    room = 4 + min(16, 1.42 * tables[0].count("<tr>") / max(1, tables[0].count("<table>")))
    rest = f"<small>and {n - len(places):,} more</small>" if n > len(places) else ""
    return (
        f'<div class="entering" style="--shape:{aspect:.4f};--room:{room:.1f}rem">'
        f"<h3>{n} patches in the order in which they enter</h3>"
        f'<div class="patches">{patches}{rest}<span class="hint">Point at a patch, or step to '
        f"it with Tab, to see its "
        "numbers.</span></div></div>"
    )


def _position(row: int, column: int, rows: int, columns: int) -> str:
    x, y = (100 * place / max(1, n - 1) for place, n in ((column, columns), (row, rows)))
    return f"background-position:{x:.4g}% {y:.4g}%"


def _table(values: np.ndarray, axes: tuple[str, str]) -> str:
    """The numbers of a patch, [p, q, C], as the model reads them: a table for each channel."""
    if values.size > MOST_NUMBERS:
        return (
            f"; from {values.min():.2f} to {values.max():.2f}, mean {values.mean():.2f}, "
            f"too many to be written here"
        )
    tables = []
    for channel, name in enumerate(CHANNELS[values.shape[2]]):
        rows = "".join(
            "<tr>" + "".join(f'<td class="s{_step(v)}">{v:.2f}</td>' for v in row) + "</tr>"
            for row in values[..., channel].tolist()
        )
        caption = f"{name}: " if name else ""
        tables.append(f"<table><caption>{caption}{axes[0]} by {axes[1]}</caption>{rows}</table>")
    return f'<span class="tables{" three" if len(tables) > 1 else ""}">{"".join(tables)}</span>'


def _step(value: float) -> int:
    """The shade of a normalized number: two standard deviations to either side of 0."""
    return round(min(1.0, max(0.0, value / 4 + 0.5)) * (ramp.STEPS - 1))


def _visible(text: str) -> str:
    return escape(text.replace(" ", "␣").replace("\n", "⏎")) or "·"


def _shades() -> str:
    def rules(dark: bool) -> str:
        shades = ramp.ramp(dark=dark)
        return "".join(
            f".s{i}{{background:{ramp.css(c)};color:{ramp.css(ramp.ink(c))}}}"
            for i, c in enumerate(shades)
        )

    return f"{rules(False)}@media (prefers-color-scheme: dark){{{rules(True)}}}"


def _pointing(n: int) -> str:
    """Whichever of the two one points at, a patch in the list or its place in the picture, both are
    marked."""
    return "".join(
        f".fed:has(.k{k}:is(:hover,:focus)) .c{k}{{outline:3px solid var(--mark);z-index:1}}"
        f".fed:has(.c{k}:hover) .k{k} .numbers{{display:block;z-index:3}}"
        f".fed:has(.c{k}:hover) .k{k}{{color:var(--mark)}}"
        for k in range(n)
    )
