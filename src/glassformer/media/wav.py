"""Reading and writing WAV files: PCM of 8, 16, 24 and 32 bits, IEEE floats, any number of channels.

    RIFF size WAVE | fmt  size (kind, channels, rate, ..., bits) | any chunk | data size (frames)

Sizes are checked against the bytes that exist. RIFF's size (unless data's is 0) and the bytes per
second are ignored, since many writers get them wrong.
"""

import struct
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from glassformer.errors import ConfigError, DataError

PCM, FLOAT, EXTENSIBLE = 1, 3, 0xFFFE
LAWS = (6, 7)
"""A-law and µ-law, which libsndfile reads."""
OTHER_KINDS = {2: "ADPCM", 17: "ADPCM", 49: "GSM", 80: "MPEG", 85: "MP3"}
GUID_REST = bytes.fromhex("000000001000800000aa00389b71")
"""The last bytes of the GUID that names a kind in WAVE_FORMAT_EXTENSIBLE."""
WIDTHS = {PCM: (8, 16, 24, 32), FLOAT: (32, 64)}
LOWEST_RATE, HIGHEST_RATE, MOST_CHANNELS = 4_000, 192_000, 64
UNKNOWN_SIZE = 0x7FFF_0000
"""Data sizes from here on, and 0, are placeholders of streaming writers."""


class _Format(NamedTuple):
    """Sample format: `kind` is PCM or FLOAT, `bits` those of one sample of one channel, `frame` the
    bytes of one sample for each channel."""

    kind: int
    channels: int
    rate: int
    bits: int
    frame: int


def read_wav(raw: bytes, where: str) -> tuple[np.ndarray, int]:
    """Decode a WAV file to float32 [T, channels] in [-1, 1], and its sample rate.

    Integers of b bits are divided by 2^(b - 1); floats beyond 1 are clipped. DataError, beginning
    with `where`: not WAV, an unsupported kind, a false header, or no samples.
    """
    if len(raw) < 12 or raw[:4] != b"RIFF" or raw[8:12] != b"WAVE":
        raise DataError(f"{where} is not a WAV file, it begins with {raw[:12]!r}; give RIFF/WAVE")
    form: _Format | None = None
    for name, begin, size in chunks(raw):
        if name == b"fmt " and form is None:
            form = _format(raw[begin : begin + size], where)
        elif name == b"data":
            if form is None:
                raise DataError(
                    f"{where} has its samples before the chunk that says how to read them; write "
                    f"it anew"
                )
            return _samples(_data(raw, begin, size, form, where), form, where), form.rate
    missing = "'data', the samples" if form else "'fmt ', the format of the samples"
    raise DataError(
        f"{where} is a WAV file without the chunk {missing}; it was cut off or damaged, so copy it "
        f"again"
    )


def write_wav(samples: np.ndarray, rate: int) -> bytes:
    """Encode samples in [-1, 1], float [T] or [T, channels], as 16-bit WAV; others are clipped.

    ConfigError: a rate or number of channels that `read_wav` refuses.
    """
    frames = samples.reshape(len(samples), -1)
    channels = frames.shape[1]
    if not LOWEST_RATE <= rate <= HIGHEST_RATE or not 1 <= channels <= MOST_CHANNELS:
        raise ConfigError(
            f"a WAV file of {channels} channels and {rate} samples a second is not written; use 1 "
            f"to {MOST_CHANNELS} channels and {LOWEST_RATE} to {HIGHEST_RATE} samples a second"
        )
    data = np.clip(np.rint(frames * 32768.0), -32768, 32767).astype("<i2").tobytes()
    riff = struct.pack("<4sI4s4sI", b"RIFF", 36 + len(data), b"WAVE", b"fmt ", 16)
    form = struct.pack("<HHIIHH", PCM, channels, rate, rate * channels * 2, channels * 2, 16)
    return riff + form + struct.pack("<4sI", b"data", len(data)) + data


