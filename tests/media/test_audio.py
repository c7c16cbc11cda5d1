"""Clips, spectrograms and patches of sound: every length fits, bands are normal, what is saved is
what is read."""

import json
import math

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from glassformer.core.errors import ConfigError, DataError
from glassformer.media import audio
from glassformer.media.audio import AudioConfig, AudioReader, log_mel, mel_filters
from glassformer.media.audio_file import resample

SMALL = {"rate": 8_000, "seconds": 0.1, "n_mels": 8, "patch": [5, 4]}


def config(**fields) -> AudioConfig:
    return AudioConfig.parse({**SMALL, **fields})


def reader(**fields) -> AudioReader:
    return AudioReader(config(**fields))


def noise(*shape: int, seed=0) -> np.ndarray:
    return (np.random.default_rng(seed).standard_normal(shape) * 0.1).astype(np.float32)


# Clips


@given(
    st.integers(0, 2_000),
    st.sampled_from([8_000, 11_025, 16_000]),
    st.sampled_from(["centre", "start"]),
)
def test_every_recording_becomes_a_clip_and_none_is_cut_unseen(length, rate, position):
    one = reader(position=position)
    samples = noise(length) + np.float32(1)
    clip = one.clip(samples, rate)
    assert clip.shape == (800,)
    assert clip.dtype == np.float32
    whole = resample(samples, rate, 8_000)
    assert one.cuts(length, rate) == (len(whole) > 800)
    kept = min(len(whole), 800)
    assert np.count_nonzero(clip) == kept
    begin = 0 if position == "start" else (len(whole) - kept) // 2
    assert np.array_equal(clip[clip != 0], whole[begin : begin + kept])
    silent = np.flatnonzero(clip == 0)
    before = 0 if position == "start" else (800 - kept) // 2
    assert (silent < before).sum() == before


