"""Audio samples to patches of a log-mel spectrogram: pure functions.

log_mel       log(max(floor, M |STFT(x)|^2)): Hann windows every `hop` samples, mel triangles M
"""

import math

import torch

from glassformer.core.axes import Float, Tensor
from glassformer.core.errors import ConfigError


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
    empty = int((filters.sum(1) == 0).sum())
    if empty:
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
