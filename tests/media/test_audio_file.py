"""Audio files of every format against libsndfile's own reading; cut, damaged, lying and missing
ones are one sentence."""

import io
import sys
from functools import partial

import numpy as np
import pytest
import soundfile
from hypothesis import assume, given
from hypothesis import strategies as st

from glassformer.errors import ConfigError, DataError
from glassformer.media import audio_file
from glassformer.media.audio_container import mp3_frame, ogg_checksum
from glassformer.media.audio_file import read_audio
from glassformer.media.wav import write_wav
from media.test_wav import refused as refused_by

RATE, LENGTH = 16_000, 4_000
FORMATS = {
    "flac16": ("FLAC", "PCM_16"),
    "flac24": ("FLAC", "PCM_24"),
    "vorbis": ("OGG", "VORBIS"),
    "opus": ("OGG", "OPUS"),
    "mp3": ("MP3", "MPEG_LAYER_III"),
    "aiff16": ("AIFF", "PCM_16"),
    "aiff8": ("AIFF", "PCM_U8"),
    "aiff float": ("AIFF", "FLOAT"),
    "aiff ulaw": ("AIFF", "ULAW"),
    "wav ulaw": ("WAV", "ULAW"),
    "wav alaw": ("WAVEX", "ALAW"),
    "rf64": ("RF64", "PCM_16"),
}
LOSSLESS = {"flac16": 2.0**-15, "flac24": 2.0**-22, "aiff16": 2.0**-15, "aiff float": 1e-7}
every = pytest.mark.parametrize("name", FORMATS)
names = st.sampled_from(sorted(FORMATS))


def sound(channels: int = 1) -> np.ndarray:
    noise = np.random.default_rng(0).standard_normal((LENGTH, channels)) * 0.05
    tone = 0.3 * np.sin(2 * np.pi * 440 * np.arange(LENGTH) / RATE)
    return np.clip(noise + tone[:, None], -1, 1)


def encoded(name: str, samples: np.ndarray | None = None, rate: int = RATE, **options) -> bytes:
    out, (form, subtype) = io.BytesIO(), FORMATS[name]
    samples = sound() if samples is None else samples
    soundfile.write(out, samples, rate, subtype, format=form, **options)
    return out.getvalue()


WHOLE = {name: encoded(name) for name in FORMATS}


refused = partial(refused_by, where="a/sound.x", read=read_audio)


# What is read


@every
@pytest.mark.parametrize("channels", [1, 2])
def test_as_libsndfile_reads_it(name, channels):
    raw = encoded(name, sound(channels))
    found, rate = read_audio(raw, "x")
    expected, _ = soundfile.read(io.BytesIO(raw), dtype="float32", always_2d=True)
    assert (rate, found.dtype, found.shape) == (RATE, np.float32, (LENGTH,))
    np.testing.assert_allclose(found, expected.mean(1), atol=1e-7)
    if name in LOSSLESS:
        assert np.abs(found - sound(channels).mean(1)).max() <= LOSSLESS[name]


def test_wav_is_read_by_its_content():
    found, rate = read_audio(write_wav(sound(2), RATE), "x.mp3")
    assert rate == RATE
    assert np.abs(found - sound(2).mean(1)).max() <= 2.0**-16


@pytest.mark.parametrize("name", ["mp3", "flac16"])
def test_a_tag_at_the_beginning_is_passed_over(name):
    tag = b"ID3\4\0\0\0\0\1\2" + bytes(130)
    found, _ = read_audio(tag + tag + WHOLE[name], "x")
    assert np.array_equal(found, read_audio(WHOLE[name], "x")[0])


def test_a_tag_at_the_end_is_passed_over():
    for name in ("mp3", "flac16", "vorbis", "aiff16"):
        tagged = WHOLE[name] + b"TAG" + bytes(125)
        assert np.array_equal(read_audio(tagged, "x")[0], read_audio(WHOLE[name], "x")[0])


def test_loud_floats_are_clipped():
    raw = encoded("aiff float", np.array([0.5, 1.5, -3.0, 0.0]))
    assert read_audio(raw, "x")[0].tolist() == [0.5, 1.0, -1.0, 0.0]


# Cut off or damaged


@given(names, st.floats(0, 1, exclude_max=True))
def test_no_format_is_read_when_it_is_cut_off(name, share):
    raw = WHOLE[name]
    refused(raw[: int(share * len(raw))])


@every
def test_nor_without_its_last_bytes(name):
    for missing in (1, 2, 7, 100):
        refused(WHOLE[name][:-missing])


