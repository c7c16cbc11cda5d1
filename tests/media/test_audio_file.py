"""Audio files of every format; cut, damaged and lying ones are one sentence; writing; resampling."""

import contextlib
import io
import math
import struct
import subprocess
import sys

import numpy as np
import pytest
import soundfile
from hypothesis import given
from hypothesis import strategies as st

from glassformer.core.errors import ConfigError, DataError
from glassformer.media import audio_file
from glassformer.media.audio_file import read_audio, resample, write_wav

RATE, LENGTH = 16_000, 4_000
FORMATS = {
    "wav of 8 bits": ("WAV", "PCM_U8", 2.0**-7),
    "wav of 16 bits": ("WAV", "PCM_16", 2.0**-15),
    "wav of 24 bits": ("WAVEX", "PCM_24", 2.0**-22),
    "wav of floats": ("WAV", "FLOAT", 1e-7),
    "wav of doubles": ("WAV", "DOUBLE", 1e-7),
    "wav of mu-law": ("WAV", "ULAW", 0.03),
    "wav of A-law": ("WAVEX", "ALAW", 0.03),
    "wav of ADPCM": ("WAV", "IMA_ADPCM", 0.3),
    "rf64": ("RF64", "PCM_16", 2.0**-15),
    "flac": ("FLAC", "PCM_24", 2.0**-22),
    "vorbis": ("OGG", "VORBIS", 0.4),
    "opus": ("OGG", "OPUS", 0.4),
    "mp3": ("MP3", "MPEG_LAYER_III", 0.4),
    "aiff": ("AIFF", "PCM_16", 2.0**-15),
    "aiff of floats": ("AIFF", "FLOAT", 1e-7),
    "au": ("AU", "PCM_16", 2.0**-15),
}
"""Format, subtype and the largest error of a sample."""
every = pytest.mark.parametrize("name", FORMATS)


def sound(channels: int = 1, length: int = LENGTH) -> np.ndarray:
    noise = np.random.default_rng(0).standard_normal((length, channels)) * 0.05
    tone = 0.3 * np.sin(2 * np.pi * 440 * np.arange(length) / RATE)
    return np.clip(noise + tone[:, None], -1, 1)


def encoded(name: str, samples: np.ndarray | None = None, rate: int = RATE, **options) -> bytes:
    out, (form, subtype, _) = io.BytesIO(), FORMATS[name]
    samples = sound() if samples is None else samples
    soundfile.write(out, samples, rate, subtype, format=form, **options)
    return out.getvalue()


WHOLE = {name: encoded(name) for name in FORMATS}


def changed(raw: bytes, at: int, form: str, *values: int) -> bytes:
    out = bytearray(raw)
    struct.pack_into(form, out, at, *values)
    return bytes(out)


def refused(raw: bytes) -> str:
    """The sentence about a file that cannot be read."""
    with pytest.raises(DataError) as caught:
        read_audio(raw, "a/sound.x")
    message = str(caught.value)
    assert message.startswith("a/sound.x ")
    assert "\n" not in message
    return message


@every
@pytest.mark.parametrize("channels", [1, 2])
def test_every_format_gives_the_mean_of_its_channels(name, channels):
    samples = sound(channels)
    found, rate = read_audio(encoded(name, samples), "x")
    assert (rate, found.dtype, found.ndim) == (RATE, np.float32, 1)
    # ADPCM fills its last block
    assert len(found) == LENGTH or (name == "wav of ADPCM" and len(found) > LENGTH)
    assert np.abs(found[:LENGTH] - samples.mean(1)).max() <= FORMATS[name][2]


@given(st.sampled_from(sorted(FORMATS)), st.floats(0, 1, exclude_max=True))
def test_no_format_is_read_when_it_is_cut_off(name, share):
    refused(WHOLE[name][: int(share * len(WHOLE[name]))])


@given(st.sampled_from(sorted(FORMATS)), st.integers(0, 2**32 - 1))
def test_a_mutated_file_is_a_sentence_or_samples(name, seed):
    random, raw = np.random.default_rng(seed), bytearray(WHOLE[name])
    for _ in range(random.integers(1, 8)):
        at, width = int(random.integers(random.choice([60, len(raw)]))), int(random.integers(60))
        raw[at : at + width] = random.bytes(int(random.integers(60)))
    with contextlib.suppress(DataError):
        samples, _ = read_audio(bytes(raw), "x")
        assert len(samples) > 0
        assert np.abs(samples).max() <= 1


@given(st.binary(max_size=300))
def test_any_bytes_are_refused(raw):
    refused(raw)


@pytest.mark.parametrize("name", ["mp3", "flac"])
def test_tags_before_and_after_the_sound_are_skipped(name):
    tag, end = b"ID3\4\0\0\0\0\1\2" + bytes(130), b"TAG" + bytes(125)
    found = read_audio(tag + WHOLE[name] + end, "x")[0]
    assert np.array_equal(found, read_audio(WHOLE[name], "x")[0])


@pytest.mark.parametrize("size", [0x7FFF_F000, 0xFFFF_FFFF])
def test_a_wav_stream_without_a_length_is_read_to_its_end(size):
    raw = write_wav(sound(), RATE)
    assert len(read_audio(changed(raw, 40, "<I", size), "x")[0]) == LENGTH