def chunks(raw: bytes) -> Iterator[tuple[bytes, int, int]]:
    """Name, offset and stated size of each chunk."""
    at = 12
    while at + 8 <= len(raw):
        name, size = struct.unpack_from("<4sI", raw, at)
        yield name, at + 8, size
        at += 8 + size + size % 2  # a chunk begins at an even place


def _format(chunk: bytes, where: str) -> _Format:
    if len(chunk) < 16:
        raise DataError(
            f"{where} has {len(chunk)} bytes of 'fmt ' where 16 are needed; it was cut off, so "
            f"copy it again"
        )
    kind, channels, rate, _, frame, bits = struct.unpack_from("<HHIIHH", chunk)
    if kind == EXTENSIBLE:
        if len(chunk) < 40 or chunk[26:40] != GUID_REST:
            raise DataError(
                f"{where} is of a kind that only its writer knows (an unknown GUID); write it as "
                f"PCM"
            )
        kind = int.from_bytes(chunk[24:26], "little")
    if kind not in WIDTHS:
        name = OTHER_KINDS.get(kind, "an unknown kind")
        raise DataError(
            f"{where} is a WAV file of kind {kind} ({name}); only PCM (1) and floats (3) are read, "
            f"convert it"
        )
    if bits not in WIDTHS[kind]:
        known = ", ".join(map(str, WIDTHS[kind]))
        raise DataError(
            f"{where} says that a sample has {bits} bits; of its kind, {known} can be read"
        )
    if not 1 <= channels <= MOST_CHANNELS:
        raise DataError(
            f"{where} says that it has {channels} channels; 1 to {MOST_CHANNELS} can be read"
        )
    if not LOWEST_RATE <= rate <= HIGHEST_RATE:
        raise DataError(
            f"{where} says that it has {rate} samples a second; {LOWEST_RATE} to {HIGHEST_RATE} "
            f"can be read"
        )
    if frame != channels * bits // 8:
        raise DataError(
            f"{where} says that {channels} samples of {bits} bits have {frame} bytes, and they "
            f"have {channels * bits // 8}; its header is damaged"
        )
    return _Format(kind, channels, rate, bits, frame)


def _data(raw: bytes, begin: int, size: int, form: _Format, where: str) -> memoryview:
    """The bytes of all whole frames."""
    there = len(raw) - begin
    # RIFF's size would be right if the writer had come back to fill both in
    if size == 0 and struct.unpack_from("<I", raw, 4)[0] + 8 != len(raw):
        size = UNKNOWN_SIZE
    if size > there:
        if size < UNKNOWN_SIZE:
            raise DataError(
                f"{where} says that {size:,} bytes of samples follow, and {there:,} do; copy it "
                f"again"
            )
        size = there - there % form.frame
    elif size % form.frame:
        raise DataError(
            f"{where} has {size:,} bytes of samples, which {form.frame} a frame do not divide; "
            f"copy it again"
        )
    if size == 0:
        raise DataError(f"{where} holds no sound at all; remove it")
    return memoryview(raw)[begin : begin + size]


def _samples(data: memoryview, form: _Format, where: str) -> np.ndarray:
    if form.kind == FLOAT:
        values = np.frombuffer(data, f"<f{form.bits // 8}")
        if not np.isfinite(values).all():
            n = (~np.isfinite(values)).sum()
            raise DataError(
                f"{where} has {n:,} samples that are infinite or no numbers; write it anew"
            )
        samples = np.clip(values, -1.0, 1.0).astype(np.float32)
    elif form.bits == 8:  # the only ones without a sign
        samples = (np.frombuffer(data, np.uint8).astype(np.float32) - 128) / 128
    elif form.bits == 24:
        wide = np.zeros((len(data) // 3, 4), np.uint8)  # as the upper three bytes of 32 bits
        wide[:, 1:] = np.frombuffer(data, np.uint8).reshape(-1, 3)
        samples = wide.view("<i4")[:, 0] / np.float32(1 << 31)
    else:
        samples = np.frombuffer(data, f"<i{form.bits // 8}") / np.float32(1 << (form.bits - 1))
    return samples.astype(np.float32, copy=False).reshape(-1, form.channels)
