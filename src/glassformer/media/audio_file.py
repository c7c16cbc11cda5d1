"""Audio files to samples and back by libsndfile (soundfile), and other rates by soxr.

    bytes ── limits by the header ──> decoded ── whole? ──> mean of the channels, float32 [T], rate

libsndfile gets bytes, never a path, and only those that begin as a format of `MARKS`.
"""

import io
import math
import re
from typing import Any

import numpy as np

from glassformer.core.errors import ConfigError, DataError

READ = "WAV, FLAC, Ogg (Vorbis or Opus), MP3, AIFF and AU"
MARKS = (b"RIFF", b"RIFX", b"RF64", b"fLaC", b"OggS", b"ID3", b"\xff", b"FORM", b".snd")
"""Beginnings of the files that are read."""
_SUFFIXES = ".wav .wave .flac .ogg .oga .opus .mp3 .aif .aiff .aifc .au"
_TYPES = "audio/wav audio/flac audio/ogg audio/opus audio/mpeg audio/aiff audio/basic"
SUFFIXES = tuple(_SUFFIXES.split())
MEDIA_TYPES = (*_TYPES.split(), *SUFFIXES)
"""Types that a page offers to open; the first is that of `write_wav`."""
LOWEST_RATE, HIGHEST_RATE, MOST_CHANNELS = 4_000, 192_000, 64
MOST_SAMPLES = 1 << 28
"""Most samples of one file, those of all channels: 1 GiB, 1.7 hours at 44.1 kHz."""
SAMPLES_OF_ANY, SAMPLES_PER_BYTE = 1 << 24, 100
"""Samples that a file of any size may have; most for each byte beyond: the least of Opus is 64."""
CUT = re.compile(
    r"data : (\d+) \(should be|(SSND|Data Size) *: \d+ \(should be|not match value from 'ds64'"
)
"""Lines of libsndfile's log about a file with fewer bytes of samples than its header says."""
UNKNOWN_SIZE = 0x7FFF_0000
"""Sizes of WAV data from here on are placeholders of writers that do not know the length yet."""


class _Bytes(io.BytesIO):
    """Bytes for libsndfile, which looks before the beginning of damaged files."""

    def seek(self, offset: int, whence: int = io.SEEK_SET, /) -> int:
        try:
            return super().seek(offset, whence)
        except ValueError:
            return super().seek(0)


def read_audio(raw: bytes, where: str) -> tuple[np.ndarray, int]:
    """Decode an audio file: the mean of its channels, float32 [T] in [-1, 1], and its sample rate.

    DataError, beginning with `where`: another kind of file, damaged, cut off, or beyond the limits.
    """
    import soundfile

    if not raw.startswith(MARKS):
        raise DataError(f"{where} is not an audio file, it begins with {raw[:12]!r}; give {READ}")
    content = _Bytes(raw)
    try:
        with soundfile.SoundFile(content) as file:
            rate, length = file.samplerate, file.frames
            _check_header(length * file.channels, rate, len(raw), where)
            samples = file.read(length, "float32", always_2d=True)
            whole = _is_whole(raw, file, content.tell(), len(samples))
    except soundfile.LibsndfileError as problem:
        reason = problem.error_string.removeprefix("Error : ").rstrip(".")
        reason = "no MP3 frame" if "regular file" in reason else reason
        raise DataError(f"{where} is cut off or damaged ({reason}); copy it again") from None
    if not whole:
        raise DataError(
            f"{where} is cut off or damaged (its header does not fit its samples); copy it again, "
            f"or write it again"
        )
    if not np.isfinite(samples).all():
        raise DataError(f"{where} has samples that are infinite or no numbers; write it again")
    return np.clip(samples, -1.0, 1.0, out=samples).mean(axis=1, dtype=np.float32), rate


def _is_whole(raw: bytes, file: Any, end: int, length: int) -> bool:
    """Whether a file that was read to the byte `end` has the samples that it says it has."""
    if file.format == "MP3":  # libsndfile estimates the length where there is no table of frames
        return length > 0.99 * file.frames and end > 0.9 * len(raw)
    if length < file.frames:
        return False
    if file.format == "OGG":  # its length is that of the last page that there is
        page = raw[raw.rfind(b"OggS") :].ljust(28)
        size = 27 + page[26] + sum(page[27 : 27 + page[26]])
        return page[5] & 4 > 0 and page[14:18] == raw[14:18] and len(page) >= size
    cut = CUT.search(file.extra_info)
    return cut is None or int(cut[1] or 0) >= UNKNOWN_SIZE


def _check_header(samples: int, rate: int, size: int, where: str) -> None:
    """Raise DataError for a header beyond the limits, before anything is decoded."""
    if samples == 0:
        raise DataError(f"{where} holds no sound; copy it again, or remove it")
    if not LOWEST_RATE <= rate <= HIGHEST_RATE:
        raise DataError(
            f"{where} has {rate} samples a second; {LOWEST_RATE} to {HIGHEST_RATE} can be read"
        )
    most = min(MOST_SAMPLES, max(SAMPLES_OF_ANY, SAMPLES_PER_BYTE * size))
    if samples > most:
        raise DataError(
            f"{where} has {samples:,} samples by its header, and {most:,} of all channels can be "
            f"read from {size:,} bytes; cut it into shorter files"
        )


def write_wav(samples: np.ndarray, rate: int) -> bytes:
    """Encode samples in [-1, 1], float [T] or [T, channels], as 16-bit WAV; others are clipped.

    ConfigError: a rate or number of channels beyond the limits.
    """
    import soundfile

    channels = math.prod(samples.shape[1:])
    if not LOWEST_RATE <= rate <= HIGHEST_RATE or not 1 <= channels <= MOST_CHANNELS:
        raise ConfigError(
            f"a WAV file of {channels} channels and {rate} samples a second is not written; use 1 "
            f"to {MOST_CHANNELS} channels and {LOWEST_RATE} to {HIGHEST_RATE} samples a second"
        )
    file = io.BytesIO()
    # libsndfile itself would scale by 2^15 - 1 and round down
    frames = np.clip(np.rint(samples * 32768.0), -32768, 32767).astype(np.int16)
    soundfile.write(file, frames, rate, "PCM_16", format="WAV")
    return file.getvalue()


def resample(samples: np.ndarray, rate: int, new_rate: int) -> np.ndarray:
    """Resample float [T] from `rate` to `new_rate`: float32 [U], U = ceil(T new_rate / rate).

    Sample m is at the time m / new_rate; outside there is silence. Soxr's quality HQ: up to 0.91 of
    the lower half rate nothing is lost, at 0.94 of it 0.4 dB, from 1.01 on 120 dB and more.
    """
    length = -(-len(samples) * new_rate // rate)
    if rate == new_rate or length == 0:
        return np.asarray(samples, np.float32)
    import soxr

    silence = -(-rate // new_rate) + 1  # soxr rounds the length; with these it is never too short
    whole = np.pad(np.asarray(samples, np.float32), (0, silence))
    return soxr.resample(whole, rate, new_rate, quality="HQ")[:length]
