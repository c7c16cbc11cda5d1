"""Mel filters against transformers, spectrograms against their definition."""

import math

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from transformers.audio_utils import mel_filter_bank

from glassformer.core.errors import ConfigError
from glassformer.media.audio import (
    hertz,
    log_mel,
    mel,
    mel_filters,
)


def noise(*shape: int, seed=0, dtype=torch.float64) -> torch.Tensor:
    return torch.from_numpy(np.random.default_rng(seed).standard_normal(shape)).to(dtype)


# The mel scale


@pytest.mark.parametrize("pair", [(0.0, 0.0), (200.0, 3.0), (1_000.0, 15.0), (6_400.0, 42.0)])
def test_places_on_slaneys_scale(pair):
    frequency, place = torch.tensor(pair, dtype=torch.float64)
    torch.testing.assert_close(mel(frequency), place)


@given(st.floats(0, 24_000))
def test_hertz_is_the_inverse_of_mel(frequency):
    f = torch.tensor([frequency], dtype=torch.float64)
    torch.testing.assert_close(hertz(mel(f)), f)


@pytest.mark.parametrize(
    ("n_mels", "n_fft", "rate", "low", "high"),
    [
        (64, 512, 16_000, 0.0, 8_000.0),
        (40, 256, 8_000, 60.0, 3_800.0),
        (128, 2048, 44_100, 20.0, 22_050.0),
    ],
)
def test_filters_against_transformers(n_mels, n_fft, rate, low, high):
    theirs = mel_filter_bank(
        n_fft // 2 + 1, n_mels, low, high, rate, norm="slaney", mel_scale="slaney"
    )
    ours = mel_filters(n_mels, n_fft, rate, low, high)
    assert ours.dtype == torch.float32
    np.testing.assert_allclose(ours.numpy(), theirs.T, rtol=1e-4, atol=1e-8)


def test_every_triangle_has_the_area_of_one():
    filters = mel_filters(20, 8192, 16_000, 100.0, 8_000.0)
    torch.testing.assert_close(
        filters.sum(1) * 16_000 / 8192, torch.ones(20), rtol=0.02, atol=0
    )  # a sum, no integral


def test_a_band_between_two_frequencies_is_refused():
    with pytest.raises(
        ConfigError, match=r"of 400 mel bands between 0 and 4000 Hz .* processor.audio.n_mels"
    ):
        mel_filters(400, 256, 8_000, 0.0, 4_000.0)


# Spectrograms


FILTERS = mel_filters(12, 128, 8_000, 0.0, 4_000.0)


def by_definition(x: np.ndarray, window: int, hop: int, floor: float) -> np.ndarray:
    """Frame by frame in float64: the window's middle is the middle of the frame's hop."""
    n_fft = 2 * (FILTERS.shape[1] - 1)
    hann = 0.5 - 0.5 * np.cos(2 * np.pi * np.arange(window) / window)
    rows = []
    for i in range(len(x) // hop):
        heard = np.zeros(n_fft)
        begin = i * hop - (n_fft - hop) // 2 + (n_fft - window) // 2
        for j in range(window):
            if 0 <= begin + j < len(x):
                heard[j] = x[begin + j] * hann[j]
        power = np.abs(np.fft.rfft(heard)) ** 2
        rows.append(np.log(np.maximum(FILTERS.numpy() @ power, floor)))
    return np.array(rows)


@given(st.integers(40, 600), st.integers(10, 128), st.integers(5, 40), st.integers(0, 9))
def test_against_the_definition(length, window, hop, seed):
    x = noise(length, seed=seed) * 0.1
    found = log_mel(x, FILTERS, window, hop, 1e-8)
    assert found.shape == (length // hop, 12)
    np.testing.assert_allclose(
        found.numpy(), by_definition(x.numpy(), window, hop, 1e-8), rtol=1e-5, atol=1e-6
    )


def test_a_batch_is_each_by_itself_in_float32():
    x = noise(3, 2, 400, dtype=torch.float32) * 0.1
    found = log_mel(x, FILTERS, 100, 40, 1e-8)
    assert found.dtype == torch.float32
    assert found.shape == (3, 2, 10, 12)
    torch.testing.assert_close(found[2, 1], log_mel(x[2, 1], FILTERS, 100, 40, 1e-8))


def test_twice_as_loud_adds_the_logarithm_of_four_and_silence_is_the_floor():
    x = noise(800) * 0.1
    found = log_mel(2 * x, FILTERS, 100, 40, 1e-12) - log_mel(x, FILTERS, 100, 40, 1e-12)
    torch.testing.assert_close(found, torch.full_like(found, math.log(4)))
    silent = log_mel(torch.zeros(800), FILTERS, 100, 40, 1e-6)
    torch.testing.assert_close(silent, torch.full((20, 12), math.log(1e-6)))


@given(st.integers(1, 5))
def test_sound_that_comes_a_frame_later_is_seen_a_frame_later(frames):
    x = noise(800) * 0.1
    late = torch.cat([torch.zeros(40 * frames, dtype=x.dtype), x])
    early, later = log_mel(x, FILTERS, 100, 40, 1e-8), log_mel(late, FILTERS, 100, 40, 1e-8)
    torch.testing.assert_close(later[frames:], early)


@pytest.mark.parametrize("frequency", [300.0, 1_000.0, 3_000.0])
def test_a_tone_is_loudest_in_its_band(frequency):
    tone = torch.sin(2 * math.pi * frequency * torch.arange(1_600, dtype=torch.float64) / 8_000)
    bands = log_mel(tone, FILTERS, 128, 40, 1e-10)[5:-5].mean(0)
    corners = hertz(torch.linspace(0, mel(torch.tensor([4_000.0])).item(), 14))
    nearest = (corners[1:-1] - frequency).abs().argmin()
    assert bands.argmax() == nearest
