"""WAV files: every width against SciPy and the standard library, and one sentence for every header
that lies."""

import contextlib
import io
import struct
import wave

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.io import wavfile

from glassformer.errors import ConfigError, DataError
from glassformer.media.wav import (
    EXTENSIBLE,
    FLOAT,
    GUID_REST,
    PCM,
    UNKNOWN_SIZE,
    read_wav,
    write_wav,
)

RATES = st.sampled_from([4_000, 8_000, 11_025, 16_000, 22_050, 44_100, 48_000, 192_000])


def chunk(name: bytes, content: bytes) -> bytes:
    return name + struct.pack("<I", len(content)) + content + b"\0" * (len(content) % 2)


def head(kind=PCM, channels=1, rate=8_000, bits=16, frame=None) -> bytes:
    frame = channels * bits // 8 if frame is None else frame
    return struct.pack("<HHIIHH", kind, channels, rate, rate * frame % 2**32, frame, bits)


def riff(*chunks: bytes) -> bytes:
    body = b"WAVE" + b"".join(chunks)
    return b"RIFF" + struct.pack("<I", len(body)) + body


def wav(data: bytes, **fields) -> bytes:
    return riff(chunk(b"fmt ", head(**fields)), chunk(b"data", data))


def refused(raw: bytes, where="sound.wav", read=read_wav) -> str:
    """What is said of a file that is refused: one line that begins with its name."""
    with pytest.raises(DataError) as caught:
        read(raw, where)
    message = str(caught.value)
    assert message.startswith(where)
    assert "\n" not in message
    return message


def frames(dtype, low, high):
    shapes = st.tuples(st.integers(1, 20), st.integers(1, 3))
    numbers = st.integers(low, high)
    return shapes.flatmap(
        lambda shape: st.lists(
            numbers, min_size=shape[0] * shape[1], max_size=shape[0] * shape[1]
        ).map(lambda values: np.array(values, dtype).reshape(shape))
    )


# Every width, against SciPy (which writes all but 24 bits) and against the definition


@given(frames(np.int16, -(2**15), 2**15 - 1), RATES)
def test_sixteen_bits_against_the_standard_library(values, rate):
    out = io.BytesIO()
    with wave.open(out, "wb") as file:
        file.setnchannels(values.shape[1])
        file.setsampwidth(2)
        file.setframerate(rate)
        file.writeframes(values.astype("<i2").tobytes())
    samples, found = read_wav(out.getvalue(), "x")
    assert found == rate
    assert samples.dtype == np.float32
    assert np.array_equal(samples, values.astype(np.float64) / 2**15)


@pytest.mark.parametrize(
    ("dtype", "scale"),
    [(np.int16, 2.0**15), (np.int32, 2.0**31), (np.float32, 1.0), (np.float64, 1.0)],
)
def test_other_widths_as_scipy_writes_them(dtype, scale):
    random = np.random.default_rng(0)
    drawn = random.uniform(-1, 1, (50, 2))
    values = (drawn * (scale - 1)).astype(dtype) if scale > 1 else drawn.astype(dtype)
    out = io.BytesIO()
    wavfile.write(out, 22_050, values)
    samples, rate = read_wav(out.getvalue(), "x")
    assert rate == 22_050
    assert samples.shape == (50, 2)
    assert np.array_equal(samples, (values.astype(np.float64) / scale).astype(np.float32))


@given(frames(np.uint8, 0, 255))
def test_eight_bits_have_no_sign(values):
    samples, _ = read_wav(wav(values.tobytes(), channels=values.shape[1], bits=8), "x")
    assert np.array_equal(samples, (values.astype(np.float64) - 128) / 128)


@given(frames(np.int32, -(2**23), 2**23 - 1))
def test_twenty_four_bits(values):
    data = b"".join(int(value).to_bytes(3, "little", signed=True) for value in values.ravel())
    raw = wav(data, channels=values.shape[1], bits=24)
    samples, _ = read_wav(raw, "x")
    assert np.array_equal(samples, values.astype(np.float64) / 2**23)
    _, theirs = wavfile.read(io.BytesIO(raw))  # as the upper bytes of 32 bits
    assert np.array_equal(samples.reshape(theirs.shape), theirs.astype(np.float64) / 2**31)


