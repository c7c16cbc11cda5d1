"""Audio to patches: clips of one length, their normalized log-mel spectrograms, cut.

    samples, rate ── clip ──> float32 [T] ── spectrogram ──> [N, frames, mels]
        ── patches ──> [N, patches, width]

Everything follows from one configuration, which is saved with the model as `audio.json`.
"""

import math
from collections.abc import Iterator
from typing import Annotated, Any, Literal, Self, final

import numpy as np
import torch
from pydantic import Field, model_validator

from glassformer.core.axes import Float, Tensor
from glassformer.core.errors import ConfigError, DataError
from glassformer.core.record import Record
from glassformer.media.audio_file import resample
from glassformer.media.patches import Reader, patchify

Milliseconds = Annotated[float, Field(gt=0.0, le=1000.0)]
CLIPS_AT_ONCE = 64
CONSTANT = 1e-4
"""Bands with a smaller standard deviation are not scaled."""


class AudioConfig(Record):
    """The `processor.audio` section of a recipe; resolved when `mean` and `std` are set."""

    section = "processor.audio"

    rate: int = Field(default=16_000, ge=8_000, le=48_000)
    """Samples a second; others are resampled to it."""
    resampler: Literal["soxr"] | None = "soxr"
    """What resamples files of another rate; null: they are refused."""
    seconds: float = Field(default=1.0, gt=0.0, le=600.0)
    """Length of a clip; longer audio is cut, shorter audio is padded with silence."""
    position: Literal["centre", "start"] = "centre"
    """Place of a shorter audio file in its clip, and the part that is kept of a longer one."""
    n_mels: int = Field(default=64, ge=1, le=512)
    """Frequency bands."""
    window_ms: Milliseconds = 25.0
    """Length of a frame's window, in milliseconds."""
    hop_ms: Milliseconds = 10.0
    """Step from one frame to the next, in milliseconds."""
    patch: tuple[int, int] = (4, 0)
    """(frames, bands) of a patch; 0: all bands."""
    low: float = Field(default=0.0, ge=0.0)
    """Lower end of the lowest band, in Hz."""
    high: float | None = Field(default=None, gt=0.0)
    """Upper end of the highest band, in Hz; null: half the rate."""
    floor: float = Field(default=1e-8, gt=0.0)
    """Least power in a band; less is silence."""
    mean: tuple[float, ...] | None = None
    """Mean of each band, which is subtracted; null: that of the training clips."""
    std: tuple[float, ...] | None = None
    """Standard deviation of each band, a divisor; null: that of the training clips."""

    @model_validator(mode="after")
    def _fits(self) -> Self:
        if not self.low < self.highest <= self.rate / 2:
            raise ValueError(
                f"bands from low = {self.low:g} to high = {self.highest:g} Hz do not exist at "
                f"{self.rate} samples a second; use 0 <= low < high <= {self.rate / 2:g}"
            )
        if self.hop < 1 or self.window < 2 or self.frames < 1:
            raise ValueError(
                f"seconds = {self.seconds:g} gives {self.n_samples} samples, in which no frame of "
                f"window_ms = {self.window_ms:g} every hop_ms = {self.hop_ms:g} fits; use larger "
                f"ones, or a longer clip"
            )
        if self.mean is None or self.std is None:
            if self.mean is not self.std:
                raise ValueError("mean and std belong together; set both or neither")
        elif {len(self.mean), len(self.std)} != {self.n_mels}:
            raise ValueError(f"mean and std need a number for each of n_mels = {self.n_mels} bands")
        elif min(self.std) <= 0:
            raise ValueError(f"std must be above 0 in every band, got {min(self.std):g}")
        size = max(1, self.patch[0])
        near = max(size, round(self.frames / size) * size) * self.hop / self.rate
        remedy = f"; set seconds to {near:.6g}, or another patch"
        for what, part, n, rest in (
            ("frames", self.patch[0], self.frames, remedy),
            ("bands", self.patch_size[1], self.n_mels, " = n_mels, or 0 for all"),
        ):
            if part < 1 or n % part:
                raise ValueError(
                    f"a patch of {part} {what} must divide the {n} {what} of a clip{rest}"
                )
        return self

    @property
    def highest(self) -> float:
        """`high` with its default filled in."""
        return self.rate / 2 if self.high is None else self.high

    @property
    def n_samples(self) -> int:
        """Samples of a clip."""
        return round(self.seconds * self.rate)

    @property
    def window(self) -> int:
        """Samples of a window."""
        return round(self.window_ms * self.rate / 1000)

    @property
    def hop(self) -> int:
        """Samples from one frame to the next."""
        return round(self.hop_ms * self.rate / 1000)

    @property
    def n_fft(self) -> int:
        """Samples of a Fourier transform: the first power of two that holds a window."""
        return 1 << (self.window - 1).bit_length()

    @property
    def frames(self) -> int:
        """Frames of a clip."""
        return self.n_samples // self.hop

    @property
    def patch_size(self) -> tuple[int, int]:
        """(frames, bands) of a patch, with 0 filled in."""
        return self.patch[0], self.patch[1] or self.n_mels


