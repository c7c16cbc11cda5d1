"""The processor of audio: samples to patches of a log-mel spectrogram (Notes A and E)."""

from functools import cached_property
from typing import Any

import numpy as np

from glassformer.core.axes import Float, Tensor
from glassformer.core.errors import DataError, amount
from glassformer.data.records.labelled_files import TABLES
from glassformer.data.records.recordings import Recording, recordings
from glassformer.media.audio import AudioReader
from glassformer.media.audio_augment import SoundAugmentation, SoundAugmentConfig
from glassformer.media.audio_file import MEDIA_TYPES, SUFFIXES, read_audio, write_wav
from glassformer.media.patches import unpatchify
from glassformer.processors.media.processor import MediaProcessor


class AudioProcessor(MediaProcessor[AudioReader]):
    """Clips of one length as spectrograms, cut into patches."""

    name, noun, array, dtype = "audio", "recording", "clips", "float32"
    record, records = Recording, staticmethod(recordings)
    suffixes = (*SUFFIXES, *TABLES)
    kind = AudioReader
    stored_fields = frozenset({"rate", "seconds", "position", "resampler"})
    accept = ",".join(MEDIA_TYPES)

    @cached_property
    def _augmentation(self) -> SoundAugmentation:
        change = self.how.audio or SoundAugmentConfig()
        return SoundAugmentation(change, self.reader.config.rate, self.how.seed)

    def row(self, thing: Any, where: str) -> np.ndarray:
        """See `MediaProcessor`."""
        if isinstance(thing, Recording):
            samples, rate = thing.samples()
            self.clipped += self.reader.cuts(len(samples), rate)
        else:
            samples, rate = _samples(thing)
        return self.reader.clip(samples, rate)

    def sounds(self, array: np.ndarray, numbers: np.ndarray, step: int) -> np.ndarray:
        """Training clips at a step, float32 [N, T]."""
        return self._augmentation.clips(array, numbers, step)

    def patches(
        self, array: np.ndarray, numbers: np.ndarray, step: int | None
    ) -> Float[Tensor, "N T P"]:
        """See `MediaProcessor`."""
        if step is None:
            return self.reader.patches(self.reader.spectrogram(array))
        spectrograms = self.reader.spectrogram(self.sounds(array, numbers, step))
        return self.reader.patches(self._augmentation.spectrograms(spectrograms, numbers, step))

    def label(self, row: int, column: int) -> str:
        """See `MediaProcessor`."""
        frames, bands = self.reader.config.patch_size
        band = f", band {column * bands}" if self.reader.grid[1] > 1 else ""
        return f"frame {row * frames}{band}"

    def picture(self, row: np.ndarray) -> np.ndarray:
        """See `MediaProcessor`."""
        return self.reader.spectrogram(row[None])[0].numpy()

    def restored(self, patches: Float[Tensor, "T P"]) -> np.ndarray:
        """See `MediaProcessor`: a normalized spectrogram [frames, mels]."""
        size, grid = self.reader.config.patch_size, self.reader.grid
        return unpatchify(patches[None], size, grid)[0, :, :, 0].numpy()

    def request(self, row: np.ndarray) -> tuple[np.ndarray, int]:
        """See `MediaProcessor`."""
        return row, self.reader.config.rate

    def from_file(self, content: bytes, where: str = "the audio") -> tuple[np.ndarray, int]:
        """See `MediaProcessor`: one channel, the mean of all."""
        return read_audio(content, where)

    def to_file(self, given: Any) -> bytes | None:
        """See `MediaProcessor`: WAV."""
        match given:
            case (samples, int(rate)):
                return write_wav(np.asarray(samples, np.float32), rate)
        return None

    def description(self) -> list[str]:
        """See `Processor`."""
        c, (times, bands) = self.reader.config, self.reader.grid
        return [
            f"clips of {c.seconds:g} s at {c.rate:,} Hz, {c.frames} frames of {c.n_mels} mel bands "
            f"in {times} x {bands} patches of {amount(self.reader.patch_width, 'number')}"
        ]


def _samples(thing: Any) -> tuple[np.ndarray, int]:
    if not isinstance(thing, tuple):
        raise DataError(
            "this model reads audio, and an array alone has no rate; give a file or (samples, rate)"
        )
    samples, rate = np.asarray(thing[0]), thing[1]
    if samples.ndim != 1 or samples.dtype.kind != "f" or rate < 1:
        found = f"{samples.dtype} {list(samples.shape)} with the rate {rate}"
        raise DataError(
            f"samples are float [T] from -1 to 1 with a rate above 0, not {found}; change them"
        )
    return samples, rate
