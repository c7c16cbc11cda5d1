"""The encoded batch of a step: rows of tokens or parts, images, audio; as text, JSON or a page."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch

from glassformer.core.batch import IGNORE, Batch
from glassformer.core.errors import amount
from glassformer.media.audio import AudioConfig, mel
from glassformer.pages.batch_page import (
    EncodedAudio,
    EncodedImage,
    EncodedInput,
    EncodedSequence,
    PatchGrid,
    Share,
    Token,
    batch_html,
)
from glassformer.processors.processor import Processor
from glassformer.run.encoded_rows import EncodedRow, token_rows
from glassformer.tasks.task import Task

TICKS = (100, 200, 500, 1000, 2000, 4000, 8000, 16000)
SHADES = " ·░▒▓█"


@dataclass(frozen=True)
class EncodedMedia:
    """An image or audio clip as it is encoded."""

    drawn: EncodedImage | EncodedAudio
    where: str

    def as_json(self) -> dict[str, Any]:
        """Plain values: classes with their shares, and the numbers of each patch."""
        one = self.drawn
        values = {"grid": list(one.grid), "patches": one.patches.tolist()}
        return {"file": self.where, "classes": dict(one.classes), **values}

    def as_text(self, number: int, width: int, colour: bool) -> str:
        """Three lines on it, and its patches in shades of their means."""
        one, (bold, plain) = self.drawn, ("\x1b[1;32m", "\x1b[0m") if colour else ("", "")
        values, (rows, columns) = one.patches, one.grid
        shares = (name if share > 0.995 else f"{name} {share:.0%}" for name, share in one.classes)
        shades = _shades(values.mean(1).reshape(one.grid), sound=isinstance(one, EncodedAudio))
        return "\n".join(
            [
                f"row {number}: {self.where}",
                f"  class {bold}{', '.join(shares) or 'none'}{plain}",
                f"  {rows} x {columns} patches of {amount(values.shape[1], 'number')}, "
                f"{len(values)} elements; numbers from {values.min():.2f} to {values.max():.2f}, "
                f"mean {values.mean():.2f}",
                *("  " + "".join(2 * SHADES[i] for i in line[:width]) for line in shades),
            ]
        )


def _shades(means: np.ndarray, sound: bool) -> list[list[int]]:
    """The shade of each patch; of audio, low bands are at the bottom."""
    spread = float(means.max() - means.min()) or 1.0
    shades = np.rint((means - means.min()) / spread * (len(SHADES) - 1)).astype(int)
    return (shades.T[::-1] if sound else shades).tolist()


def media_rows(task: Task, rows: int, step: int) -> Iterator[EncodedMedia]:
    """The first `rows` images or audio clips of a step's batch."""
    inputs, processor = task.objective.training, task.processor
    config = processor.reader.config
    numbers = [i for row in task.feed.order.rows(step) for i in row]
    pairs = ((b.elements, b.targets) for b in task.feed.batches(step) if b.targets is not None)
    targets = (row for pair in pairs for row in zip(*pair, strict=True))
    for number, (patches, target) in zip(numbers[:rows], targets, strict=False):
        where, array = inputs.records[number].where, inputs.array[[number]]
        about = (Path(where).name, _shares(task.objective.classes.names, target))
        read = (patches.numpy(), processor.reader.grid)
        restored = processor.restored(patches)
        if isinstance(config, AudioConfig):
            samples = processor.sounds(array, np.array([number]), step)[0]
            sound = (samples, config.rate, restored, _ticks(config))
            yield EncodedMedia(EncodedAudio(*about, *sound, *read), where)
        else:
            before = None if np.array_equal(restored, array[0]) else np.array(array[0])
            yield EncodedMedia(EncodedImage(*about, restored, before, *read), where)


def encoded_rows(task: Task, rows: int, step: int) -> Iterator[EncodedRow | EncodedMedia]:
    """The first `rows` rows of a step's batch as the model reads them."""
    patches = task.processor.elements == "patches"
    return media_rows(task, rows, step) if patches else token_rows(task, rows, step)


def batch_page(task: Task, rows: int, step: int, title: str) -> str:
    """The same as a self-contained HTML document."""
    if task.processor.elements == "patches":
        shown: list[EncodedInput] = [one.drawn for one in media_rows(task, rows, step)]
    else:
        shown = list(_sequences(task, rows, step))
    said = [f"{sentence[:1].upper()}{sentence[1:]}." for sentence in task.objective.opening()]
    first = f"The first {len(shown)} of the batch of step {step:,}, as the model reads them."
    return batch_html(title, [first, *said], shown)


def _sequences(task: Task, rows: int, step: int) -> Iterator[EncodedSequence]:
    places = (
        (batch, row) for batch in task.feed.batches(step) for row in range(len(batch.elements))
    )
    encoded = zip(token_rows(task, rows, step), places, strict=False)
    for number, (one, (batch, row)) in enumerate(encoded, 1):
        said = [
            None if target == IGNORE else piece
            for target, piece in zip(one.targets, one.target_pieces, strict=True)
        ]
        source: list[Token | PatchGrid] = []
        if batch.source is not None and one.source is not None:
            nothing = [None] * len(one.source.pieces)
            source = _elements(batch.source, row, one.source.pieces, nothing, task.processor)
        elements = _elements(batch, row, one.pieces, said, task.processor)
        yield EncodedSequence(f"row {number} of step {step:,}", elements, source)


def _shares(names: tuple[str, ...], target: torch.Tensor) -> list[Share]:
    if target.ndim == 0:
        return [(names[int(target)], 1.0)]
    shares = [(name, float(share)) for name, share in zip(names, target, strict=True) if share > 0]
    return sorted(shares, key=lambda one: -one[1])


def _ticks(config: AudioConfig) -> list[tuple[float, str]]:
    """Round frequencies and their height on the mel scale, from the lowest band to the highest."""
    low, high = mel(torch.tensor([config.low, config.highest], dtype=torch.float64)).tolist()
    marks = [hz for hz in TICKS if config.low <= hz <= config.highest]
    places = [(float(mel(torch.tensor(float(hz)))) - low) / (high - low) for hz in marks]
    return [
        (at, f"{hz // 1000} kHz" if hz >= 1000 else f"{hz} Hz")
        for at, hz in zip(places, marks, strict=True)
    ]


def _elements(
    batch: Batch,
    row: int,
    pieces: Sequence[str],
    said: Sequence[str | None],
    processor: Processor,
) -> list[Token | PatchGrid]:
    """Tokens and patch grids of a row in order, without padding."""
    length, valid = batch.elements.shape[1], batch.where().valid
    real = [True] * length if valid is None else valid[min(row, len(valid) - 1)].tolist()
    cuts = processor.pictures(batch, row)
    found, t = list[Token | PatchGrid](), 0
    while t < length:
        if cut := cuts.get(t):
            own, patches = cut
            found.append(PatchGrid(own.name, own.restored(patches), own.reader.grid))
            t += len(patches)
        else:
            found += [Token(pieces[t], said[t])] * real[t]
            t += 1
    return found
