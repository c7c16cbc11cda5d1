"""Audio files to samples: WAV by NumPy, WAV of A-law and µ-law, RF64, FLAC, Ogg (Vorbis, Opus), MP3
and AIFF by libsndfile, which the extra `audio` brings.

    bytes ── kind, by their beginning ──> whole? ── decoded, channels averaged ──> float32 [T], rate

libsndfile gets bytes, never a path, and only those of a known kind that are within the limits.
"""

import io

import numpy as np

from glassformer.errors import ConfigError, DataError
from glassformer.media.audio_container import (
    check_aiff,
    check_mp3,
    check_ogg,
    cut_off,
    mp3_frame,
    without_id3,
)
from glassformer.media.wav import (
    EXTENSIBLE,
    HIGHEST_RATE,
    LAWS,
    LOWEST_RATE,
    MOST_CHANNELS,
    UNKNOWN_SIZE,
    chunks,
    read_wav,
)

READ = "WAV, FLAC, Ogg (Vorbis or Opus), MP3 and AIFF"
SUFFIXES = (
    *(".wav", ".wave", ".flac", ".ogg", ".oga", ".opus"),
    *(".mp3", ".aif", ".aiff", ".aifc"),
)
MEDIA_TYPES = (
    *("audio/wav", "audio/flac", "audio/ogg", "audio/opus", "audio/mpeg", "audio/aiff"),
    *SUFFIXES,
)
"""What a page may offer to open; the first is that of `write_wav`."""
MOST_SAMPLES = 1 << 28
"""Most samples of one compressed file, those of all channels: 1 GiB, 1.7 hours at 44.1 kHz."""
SAMPLES_UNASKED, SAMPLES_PER_BYTE = 1 << 24, 100
"""Samples that a file of any size may have; most for each byte beyond: the least of Opus is 64."""
PLAIN_SAMPLES = (
    "PCM_S8",
    "PCM_U8",
    "PCM_16",
    "PCM_24",
    "PCM_32",
    "FLOAT",
    "DOUBLE",
    "ULAW",
    "ALAW",
)
UNKNOWN_LENGTH = 1 << 62
"""Lengths from here on stand for none, in what libsndfile says of a header."""
OTHER_FILES = {b"RIFX": "big-endian RIFX", b"\x1a\x45\xdf\xa3": "Matroska"}


class _Bytes(io.BytesIO):
    """Bytes for libsndfile, which looks before the beginning of damaged files."""

    def seek(self, offset: int, whence: int = io.SEEK_SET, /) -> int:
        start = {io.SEEK_SET: 0, io.SEEK_CUR: self.tell(), io.SEEK_END: len(self.getbuffer())}
        return super().seek(max(0, start[whence] + offset))


def read_audio(raw: bytes, where: str) -> tuple[np.ndarray, int]:
    """Decode an audio file: the mean of its channels, float32 [T] in [-1, 1], and its sample rate.

    DataError, beginning with `where`: another kind of file, damaged, cut off, no samples, or more
    than `MOST_SAMPLES`. ConfigError: the extra `audio` is needed and not installed.
    """
    if raw.startswith(b"RIFF") and not _is_law(raw):
        samples, rate = read_wav(raw, where)
        return samples.mean(axis=1, dtype=np.float32), rate
    content = without_id3(raw)
    kind = _kind(content)
    if kind is None:
        raise DataError(_other_file(raw, where))
    length = None
    if kind == "WAV":
        _check_wave(content, where)
    elif kind == "Ogg":
        check_ogg(content, where)
    elif kind == "MP3":
        length = check_mp3(content, where)
    elif kind == "AIFF":
        length = check_aiff(content, where)
    return _decoded(content, kind, length, where)


def _kind(raw: bytes) -> str | None:
    if raw[:4] in (b"RIFF", b"RF64") and raw[8:12] == b"WAVE":
        return "WAV"
    if raw[:4] == b"fLaC":
        return "FLAC"
    if raw[:4] == b"OggS":
        return "Ogg"
    if raw[:4] == b"FORM" and raw[8:12] in (b"AIFF", b"AIFC"):
        return "AIFF"
    return "MP3" if mp3_frame(raw, 0) else None


def _is_law(raw: bytes) -> bool:
    """Whether the samples of a WAV file are those of telephones."""
    begin = next((begin for name, begin, _ in chunks(raw) if name == b"fmt "), len(raw))
    kind = int.from_bytes(raw[begin : begin + 2], "little")
    if kind == EXTENSIBLE:
        kind = int.from_bytes(raw[begin + 24 : begin + 26], "little")
    return kind in LAWS


