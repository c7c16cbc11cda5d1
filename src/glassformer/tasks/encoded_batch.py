"""What is fed at a step, exactly: rows of tokens, pictures, recordings, sequences of parts; also as
a page."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch

from glassformer.batch import IGNORE, Batch
from glassformer.errors import counted
from glassformer.media.audio import AudioConfig
from glassformer.media.spectrogram import mel
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
from glassformer.processors.audio import AudioProcessor
from glassformer.processors.media import MediaInputs, MediaProcessor
from glassformer.tasks.classification import Classification
from glassformer.tasks.encoded_rows import EncodedRow, token_rows
from glassformer.tasks.task import Task

TICKS = (100, 200, 500, 1000, 2000, 4000, 8000, 16000)
SHADES = " ·░▒▓█"


@dataclass(frozen=True)
class EncodedMedia:
    """A picture or a recording as it is fed."""

    drawn: EncodedImage | EncodedAudio
    where: str

    def as_json(self) -> dict[str, Any]:
        """Plain values: classes with their shares, and the patches, one list of numbers for
        each."""
        one = self.drawn
        return {
            "file": self.where,
            "classes": dict(one.classes),
            "grid": list(one.grid),
            "patches": one.patches.tolist(),
        }

    def as_text(self, number: int, width: int, colour: bool) -> str:
        """What it is in three lines, and it itself in shades: one for each patch, the mean of its
        numbers."""
        one, (bold, plain) = self.drawn, ("\x1b[1;32m", "\x1b[0m") if colour else ("", "")
        n, of = one.patches.shape
        classes = (
            ", ".join(
                name if share > 0.995 else f"{name} {share:.0%}" for name, share in one.classes
            )
            or "none"
        )
        values = one.patches
        means = _image(one.patches.mean(1).reshape(one.grid), sound=isinstance(one, EncodedAudio))
        return "\n".join(
            [
                f"row {number}: {self.where}",
                f"  class {bold}{classes}{plain}",
                f"  {one.grid[0]} x {one.grid[1]} patches of {counted(of, 'number')}, {n} "
                f"elements; numbers from "
                f"{values.min():.2f} to {values.max():.2f}, mean {values.mean():.2f}",
                *("  " + "".join(2 * SHADES[i] for i in line[:width]) for line in means.tolist()),
            ]
        )


def _image(means: np.ndarray, sound: bool) -> np.ndarray:
    """The shade of each patch, of a sound with low bands at the bottom."""
    spread = float(means.max() - means.min()) or 1.0
    shades = np.rint((means - means.min()) / spread * (len(SHADES) - 1)).astype(int)
    return shades.T[::-1] if sound else shades


def media_rows(task: Task, rows: int, step: int) -> Iterator[EncodedMedia]:
    """The first `rows` images or recordings of a step's batch."""
    assert isinstance(task, Classification)
    inputs, processor = task.training, task.processor
    assert isinstance(inputs, MediaInputs)
    numbers = [i for row in task.order.rows(step) for i in row]
    pairs = ((b.elements, b.targets) for b in task.batches(step) if b.targets is not None)
    targets = (row for pair in pairs for row in zip(*pair, strict=True))
    for number, (patches, target) in zip(numbers[:rows], targets, strict=False):
        where = inputs.records[number].where
        about = (Path(where).name, _shares(task.classes.names, target))
        restored, grid = processor.restored(patches), processor.reader.grid
        if isinstance(processor, AudioProcessor):
            config = processor.reader.config
            chosen = np.array([number])
            samples = processor.sounds(inputs.array[chosen], chosen, step)[0]
            of = (restored, _ticks(config), patches.numpy(), grid)
            yield EncodedMedia(EncodedAudio(*about, samples, config.rate, *of), where)
        else:
            before = np.array(inputs.array[number])
            other = None if np.array_equal(restored, before) else before
            yield EncodedMedia(EncodedImage(*about, restored, other, patches.numpy(), grid), where)


def encoded_rows(task: Task, rows: int, step: int) -> Iterator[EncodedRow | EncodedMedia]:
    """The first `rows` rows of a step's batch as the model reads them."""
    patches = task.processor.elements == "patches"
    return media_rows(task, rows, step) if patches else token_rows(task, rows, step)


def batch_page(task: Task, rows: int, step: int, title: str) -> str:
    """The same as a self-contained HTML document."""
    if task.processor.elements == "patches":
        fed: list[EncodedInput] = [one.drawn for one in media_rows(task, rows, step)]
    else:
        fed = list(_sequences(task, rows, step))
    said = [f"{sentence[:1].upper()}{sentence[1:]}." for sentence in task.opening()]
    first = f"The first {len(fed)} of the batch of step {step:,}, as the model reads them."
    return batch_html(title, [first, *said], fed)


def _sequences(task: Task, rows: int, step: int) -> Iterator[EncodedSequence]:
    readers: Mapping[str, MediaProcessor] = getattr(task.processor, "readers", {})
    places = ((batch, row) for batch in task.batches(step) for row in range(len(batch.elements)))
    for number, (fed, (batch, row)) in enumerate(
        zip(token_rows(task, rows, step), places, strict=False), 1
    ):
        said = [
            None if i == IGNORE else piece
            for i, piece in zip(fed.targets, fed.target_pieces, strict=True)
        ]
        elements, source = (
            _elements(batch, row, fed.pieces, said, readers),
            list[Token | PatchGrid](),
        )
        if batch.source is not None and fed.source is not None:
            nothing = [None] * len(fed.source.pieces)
            source = _elements(batch.source, row, fed.source.pieces, nothing, readers)
        yield EncodedSequence(f"row {number} of step {step:,}", elements, source)


def _shares(names: tuple[str, ...], target: torch.Tensor) -> list[Share]:
    if target.ndim == 0:
        return [(names[int(target)], 1.0)]
    shares = [(name, float(share)) for name, share in zip(names, target, strict=True) if share > 0]
    return sorted(shares, key=lambda one: -one[1])


def _ticks(config: AudioConfig) -> list[tuple[float, str]]:
    """Round frequencies and how high they lie on the mel scale between the lowest and the highest
    band."""
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
    readers: Mapping[str, MediaProcessor],
) -> list[Token | PatchGrid]:
    """What stands in a row, in its order; padding is left out."""
    length, valid = batch.elements.shape[1], batch.where().valid
    real = [True] * length if valid is None else valid[min(row, len(valid) - 1)].tolist()
    cuts = dict(_cuts(batch, row, readers))
    found, t = list[Token | PatchGrid](), 0
    while t < length:
        if cut := cuts.get(t):
            found.append(cut)
            t += cut.grid[0] * cut.grid[1]
        else:
            found += [Token(pieces[t], said[t])] * real[t]
            t += 1
    return found


def _cuts(
    batch: Batch, row: int, readers: Mapping[str, MediaProcessor]
) -> Iterator[tuple[int, PatchGrid]]:
    """Where each picture or sound of a row begins, and what its patches are of."""
    length = batch.elements.shape[1]
    for part in batch.parts:
        here, processor = part.at.div(length, rounding_mode="floor") == row, readers[part.name]
        reader = processor.reader
        at, values = part.at[here] % length, part.values[here]
        for begin, patches in zip(
            at[:: reader.n_patches].tolist(), values.split(reader.n_patches), strict=True
        ):
            yield begin, PatchGrid(part.name, processor.restored(patches), reader.grid)
