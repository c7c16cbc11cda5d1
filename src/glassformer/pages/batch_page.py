"""Encoded inputs of a batch as a page: images and audio in patches, sequences of elements.

image     -> in the file and as encoded, its patches in input order with their numbers
audio     -> its waveform, its spectrogram over seconds and hertz, its patches
sequence  -> tokens with their targets, images and audio as patches between them
"""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from glassformer.pages.images import brightness, palette, png
from glassformer.pages.kit import Html, document, render, steps
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
    body = render(
        "batch",
        most_patches=MOST_PATCHES,
        most_numbers=MOST_NUMBERS,
        png=png,
        steps=steps,
        waveform=_waveform,
        sheet_of=_Sheet,
        channels=_channels,
        counted=_counts,
        about=about,
        inputs=inputs,
    )
    return document(title, body)


class _Sheet:
    """Patches of an image or a spectrogram on the page: rows, columns, the place of each."""

    def __init__(self, values: np.ndarray, grid: tuple[int, int]) -> None:
        if values.ndim == 3:
            self.rows, self.columns = grid
            self.places = [*np.ndindex(grid)]
            source = f"--img:url({png(values)});--aspect:{values.shape[1]}/{values.shape[0]}"
        else:  # patches are in order of time, then from low bands up; low bands are at the bottom
            self.columns, self.rows = grid
            self.places = [(self.rows - 1 - band, time) for time, band in np.ndindex(grid)]
            light, dark = palette(steps(brightness(values)))
            source = f"--img:url({light});--dark:url({dark});--aspect:5/2"
        self.style = f"{source};--rows:{self.rows};--columns:{self.columns}"
        self.order = sorted(range(len(self.places)), key=self.places.__getitem__)
        """Patches from the upper left in reading order."""

    def position(self, patch: int) -> str:
        """Style that shows one patch of the whole."""
        row, column = self.places[patch]
        x, y = 100 * column / max(1, self.columns - 1), 100 * row / max(1, self.rows - 1)
        return f"background-position:{x:.4g}% {y:.4g}%"


def _channels(patch: np.ndarray, shape: tuple[int, int, int]) -> Iterable[tuple[str, Any]]:
    """The numbers of a patch [p, q, C] as the model reads them: a table for each channel."""
    tables = np.moveaxis(patch.reshape(shape), 2, 0).tolist()
    return zip(CHANNELS[len(tables)], tables, strict=True)


def _waveform(samples: np.ndarray) -> Html:
    """Return the largest and the least sample of each of 480 stretches as one line."""
    parts = np.array_split(samples, min(480, len(samples)))
    top = max(0.05, np.abs(samples).max())
    ends = [(i, -30 * y / top) for i, part in enumerate(parts) for y in (part.max(), part.min())]
    return Scene([Line(ends, "mark")]).svg(f"waveform, at most {top:.2f}", "wave")


def _counts(one: EncodedSequence) -> str:
    sizes = [math.prod(part.grid) if isinstance(part, PatchGrid) else 1 for part in one.elements]
    bearing = sum(isinstance(part, Token) and part.target is not None for part in one.elements)
    return f"{sum(sizes)} elements, {bearing} bear loss; targets are below"