@pytest.mark.parametrize("mode", ["CONSTANT", "VARIABLE"])
def test_an_mp3_without_a_table_of_its_frames_needs_a_constant_bit_rate(mode):
    samples = np.concatenate([sound(length=40_000), np.zeros((40_000, 1))])
    raw = encoded("mp3", samples, 44_100, bitrate_mode=mode, compression_level=0.5)
    at = max(raw.find(b"Xing"), raw.find(b"Info"))
    raw = changed(raw, at, "<I", 0)
    if mode == "CONSTANT":
        assert len(read_audio(raw, "x")[0]) == pytest.approx(len(samples), rel=0.05)
    else:
        refused(raw)


FLAC, WAV = WHOLE["flac"], WHOLE["wav of 16 bits"]
OTHERS = {
    "nothing": (b"", "not an audio file"),
    "text": (b"hello, world", "not an audio file, it begins with b'hello, world'; give WAV, FLAC"),
    "text of 16 bits": ("hello, world".encode("utf-16"), "no MP3 frame"),
    "no channel": (changed(WAV, 22, "<H", 0), "is cut off or damaged"),
    "a gigabyte": (changed(WAV, 40, "<I", 1 << 30), "its header does not fit its samples"),
    "two streams": (
        WHOLE["vorbis"] + WHOLE["opus"],
        "its header does not fit its samples",
    ),
    "no numbers": (encoded("wav of floats", np.array([0.1, np.nan, np.inf])), "no numbers"),
    "no sound": (encoded("aiff", np.zeros((0, 1))), "no sound"),
    "1,000 samples a second": (encoded("aiff", rate=1_000), "1000 samples a second"),
    "many samples": (changed(FLAC, 21, ">BI", FLAC[21] | 15, 2**32 - 1), "68,719,476,735 samples"),
    "silence": (encoded("flac", np.zeros(18_000_000, np.int16)), "has 18,000,000 samples"),
}


@pytest.mark.parametrize("case", OTHERS)
def test_what_cannot_be_read_is_one_sentence(case):
    raw, words = OTHERS[case]
    assert words in refused(raw)


def test_the_limit_is_checked_before_anything_is_decoded(monkeypatch):
    monkeypatch.setattr(audio_file, "MOST_SAMPLES", LENGTH)
    read_audio(FLAC, "x")
    monkeypatch.setattr(audio_file, "MOST_SAMPLES", LENGTH - 1)
    monkeypatch.delattr(soundfile.SoundFile, "read")
    assert "3,999 of all channels can be read" in refused(FLAC)


def test_samples_of_16_bits_are_written_and_read_to_the_bit():
    samples = np.arange(-32768, 32768, dtype=np.float32) / 32768
    assert np.array_equal(read_audio(write_wav(samples, RATE), "x")[0], samples)


def test_loud_samples_are_clipped():
    loud = np.array([0.5, 1.5, -3.0, 0.0])
    assert read_audio(encoded("wav of floats", loud), "x")[0].tolist() == [0.5, 1.0, -1.0, 0.0]
    found = read_audio(write_wav(loud, RATE), "x")[0]
    assert found.tolist() == [0.5, 32767 / 32768, -1.0, 0.0]


@pytest.mark.parametrize(("rate", "channels"), [(100, 1), (10**6, 1), (8_000, 65)])
def test_nothing_is_written_that_could_not_be_read(rate, channels):
    with pytest.raises(ConfigError, match=f"{channels} channels and {rate}"):
        write_wav(np.zeros((3, channels)), rate)


RATES = [(44_100, 16_000), (48_000, 16_000), (8_000, 16_000), (44_101, 48_000)]


def sine(hertz: float, rate: int, length: int) -> np.ndarray:
    return np.sin(2 * np.pi * hertz * np.arange(length) / rate + 1)


@pytest.mark.parametrize(("rate", "new_rate"), RATES)
@pytest.mark.parametrize("share", [0.01, 0.3, 0.8])
def test_a_resampled_sine_is_the_same_sine_at_the_other_times(rate, new_rate, share):
    hertz = share * min(rate, new_rate) / 2
    found = resample(sine(hertz, rate, rate // 4), rate, new_rate)
    assert found.dtype == np.float32
    assert np.abs(found - sine(hertz, new_rate, len(found)))[200:-200].max() < 5e-4


@pytest.mark.parametrize("share", [1.01, 1.3])
def test_frequencies_beyond_the_new_rate_are_removed(share):
    found = resample(sine(share * 8_000, 44_100, 22_050), 44_100, 16_000)
    assert np.abs(found[200:-200]).max() < 1e-5  # not folded down


@given(st.integers(0, 300), st.integers(1_000, 60_000), st.integers(1_000, 60_000))
def test_the_resampled_length_is_rounded_up(length, rate, new_rate):
    found = resample(np.ones(length, np.float32), rate, new_rate)
    assert found.shape == (math.ceil(length * new_rate / rate),)
    assert np.isfinite(found).all()


def test_the_same_rate_changes_nothing():
    x = np.random.default_rng(0).standard_normal(100).astype(np.float32)
    assert np.array_equal(resample(x, 8_000, 8_000), x)


def test_the_libraries_are_imported_only_when_audio_is_used():
    program = (
        "import sys\n"
        "import glassformer.processors.media.audio\n"
        "assert not {'soundfile', 'soxr', 'cffi'} & sys.modules.keys()\n"
    )
    subprocess.run([sys.executable, "-c", program], check=True)