@given(st.sampled_from(["flac16", "flac24", "vorbis", "opus"]), st.data())
def test_a_flipped_bit_is_noticed_by_checksums(name, data):
    raw = bytearray(WHOLE[name])
    at = data.draw(st.integers(0, len(raw) - 1))
    raw[at] ^= 1 << data.draw(st.integers(0, 7))
    try:
        samples, rate = read_audio(bytes(raw), "x")
    except DataError:
        return
    # FLAC's head has no checksum: a comment, a limit or a rate may have changed, the samples not
    assert name.startswith("flac")
    assert at < len(raw) // 4
    assert len(samples) == LENGTH
    assert np.array_equal(samples, read_audio(WHOLE[name], "x")[0]) or rate != RATE


@given(names, st.integers(0, 2**32 - 1))
def test_a_mutated_file_is_a_sentence_or_samples(name, seed):
    random, raw = np.random.default_rng(seed), bytearray(WHOLE[name])
    for _ in range(random.integers(1, 8)):
        at = int(random.integers(random.choice([60, len(raw)])))
        match random.integers(3):
            case 0:
                raw[at : at + 4] = random.choice([b"\xff" * 4, bytes(4), b"\x7f\xff\xff\xff"])
            case 1:
                del raw[at : at + int(random.integers(60))]
            case _:
                raw[at:at] = random.bytes(int(random.integers(60)))
    content = with_checksums(raw) if FORMATS[name][0] == "OGG" else bytes(raw)
    try:
        samples, _ = read_audio(content, "x")
    except DataError as problem:
        said = str(problem)
    else:
        said = "x " * (samples.ndim == 1 and len(samples) > 0 and bool(np.isfinite(samples).all()))
    assert said.startswith("x ")


def with_checksums(raw: bytearray) -> bytes:
    """An Ogg file whose pages have true checksums again."""
    at = 0
    while raw[at : at + 4] == b"OggS" and at + 27 < len(raw):
        count = raw[at + 26]
        size = 27 + count + sum(raw[at + 27 : at + 27 + count])
        raw[at + 22 : at + 26] = bytes(4)
        raw[at + 22 : at + 26] = ogg_checksum(bytes(raw[at : at + size]))
        at += size
    return bytes(raw)


# MP3 without a table of its frames


def without_table(**options) -> tuple[bytes, list[int]]:
    """An MP3 file without its first frame, which tells how many there are; where frames begin."""
    raw, at, begins = encoded("mp3", **options), 0, []
    while (frame := mp3_frame(raw, at)) is not None:
        begins.append(at)
        at += frame.size
    assert at == len(raw)
    return raw[begins[1] :], [begin - begins[1] for begin in begins[1:]]


@pytest.mark.parametrize("rate", [8_000, 16_000, 44_100, 48_000])
def test_a_constant_bit_rate_needs_no_table_and_a_cut_between_frames_cannot_be_known(rate):
    raw, begins = without_table(rate=rate, bitrate_mode="CONSTANT", compression_level=0.5)
    samples = 1152 if rate > 24_000 else 576
    assert len(read_audio(raw, "x")[0]) == len(begins) * samples
    for number, begin in enumerate(begins[2:], 2):
        # the only cut of any format that is read
        assert len(read_audio(raw[:begin], "x")[0]) == number * samples
        refused(raw[: begin - 1])
        refused(raw[: begin + 1])


def test_a_variable_bit_rate_needs_a_table():
    samples = np.concatenate([*[sound()] * 5, np.zeros((20_000, 1))])
    raw, _ = without_table(samples=samples, bitrate_mode="VARIABLE", compression_level=0.5)
    assert "without a table" in refused(raw)


def test_frames_that_the_table_does_not_know_are_noticed():
    raw = bytearray(WHOLE["mp3"])
    at = max(raw.find(b"Xing"), raw.find(b"Info"))
    raw[at + 8 : at + 12] = (999).to_bytes(4, "big")
    assert "says that it has 999 frames" in refused(bytes(raw))


# Sizes


def test_a_head_that_claims_too_much_is_refused_before_anything_is_decoded(monkeypatch):
    raw = bytearray(WHOLE["flac16"])
    raw[21] |= 0x0F
    raw[22:26] = b"\xff" * 4
    monkeypatch.delattr(soundfile.SoundFile, "read")
    assert "68,719,476,735 samples by its header, and 268,435,456" in refused(bytes(raw))


def test_silence_that_grows_implausibly_is_refused_before_anything_is_decoded(monkeypatch):
    raw = encoded("flac16", np.zeros(18_000_000, np.int16))
    assert len(raw) < 100_000
    monkeypatch.delattr(soundfile.SoundFile, "read")
    message = refused(raw)
    assert "to 18,000,000 samples, an implausible ratio" in message