@pytest.mark.parametrize("length", [10, 799, 800, 801, 1_500])
def test_the_middle_of_a_recording_is_the_middle_of_its_clip(length):
    samples = np.zeros(length, np.float32)
    samples[length // 2] = 1
    assert abs(int(reader().clip(samples, 8_000).argmax()) - 400) <= 1


# Spectrograms and patches


def test_shapes_follow_from_the_settings():
    one = reader(seconds=0.2, patch=[10, 0])
    assert (one.config.n_samples, one.config.frames, one.config.n_fft) == (1_600, 20, 256)
    assert (one.grid, one.n_patches, one.patch_width) == ((2, 1), 2, 80)
    two = reader()
    assert (two.grid, two.n_patches, two.patch_width) == ((2, 2), 4, 20)
    spectrogram = two.resolve(noise(2, 800)).spectrogram(noise(2, 800))
    assert spectrogram.shape == (2, 10, 8)
    patches = two.patches(spectrogram)
    assert patches.shape == (2, 4, 20)
    assert torch.equal(
        patches[1, 1], spectrogram[1, :5, 4:].flatten()
    )  # the next patch is the next bands
    assert torch.equal(patches[1, 2], spectrogram[1, 5:, :4].flatten())


def test_every_band_of_the_training_clips_is_normal():
    clips = noise(5, 800) * np.linspace(0.2, 3, 5, dtype=np.float32)[:, None]
    one = reader().resolve(clips)
    spectrogram = one.spectrogram(clips).double()
    torch.testing.assert_close(spectrogram.mean((0, 1)), torch.zeros(8).double(), rtol=0, atol=1e-5)
    torch.testing.assert_close(
        spectrogram.std((0, 1), correction=0), torch.ones(8).double(), rtol=1e-5, atol=0
    )
    raw = log_mel(torch.from_numpy(clips), mel_filters(8, 256, 8_000, 0.0, 4_000.0), 200, 80, 1e-8)
    np.testing.assert_allclose(one.config.mean, raw.double().mean((0, 1)), rtol=1e-6)
    assert one.resolve(noise(3, 800)) is one  # what is set stays


def test_clips_do_not_see_each_other(monkeypatch):
    clips = noise(7, 800)
    one = reader().resolve(clips)
    together = one.spectrogram(clips)
    monkeypatch.setattr(audio, "CLIPS_AT_ONCE", 3)
    torch.testing.assert_close(one.spectrogram(clips), together)
    torch.testing.assert_close(one.spectrogram(clips[4:5])[0], together[4])
    other = reader().resolve(clips)
    np.testing.assert_allclose(
        other.config.mean, one.config.mean, rtol=1e-6
    )  # float32 in another order
    np.testing.assert_allclose(
        other.config.std, one.config.std, rtol=1e-6
    )  # float32 in another order
    assert one.spectrogram(clips[:0]).shape == (0, 10, 8)


def test_bands_that_hold_nothing_are_divided_by_one():
    one = reader().resolve(np.zeros((2, 800), np.float32))
    assert one.config.std == (1.0,) * 8
    np.testing.assert_allclose(one.config.mean, math.log(1e-8), rtol=1e-6)
    assert torch.isfinite(one.spectrogram(noise(1, 800))).all()


def test_a_map_of_clips_on_disk_is_read_as_it_is(tmp_path):
    np.save(tmp_path / "clips.npy", noise(3, 800))
    stored = np.load(tmp_path / "clips.npy", mmap_mode="r")
    one = reader().resolve(stored)
    torch.testing.assert_close(one.spectrogram(stored), one.spectrogram(noise(3, 800)))


def test_what_is_not_resolved_says_so(tmp_path):
    for use in (lambda: reader().spectrogram(noise(1, 800)), lambda: reader().save(tmp_path)):
        with pytest.raises(
            ConfigError, match=r"processor.audio.mean and processor.audio.std .* `resolve`"
        ):
            use()
    with pytest.raises(DataError, match="no training clips"):
        reader().resolve(noise(0, 800))


# Saved and read


def test_what_is_saved_is_what_is_read(tmp_path):
    one = reader(low=50.0, position="start").resolve(noise(4, 800))
    one.save(tmp_path)
    for found in (AudioReader.load(tmp_path), AudioReader.load(tmp_path / "audio.json")):
        assert found.config == one.config
        assert torch.equal(
            found.spectrogram(noise(2, 800, seed=1)), one.spectrogram(noise(2, 800, seed=1))
        )


def test_a_file_of_an_earlier_version_keeps_its_spectrograms_and_refuses_other_rates(tmp_path):
    one = reader().resolve(noise(4, 800))
    one.save(tmp_path)
    values = json.loads((tmp_path / "audio.json").read_text())
    assert values.pop("resampler") == "soxr"
    (tmp_path / "audio.json").write_text(json.dumps(values))
    old = AudioReader.load(tmp_path)
    samples = noise(800)
    clips = old.clip(samples, 8_000)[None]
    assert np.array_equal(clips[0], one.clip(samples, 8_000))
    assert torch.equal(old.spectrogram(clips), one.spectrogram(clips))
    with pytest.raises(ConfigError, match=r"Audio of 16000 .* of 8000 .* give audio of 8000, or"):
        old.clip(samples, 16_000)
    old.save(tmp_path)
    assert AudioReader.load(tmp_path).config.resampler is None


def saved(**changes) -> dict:
    values = reader().resolve(noise(4, 800)).config.model_dump() | changes
    return {name: value for name, value in values.items() if value != "gone"}


DAMAGE = {
    "nothing": (b"", "not JSON"),
    "no JSON": (b"\xff{", "not JSON"),
    "a number": (b"1" * 5000, "not"),
    "so deep": (b"[" * 100_000, "not"),
    "no object": (b"[]", "not a JSON object"),
    "another key": (json.dumps(saved(ratr=1)), "audio.ratr; did you mean 'rate'"),
    "a lost key": (json.dumps(saved(mean="gone")), "mean"),
    "never resolved": (json.dumps(saved(mean=None, std=None)), "audio.mean"),
    "a rate of 1": (json.dumps(saved(rate=1)), "audio.rate"),
    "an endless mean": (json.dumps(saved(mean=[math.inf] * 8)), "audio.mean"),
    "too few means": (json.dumps(saved(mean=[0.0])), "n_mels = 8"),
    "bands too narrow": (
        json.dumps(saved(n_mels=300, mean=[0.0] * 300, std=[1.0] * 300, patch=[5, 0])),
        "mel bands",
    ),
    "too large": (b" " * (1 << 20) + b"{}", "has over 1 MB"),
}


@pytest.mark.parametrize("damage", DAMAGE)
def test_a_damaged_file_is_one_sentence(tmp_path, damage):
    content, words = DAMAGE[damage]
    (tmp_path / "audio.json").write_bytes(
        content if isinstance(content, bytes) else content.encode()
    )
    with pytest.raises(DataError) as caught:
        AudioReader.load(tmp_path)
    message = str(caught.value)
    assert str(tmp_path / "audio.json") in message
    assert words in message
    assert "\n" not in message


def test_a_missing_file_is_one_sentence(tmp_path):
    with pytest.raises(DataError, match=r"cannot read .*none/audio\.json"):
        AudioReader.load(tmp_path / "none" / "audio.json")


# Settings


WRONG = {
    "no such rate": ({"rate": 4_000}, "audio.rate"),
    "above half the rate": ({"high": 5_000}, "high = 5000 Hz do not exist at 8000"),
    "upside down": ({"low": 3_000, "high": 2_000}, "low = 3000"),
    "no frame": ({"seconds": 0.005}, "gives 40 samples, in which no frame"),
    "no hop": ({"hop_ms": 0.01}, "hop_ms = 0.01"),
    "patches of 3 frames": (
        {"patch": [3, 0]},
        "patch of 3 frames must divide the 10 frames of a clip; set seconds to 0.09",
    ),
    "patches of 64 frames": ({"patch": [64, 0]}, "set seconds to 0.64,"),
    "patches of no frame": ({"patch": [0, 0]}, "patch of 0 frames"),
    "patches of 3 bands": ({"patch": [5, 3]}, "patch of 3 bands must divide the 8 bands"),
    "patches of less": ({"patch": [5, -4]}, "patch of -4 bands"),
    "half of a pair": ({"mean": [0.0] * 8}, "belong together"),
    "too many": ({"mean": [0.0] * 9, "std": [1.0] * 9}, "n_mels = 8"),
    "divided by nothing": ({"mean": [0.0] * 8, "std": [1.0] * 7 + [0.0]}, "above 0"),
    "no such place": ({"position": "end"}, "audio.position"),
    "misspelt": ({"hop": 10}, "did you mean 'hop_ms'"),
}


@pytest.mark.parametrize("case", WRONG)
def test_settings_that_cannot_be_are_one_sentence(case):
    fields, words = WRONG[case]
    with pytest.raises(ConfigError) as caught:
        config(**fields)
    assert words in str(caught.value)
    assert "\n" not in str(caught.value)


@given(st.floats(0.05, 3), st.integers(1, 40))
def test_the_length_that_an_error_proposes_is_accepted(seconds, size):
    try:
        config(seconds=seconds, patch=[size, 0])
    except ConfigError as problem:
        proposed = float(str(problem).partition("set seconds to ")[2].partition(",")[0])
        assert config(seconds=proposed, patch=[size, 0]).frames % size == 0
