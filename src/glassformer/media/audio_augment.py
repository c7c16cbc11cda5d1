"""Audio augmentation: clips changed in small ways, masks over spectrograms (SpecAugment).

    clips          -> y[t] = gain x[middle + (t - shift - middle) speed] + white noise, by soxr
    spectrograms   -> `time_masks` bands of frames and `mel_masks` bands of mels become 0, the mean

A function of (seed, step, clip number). Source: Park et al. 2019, SpecAugment, without time
warping, which helped least there.
"""

from typing import Annotated, Self

import numpy as np
import torch
from jaxtyping import Bool, Float32, Int64
from pydantic import Field, model_validator

from glassformer.core.axes import Float, Tensor
from glassformer.core.random_stream import RandomStream
from glassformer.core.record import Record

Clips = Float32[np.ndarray, "N T"]
Masks = Annotated[int, Field(ge=0, le=100)]
Width = Annotated[int, Field(ge=0)]


class SoundAugmentConfig(Record):
    """The `augment.audio` section of a recipe; changes nothing by default."""

    section = "augment.audio"

    time_masks: Masks = 0
    """Number of time masks in a spectrogram."""
    time_width: Width = 0
    """Largest width of a time mask, in frames."""
    mel_masks: Masks = 0
    """Number of frequency masks in a spectrogram."""
    mel_width: Width = 0
    """Largest width of a frequency mask, in mel bands."""
    shift_ms: float = Field(default=0.0, ge=0.0)
    """Largest random shift in time, in ms."""
    gain_db: float = Field(default=0.0, ge=0.0, le=60.0)
    """Largest random change of volume, in dB."""
    noise: float = Field(default=0.0, ge=0.0, le=10.0)
    """Largest root mean square of white noise, as a share of the clip's."""
    speed: float = Field(default=0.0, ge=0.0, le=0.3)
    """Largest random relative change of speed and pitch: 0.05 is 5 %."""

    @model_validator(mode="after")
    def _masks_have_a_width(self) -> Self:
        for what, count, width in (
            ("time", self.time_masks, self.time_width),
            ("mel", self.mel_masks, self.mel_width),
        ):
            if bool(count) != bool(width):
                raise ValueError(
                    f"{what}_masks = {count} with {what}_width = {width} masks nothing; set both "
                    f"above 0, or neither"
                )
        return self


class SoundAugmentation:
    """Changes clips and spectrograms; `rate` is the sample rate."""

    def __init__(self, config: SoundAugmentConfig, rate: int, seed: int):
        self.config, self._rate, self._seed = config, rate, seed

    def clips(self, clips: Clips, samples: Int64[np.ndarray, "N"], step: int) -> Clips:
        """Clips with shift, speed, gain and noise drawn for their numbers in `samples`."""
        c, stream = self.config, RandomStream(self._seed, step, samples)
        if c.shift_ms or c.speed:
            shifts = np.rint(_draw_signed(stream, "shift") * c.shift_ms * self._rate / 1000).astype(
                int
            )
            speeds = (1 + _draw_signed(stream, "speed") * c.speed).tolist()
            clips = np.stack([move(*one) for one in zip(clips, shifts, speeds, strict=True)])
        if c.gain_db:
            gain = 10 ** (_draw_signed(stream, "gain") * c.gain_db / 20)
            clips = clips * gain.astype(np.float32)[:, None]
        if c.noise:
            power = np.square(clips, dtype=np.float64).mean(1)
            # uniform noise with the peak sqrt(3 power) has this power
            level = c.noise * stream.uniform("level", 1)[0] * np.sqrt(3 * power)
            hiss = 2 * stream.uniform("noise", clips.shape[1]).T - 1
            clips = clips + (level[:, None] * hiss).astype(np.float32)
        return clips

    def spectrograms(
        self,
        spectrograms: Float[Tensor, "N frames mels"],
        samples: Int64[np.ndarray, "N"],
        step: int,
    ) -> Float[Tensor, "N frames mels"]:
        """Normalized spectrograms with masks of 0, each band's mean."""
        c, stream = self.config, RandomStream(self._seed, step, samples)
        if not (c.time_masks or c.mel_masks):
            return spectrograms
        _, frames, mels = spectrograms.shape
        silent = _draw_masks(stream, "time", c.time_masks, c.time_width, frames)
        missing = _draw_masks(stream, "mel", c.mel_masks, c.mel_width, mels)
        hidden = torch.from_numpy(silent[:, :, None] | missing[:, None, :])
        return spectrograms.masked_fill(hidden.to(spectrograms.device), 0.0)


def move(clip: np.ndarray, shift: int, speed: float) -> np.ndarray:
    """A clip, float32 [T], `shift` samples later and `speed` times as fast around its middle,
    padded with silence."""
    import soxr

    sound = clip if speed == 1 else soxr.resample(clip, speed, 1.0, quality="HQ")
    first = shift + (len(clip) - len(sound)) // 2
    kept = sound[max(0, -first) : max(0, len(clip) - first)]
    out = np.zeros_like(clip)
    out[max(0, first) :][: len(kept)] = kept
    return out


def _draw_signed(stream: RandomStream, purpose: str) -> np.ndarray:
    """One number in [-1, 1) for each clip, float64 [N]."""
    return 2 * stream.uniform(purpose, 1)[0] - 1


def _draw_masks(
    stream: RandomStream, purpose: str, count: int, width: int, length: int
) -> Bool[np.ndarray, "N length"]:
    """Places of `count` masks of 0 to `width` places: each width, then each possible begin equally
    likely."""
    widths = np.floor(stream.uniform(f"{purpose} width", count) * (min(width, length) + 1))
    begins = np.floor(stream.uniform(f"{purpose} begin", count) * (length - widths + 1))
    places = np.arange(length)
    return np.logical_or.reduce(
        (begins[..., None] <= places) & (places < (begins + widths)[..., None]), axis=0
    )