@given(frames(np.int16, -(2**15), 2**15 - 1), RATES)
def test_what_is_written_is_read_and_written_again(values, rate):
    raw = write_wav(values / 2.0**15, rate)
    samples, found = read_wav(raw, "x")
    assert found == rate
    assert np.array_equal(samples * 2**15, values)
    assert write_wav(samples, rate) == raw
    _, theirs = wavfile.read(io.BytesIO(raw))
    assert np.array_equal(theirs.reshape(values.shape), values)


def test_one_channel_may_be_a_plain_row_and_what_is_too_loud_is_clipped():
    samples, _ = read_wav(write_wav(np.array([0.5, 2.0, -2.0, 1.0], np.float32), 8_000), "x")
    assert samples[:, 0].tolist() == [0.5, 32767 / 32768, -1.0, 32767 / 32768]
    loud, _ = read_wav(wav(np.array([1.5, -7.0, 0.25], "<f4").tobytes(), kind=FLOAT, bits=32), "x")
    assert loud[:, 0].tolist() == [1.0, -1.0, 0.25]


@pytest.mark.parametrize(("rate", "channels"), [(100, 1), (10**6, 1), (8_000, 65)])
def test_nothing_is_written_that_could_not_be_read(rate, channels):
    with pytest.raises(ConfigError, match=f"{channels} channels and {rate}"):
        write_wav(np.zeros((3, channels)), rate)


@pytest.mark.parametrize(("kind", "bits", "dtype"), [(PCM, 16, "<i2"), (FLOAT, 32, "<f4")])
def test_the_extensible_form_says_the_kind_in_a_guid(kind, bits, dtype):
    data = (np.array([1, -2, 3, -4]) if kind == PCM else np.array([0.1, -0.2, 0.3, -0.4])).astype(
        dtype
    )
    plain, _ = read_wav(wav(data.tobytes(), kind=kind, channels=2, bits=bits), "x")
    tail = struct.pack("<HHIH", 22, bits, 3, kind) + GUID_REST
    form = head(kind=EXTENSIBLE, channels=2, bits=bits) + tail
    samples, _ = read_wav(riff(chunk(b"fmt ", form), chunk(b"data", data.tobytes())), "x")
    assert np.array_equal(samples, plain)
    other = chunk(b"fmt ", form[:-1] + b"\x72")
    assert "GUID" in refused(riff(other, chunk(b"data", data.tobytes())))
    assert "GUID" in refused(riff(chunk(b"fmt ", form[:20]), chunk(b"data", data.tobytes())))


# Other chunks, odd sizes, streams


def test_other_chunks_are_passed_over_also_those_of_odd_size():
    data = np.array([1, 2, 3], "<i2").tobytes()
    form, odd = chunk(b"fmt ", head()), chunk(b"LIST", b"odd")
    plain, _ = read_wav(wav(data), "x")
    for chunks in ((odd, form, chunk(b"data", data)), (form, odd, odd, chunk(b"data", data), odd)):
        assert np.array_equal(read_wav(riff(*chunks), "x")[0], plain)
    bytes_of_three = wav(b"\x80\x81\x82", bits=8)
    assert np.array_equal(
        read_wav(bytes_of_three, "x")[0], read_wav(bytes_of_three[:-1], "x")[0]
    )  # its padding


@pytest.mark.parametrize("size", [0, UNKNOWN_SIZE, 0x8000_0000, 0xFFFF_FFFF])
@pytest.mark.parametrize("outer", [0, 0xFFFF_FFFF])
def test_a_stream_without_a_length_is_read_to_its_end(size, outer):
    data = np.array([5, -6, 7], "<i2").tobytes()
    raw = (
        b"RIFF"
        + struct.pack("<I", outer)
        + b"WAVE"
        + chunk(b"fmt ", head())
        + b"data"
        + struct.pack("<I", size)
    )
    samples, _ = read_wav(raw + data + b"\1", "x")  # the last byte is half a sample
    assert (samples[:, 0] * 2**15).tolist() == [5, -6, 7]
    assert "no sound" in refused(raw)