def _check_wave(raw: bytes, where: str) -> None:
    """Raise DataError for fewer bytes of samples than are named; libsndfile reads what is there."""
    for name, begin, named in chunks(raw):
        if name == b"data":
            long = raw[:4] == b"RF64"  # whose sizes of 8 bytes come first
            size = int.from_bytes(raw[28:36], "little") if long else named
            if size > len(raw) - begin and (long or size < UNKNOWN_SIZE):
                raise cut_off(where, f"{size:,} bytes of samples should follow its header")
            return


def _other_file(raw: bytes, where: str) -> str:
    if not raw:
        return f"{where} is empty; copy it again"
    if raw.startswith(b"ID3"):
        return f"{where} has no MP3 frame behind its ID3 tag; copy it again"
    known = next((name for mark, name in OTHER_FILES.items() if raw.startswith(mark)), None)
    known = "MP4" if raw[4:8] == b"ftyp" else known
    if known is not None:
        return f"{where} is of the kind {known}, and {READ} are read; convert it"
    return f"{where} is not an audio file, it begins with {raw[:12]!r}; give {READ}"


def _decoded(raw: bytes, kind: str, length: int | None, where: str) -> tuple[np.ndarray, int]:
    """The samples of a file of a known kind; `length`: how many each channel must have, if its
    container says more than the decoder."""
    try:
        import soundfile
    except (ImportError, OSError):  # OSError: there is no libsndfile for this system
        article = "an" if kind[0] in "AMO" else "a"
        raise ConfigError(
            f"{where} is {article} {kind} file, which soundfile decodes; run "
            f"pip install 'glassformer[audio]', or convert the file to WAV of PCM."
        ) from None
    try:
        with soundfile.SoundFile(_Bytes(raw)) as file:
            rate, told = file.samplerate, file.frames
            _check(told, file.channels, rate, len(raw), where)
            if kind in ("AIFF", "WAV") and file.subtype not in PLAIN_SAMPLES:
                raise DataError(
                    f"{where} has its samples as {file.subtype}; write it as {kind} of PCM or "
                    f"floats"
                )
            samples = file.read(dtype="float32", always_2d=True)
    except (DataError, MemoryError):
        raise
    except soundfile.LibsndfileError as problem:
        raise DataError(_damaged(where, kind, problem.error_string)) from None
    except Exception as problem:  # noqa: BLE001 - a decoder may raise anything
        raise DataError(_damaged(where, kind, str(problem) or type(problem).__name__)) from None
    if kind == "MP3" and length is not None and len(samples) != length:
        raise DataError(
            f"{where} holds {length:,} samples, of which {len(samples):,} are found without a "
            f"table of its frames (Xing); write it anew"
        )
    expected = told if length is None else length
    if len(samples) != expected:
        rest = f"it says that it has {expected:,} samples, and {len(samples):,} can be decoded"
        raise cut_off(where, rest)
    if not np.isfinite(samples).all():
        n = (~np.isfinite(samples)).sum()
        raise DataError(f"{where} has {n:,} samples that are infinite or no numbers; write it anew")
    return np.clip(samples, -1.0, 1.0).mean(axis=1, dtype=np.float32), rate


def _check(length: int, channels: int, rate: int, size: int, where: str) -> None:
    """Raise DataError for a header beyond the limits, before anything is decoded."""
    if not 1 <= channels <= MOST_CHANNELS:
        raise DataError(f"{where} has {channels} channels; 1 to {MOST_CHANNELS} can be read")
    if not LOWEST_RATE <= rate <= HIGHEST_RATE:
        raise DataError(
            f"{where} has {rate} samples a second; {LOWEST_RATE} to {HIGHEST_RATE} can be read"
        )
    if length <= 0:
        raise DataError(f"{where} holds no sound at all; remove it")
    if length >= UNKNOWN_LENGTH:
        raise cut_off(where, "its header does not say how long it is")
    if (found := length * channels) > MOST_SAMPLES:
        raise DataError(
            f"{where} has {found:,} samples by its header, and {MOST_SAMPLES:,} of all channels "
            f"can be read; cut it into shorter files"
        )
    if found > max(SAMPLES_UNASKED, SAMPLES_PER_BYTE * size):
        raise DataError(
            f"{where} would grow from {size:,} bytes to {found:,} samples, an implausible ratio; "
            f"convert it to WAV yourself if you trust it"
        )


def _damaged(where: str, kind: str, problem: str) -> str:
    reason = " ".join(problem.removeprefix("Error : ").split()).rstrip(".")[:80]
    return f"{where} is a {kind} file that is cut off or damaged ({reason}); copy it again"
