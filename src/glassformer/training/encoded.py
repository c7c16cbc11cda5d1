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
from glassformer.media.audio import AudioConfig, AudioReader
from glassformer.media.image import ImageReader
from glassformer.media.patches import unpatchify
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
from glassformer.recipe.recipe import Recipe
from glassformer.tasks.media_classification import PerceptionTask
from glassformer.tasks.media_dataset import Heard
from glassformer.tasks.multimodal import MixtureTask
from glassformer.training.data_rows import FedRow, TextTask, rows_of
from glassformer.training.run_folder import temporary_task

TICKS = (100, 200, 500, 1000, 2000, 4000, 8000, 16000)
SHADES = " ·░▒▓█"
Reader = ImageReader | AudioReader


@dataclass(frozen=True)
class FedSense:
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


def perceived_as_fed(task: PerceptionTask, rows: int, step: int) -> Iterator[FedSense]:
    """The first `rows` training pictures or recordings of a step."""
    kept, numbers, reader = task.training, task.numbers(step), task.senses.sense
    shown = 0
    for batch in task.batches(step):
        assert batch.targets is not None
        for patches, target in zip(batch.elements, batch.targets, strict=True):
            if shown == rows:
                return
            number, where = int(numbers[shown]), kept.where[int(numbers[shown])]
            about = (Path(where).name, _shares(task.classes.names, target))
            restored = _restored(reader, patches)
            if isinstance(reader, ImageReader):
                before = np.array(kept.array[number])
                other = None if np.array_equal(restored, before) else before
                drawn = EncodedImage(*about, restored, other, patches.numpy(), reader.grid)
            else:
                assert isinstance(task.senses, Heard)
                config = reader.config
                samples = task.senses.sounds(kept, np.array([number]), step)[0]
                of = (restored, _ticks(config), patches.numpy(), reader.grid)
                drawn = EncodedAudio(*about, samples, config.rate, *of)
            yield FedSense(drawn, where)
            shown += 1


def as_fed(recipe: Recipe, rows: int, step: int) -> Iterator[FedRow | FedSense]:
    """The first `rows` rows of a step's batch; data are read in a temporary folder that is removed
    again."""
    with temporary_task(recipe) as task:
        yield from (
            perceived_as_fed(task, rows, step)
            if isinstance(task, PerceptionTask)
            else rows_of(task, rows, step)
        )


def fed_page(recipe: Recipe, rows: int, step: int, title: str) -> str:
    """The same as a self-contained HTML document."""
    with temporary_task(recipe) as task:
        if isinstance(task, PerceptionTask):
            fed: list[EncodedInput] = [one.drawn for one in perceived_as_fed(task, rows, step)]
        else:
            fed = list(_sequences(task, rows, step))
        said = [f"{sentence[:1].upper()}{sentence[1:]}." for sentence in task.opening()]
        return batch_html(
            title,
            [
                f"The first {len(fed)} of the batch of step {step:,}, as the model is fed them.",
                *said,
            ],
            fed,
        )


def _sequences(task: TextTask, rows: int, step: int) -> Iterator[EncodedSequence]:
    readers: dict[str, Reader] = {}
    if isinstance(task, MixtureTask):
        readers = {kind: files.senses.sense for kind, files in task.files.items()}
    places = ((batch, row) for batch in task.batches(step) for row in range(len(batch.elements)))
    for number, (fed, (batch, row)) in enumerate(
        zip(rows_of(task, rows, step), places, strict=False), 1
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


def _restored(reader: Reader, patches: torch.Tensor) -> np.ndarray:
    """The picture, uint8 [H, W, C], or normalized spectrogram, [frames, mels], that patches [T, P]
    are of."""
    if isinstance(reader, ImageReader):
        return reader.pixels_of(patches[None])[0]
    return unpatchify(patches[None], reader.config.patch_size, reader.grid)[0, :, :, 0].numpy()


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
    readers: Mapping[str, Reader],
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


def _cuts(batch: Batch, row: int, readers: Mapping[str, Reader]) -> Iterator[tuple[int, PatchGrid]]:
    """Where each picture or sound of a row begins, and what its patches are of."""
    length = batch.elements.shape[1]
    for part in batch.parts:
        here, reader = part.at.div(length, rounding_mode="floor") == row, readers[part.name]
        at, values = part.at[here] % length, part.values[here]
        for begin, patches in zip(
            at[:: reader.n_patches].tolist(), values.split(reader.n_patches), strict=True
        ):
            yield begin, PatchGrid(part.name, _restored(reader, patches), reader.grid)