def test_a_file_without_sound_stays_without_although_chunks_follow():
    assert "no sound" in refused(
        riff(chunk(b"fmt ", head()), chunk(b"data", b""), chunk(b"LIST", b"abcd"))
    )


# Headers that lie

GOOD = wav(bytes(range(40)), channels=2)
LIES = {
    "another file": (b"\x89PNG" + GOOD, "not a WAV file"),
    "an AVI": (GOOD[:8] + b"AVI " + GOOD[12:], "not a WAV file"),
    "nothing": (b"", "not a WAV file"),
    "twelve bytes": (GOOD[:12], "'fmt '"),
    "no form": (riff(chunk(b"LIST", b"ab")), "'fmt '"),
    "no data": (riff(chunk(b"fmt ", head())), "'data'"),
    "data first": (riff(chunk(b"data", b"abcd"), chunk(b"fmt ", head())), "before the chunk"),
    "half a form": (riff(chunk(b"fmt ", head()[:10]), chunk(b"data", b"abcd")), "10 bytes"),
    "more than there is": (GOOD[:-7], "40 bytes of samples follow, and 33 do"),
    "a gigabyte": (GOOD[:40] + struct.pack("<I", 2**30) + GOOD[44:], "1,073,741,824"),
    "half a frame": (wav(bytes(range(39)), channels=2), "39 bytes"),
    "no channel": (wav(b"abcd", channels=0), "0 channels"),
    "too many channels": (wav(b"abcd" * 1000, channels=65535, frame=4), "65535 channels"),
    "a frame of nothing": (wav(b"abcd", frame=0), "have 0 bytes, and they have 2"),
    "a frame too wide": (wav(b"abcd", frame=65535), "65535 bytes"),
    "no rate": (wav(b"abcd", rate=0), "0 samples a second"),
    "a rate of 4 GHz": (wav(b"abcd", rate=2**32 - 1), "4294967295 samples"),
    "12 bits": (wav(b"abcd", bits=12, frame=2), "12 bits"),
    "floats of 16 bits": (wav(b"abcd", kind=FLOAT), "16 bits"),
    "ADPCM": (wav(b"abcd", kind=2, bits=8), "ADPCM"),
    "a kind of its own": (wav(b"abcd", kind=999), "unknown kind"),
    "no numbers": (
        wav(np.array([0, np.nan, np.inf], "<f4").tobytes(), kind=FLOAT, bits=32),
        "2 samples",
    ),
    "no sound": (wav(b""), "no sound"),
}


@pytest.mark.parametrize("lie", LIES)
def test_one_sentence_for_each_lie(lie):
    raw, words = LIES[lie]
    assert words in refused(raw)


@given(
    st.sampled_from([16, 8, 24, 32]),
    st.lists(st.tuples(st.integers(0, 100), st.integers(0, 255)), max_size=4),
    st.integers(0, 200),
)
def test_garbled_bytes_are_samples_or_one_sentence(bits, changes, length):
    raw = bytearray(wav(bytes(range(48)), channels=2, bits=bits))
    for place, value in changes:
        raw[place % len(raw)] = value
    with contextlib.suppress(DataError):
        samples, rate = read_wav(bytes(raw[:length] if length > 30 else raw), "x")
        assert samples.dtype == np.float32
        assert 0 < samples.size <= len(raw)
        assert np.abs(samples).max() <= 1
        assert 4_000 <= rate <= 192_000


@given(st.binary(max_size=80))
def test_any_bytes_behind_the_mark_are_samples_or_one_sentence(rest):
    for raw in (rest, b"RIFF\0\0\0\0WAVE" + rest, GOOD[:36] + rest):
        with contextlib.suppress(DataError):
            read_wav(raw, "x")