@final
class AudioReader(Reader):
    """Audio to clips, spectrograms and patches."""

    kind, file = AudioConfig, "audio.json"
    config: AudioConfig

    def __init__(self, config: AudioConfig) -> None:
        super().__init__(config)
        self.record_shape = (config.n_samples,)
        self.shape = config.frames, config.n_mels, 1
        self.filters = mel_filters(
            config.n_mels, config.n_fft, config.rate, config.low, config.highest
        )

    @classmethod
    def _of(cls, values: dict[str, Any]) -> Self:
        # a file without the key is of a version that had another resampler
        return super()._of({"resampler": None, **values})

    def cuts(self, n_samples: int, rate: int) -> bool:
        """Whether `clip` cuts an audio file of this length."""
        return n_samples * self.config.rate > self.config.n_samples * rate

    def clip(self, samples: np.ndarray, rate: int) -> np.ndarray:
        """Resample an audio file, float [U], and cut it or pad it with silence, float32 [T].

        ConfigError: another rate without `resampler`.
        """
        if rate != self.config.rate and self.config.resampler is None:
            raise ConfigError(
                f"Audio of {rate} samples a second was given to a model of {self.config.rate} that "
                f"was not trained with soxr (processor.audio.resampler is null); give audio of "
                f"{self.config.rate}, or train it again."
            )
        sound = resample(samples, rate, self.config.rate)
        out = np.zeros(self.config.n_samples, np.float32)
        length = min(len(sound), len(out))
        centre = self.config.position == "centre"
        begin, into = (centre * (n - length) // 2 for n in (len(sound), len(out)))
        out[into : into + length] = sound[begin : begin + length]
        return out

    def resolve(self, clips: np.ndarray) -> "AudioReader":
        """Fill in `mean` and `std` of each band from training clips [N, T], unless they are set."""
        if self.config.mean is not None:
            return self
        if not len(clips):
            raise DataError(
                "there are no training clips from which processor.audio.mean and std could be "
                "computed"
            )
        total = squares = torch.zeros(self.config.n_mels, dtype=torch.float64)
        for bands in self._log_mels(clips):
            rows = bands.double().flatten(0, 1)
            total, squares = total + rows.sum(0), squares + rows.square().sum(0)
        n = len(clips) * self.config.frames
        std = (squares / n - (mean := total / n).square()).clamp_min(0).sqrt()
        std[std < CONSTANT] = 1
        update = {"mean": tuple(mean.tolist()), "std": tuple(std.tolist())}
        return AudioReader(self.config.model_copy(update=update))

    def spectrogram(self, clips: np.ndarray) -> Float[Tensor, "N frames mels"]:
        """Normalized log-mel spectrograms of clips, float [N, T]: 0 is a band's mean.

        ConfigError: `mean` and `std` are not known.
        """
        mean, deviation = self.normal
        found = [(bands - mean) / deviation for bands in self._log_mels(clips)]
        return torch.cat(found) if found else torch.zeros(0, self.config.frames, self.config.n_mels)

    def patches(self, spectrogram: Float[Tensor, "N frames mels"]) -> Float[Tensor, "N T P"]:
        """Patches in the order of time, then frequency."""
        return patchify(spectrogram[..., None], self.config.patch_size)

    def _log_mels(self, clips: np.ndarray) -> Iterator[Float[Tensor, "N frames mels"]]:
        c = self.config
        for first in range(0, len(clips), CLIPS_AT_ONCE):
            samples = torch.from_numpy(clips[first : first + CLIPS_AT_ONCE].astype(np.float32))
            yield log_mel(samples, self.filters, c.window, c.hop, c.floor)


def mel(hertz: Float[Tensor, "*N"]) -> Float[Tensor, "*N"]:
    """Slaney's mel scale: 3 for each 200 Hz up to 1 kHz, then 27 for each factor of 6.4 (Auditory
    Toolbox, 1998)."""
    return torch.where(
        hertz < 1000, hertz * 0.015, 15 + (hertz.clamp_min(1000) / 1000).log() * 27 / math.log(6.4)
    )


def hertz(mel: Float[Tensor, "*N"]) -> Float[Tensor, "*N"]:
    """The inverse of `mel`."""
    return torch.where(
        mel < 15, mel / 0.015, 1000 * ((mel.clamp_min(15) - 15) * math.log(6.4) / 27).exp()
    )


def mel_filters(
    n_mels: int, n_fft: int, rate: int, low: float, high: float
) -> Float[Tensor, "mels bins"]:
    """Triangles from `low` to `high` Hz, evenly spaced on the mel scale, over n_fft // 2 + 1
    frequencies; float32.

    Scale and normalization (each triangle over Hz has the area 1) are Slaney's, as in librosa.
    ConfigError: a triangle without any frequency.
    """
    ends = mel(torch.tensor([low, high], dtype=torch.float64)).tolist()
    corners = hertz(torch.linspace(ends[0], ends[1], n_mels + 2, dtype=torch.float64))[:, None]
    left, middle, right = corners[:-2], corners[1:-1], corners[2:]
    frequencies = torch.arange(n_fft // 2 + 1, dtype=torch.float64) * rate / n_fft
    rising = (frequencies - left) / (middle - left)
    falling = (right - frequencies) / (right - middle)
    filters = torch.minimum(rising, falling).clamp_min(0) * 2 / (right - left)
    if empty := int((filters.sum(1) == 0).sum()):
        raise ConfigError(
            f"{empty} of {n_mels} mel bands between {low:g} and {high:g} Hz are narrower than the "
            f"{rate / n_fft:g} Hz between two frequencies; set fewer "
            "processor.audio.n_mels or a longer processor.audio.window_ms."
        )
    return filters.float()


def log_mel(
    samples: Float[Tensor, "*N T"],
    filters: Float[Tensor, "mels bins"],
    window: int,
    hop: int,
    floor: float,
) -> Float[Tensor, "*N frames mels"]:
    """Natural logarithm of the power in each mel band, at least `floor`; a frame for a whole `hop`.

    Frame i is a Hann window of `window` samples around the middle of [i hop, (i + 1) hop); outside
    there is silence. Needs T >= hop and window <= n_fft = 2 (bins - 1).
    """
    n_fft, n = 2 * (filters.shape[1] - 1), samples.shape[-1]
    frames = n // hop
    before = (n_fft - hop) // 2 - (n_fft - window) // 2
    heard = torch.nn.functional.pad(samples, (before, max(0, frames * hop + window - before - n)))
    hann = torch.hann_window(window, dtype=samples.dtype, device=samples.device)
    spectrum = torch.fft.rfft(heard.unfold(-1, window, hop)[..., :frames, :] * hann, n_fft)
    power = torch.view_as_real(spectrum).square().sum(-1)
    return (power @ filters.to(power).T).clamp_min(floor).log()