def test_the_limits_are_those_named(monkeypatch):
    raw = WHOLE["flac16"]
    monkeypatch.setattr(audio_file, "MOST_SAMPLES", LENGTH)
    read_audio(raw, "x")
    monkeypatch.setattr(audio_file, "MOST_SAMPLES", LENGTH - 1)
    assert "3,999 of all channels can be read" in refused(raw)


def test_a_stream_that_was_never_finished_does_not_say_how_long_it_is():
    raw = bytearray(WHOLE["flac16"])
    raw[21] &= 0xF0
    raw[22:26] = bytes(4)
    assert "does not say how long it is" in refused(bytes(raw))


# Kinds


OGG, AIFF = WHOLE["vorbis"], WHOLE["aiff16"]
LARGER = bytearray(AIFF)
LARGER[AIFF.index(b"COMM") + 10 : AIFF.index(b"COMM") + 14] = (LENGTH + 1).to_bytes(4, "big")
OTHERS = {
    "nothing": (b"", "is empty"),
    "text": (b"hello, world", "not an audio file, it begins with b'hello, world'; give WAV, FLAC"),
    "MP4": (b"\0\0\0\x20ftypM4A " + bytes(99), "of the kind MP4"),
    "RF64 alone": (b"RF64" + bytes(99), "not an audio file"),
    "WebM": (b"\x1a\x45\xdf\xa3" + bytes(99), "of the kind Matroska"),
    "a tag alone": (b"ID3\4\0\0\0\0\0\0" + bytes(99), "no MP3 frame behind its ID3 tag"),
    "a chain": (OGG + OGG, "several streams, one after another"),
    "Ogg of another codec": (OGG.replace(b"\1vorbis", b"\1theora"), "neither Vorbis nor Opus"),
    "two in one": (
        with_checksums(bytearray(OGG[:14] + b"abcd" + OGG[18:])),
        "several streams; write the one",
    ),
    "AIFF that says more": (bytes(LARGER), "4,001 samples, and 4,000 can be decoded"),
    "AIFF without COMM": (AIFF.replace(b"COMM", b"XXXX"), "COMM is missing"),
    "AIFF without SSND": (AIFF.replace(b"SSND", b"XXXX"), "SSND is missing"),
    "no numbers": (encoded("aiff float", np.array([0.1, np.nan, np.inf])), "2 samples"),
    "no sound": (encoded("aiff16", np.zeros((0, 1))), "no sound"),
    "1,000 samples a second": (encoded("aiff16", rate=1_000), "1000 samples a second"),
}


@pytest.mark.parametrize("case", OTHERS)
def test_what_cannot_be_read_is_one_sentence(case):
    raw, words = OTHERS[case]
    assert words in refused(raw)


def test_aiff_of_compressed_samples_is_refused():
    out = io.BytesIO()
    soundfile.write(out, sound(), RATE, "IMA_ADPCM", format="AIFF")
    assert "as IMA_ADPCM; write it as AIFF of PCM" in refused(out.getvalue())


def test_a_page_checksum_is_that_of_the_format():
    table = []
    for byte in range(256):  # bit by bit, as RFC 3533 defines it
        value = byte << 24
        for _ in range(8):
            value = (value << 1 ^ (0x04C11DB7 if value & 1 << 31 else 0)) & 0xFFFFFFFF
        table.append(value)
    page, value = bytes(range(256)) * 2, 0
    for byte in page:
        value = (value << 8 & 0xFFFFFFFF) ^ table[value >> 24 ^ byte]
    assert ogg_checksum(page) == value.to_bytes(4, "little")


# Without the extra


@every
def test_without_soundfile_one_sentence_names_the_file_its_format_and_the_extra(name, monkeypatch):
    monkeypatch.setitem(sys.modules, "soundfile", None)
    with pytest.raises(ConfigError) as caught:
        read_audio(WHOLE[name], "a/sound.x")
    message, kind = str(caught.value), FORMATS[name][0]
    assert message.startswith("a/sound.x is a")
    named = {"OGG": "Ogg", "WAVEX": "WAV", "RF64": "WAV"}.get(kind, kind)
    assert f" {named} file" in message
    assert "pip install 'glassformer[audio]'" in message
    assert read_audio(write_wav(sound(), RATE), "x")[1] == RATE


@given(st.binary(max_size=300))
def test_any_bytes_are_refused(raw):
    assume(not raw.startswith(b"RIFF"))
    refused(raw)
