"""Resampling: gain and aliasing of sines, times, lengths, and the sentence without soxr."""

import math
import subprocess
import sys

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from glassformer.errors import ConfigError
from glassformer.media.resample import resampled

RATES = [(44_100, 16_000), (48_000, 16_000), (8_000, 16_000), (22_050, 16_000), (44_101, 48_000)]
rates = pytest.mark.parametrize(("rate", "new_rate"), RATES)
SMALL = 5e-4
"""-66 dB: soxr's gain between is 1 within 0.004 dB."""


def sine(hertz: float, rate: int, length: int, phase: float = 1.0) -> np.ndarray:
    return np.sin(2 * np.pi * hertz * np.arange(length) / rate + phase)


def decibels(of: np.ndarray) -> float:
    """The level of a sine, from its middle, in dB; a sine of amplitude 1 has 0."""
    inner = of[len(of) // 4 : 3 * len(of) // 4].astype(np.float64)
    return 10 * math.log10(max(2 * np.square(inner).mean(), 1e-20))


@rates
@pytest.mark.parametrize("share", [0.01, 0.3, 0.8, 0.9])
def test_a_sine_is_the_same_sine_at_the_other_times(rate, new_rate, share):
    hertz = share * min(rate, new_rate) / 2
    found = resampled(sine(hertz, rate, rate // 4), rate, new_rate)
    assert found.dtype == np.float32
    away = np.abs(found - sine(hertz, new_rate, len(found)))
    # at 0.9, the filter begins to fall
    assert away[200:-200].max() < (SMALL if share < 0.9 else 2e-3)


@rates
def test_it_loses_half_a_decibel_at_most_below_94_percent(rate, new_rate):
    for share in (0.5, 0.85, 0.9375):  # 0.9375 of 8 kHz is 7.5 kHz: our own filter lost 11.7 dB
        found = resampled(sine(share * min(rate, new_rate) / 2, rate, rate // 2), rate, new_rate)
        assert -0.5 < decibels(found) < 0.01


@pytest.mark.parametrize("rate", [44_100, 48_000, 192_000])
@pytest.mark.parametrize("share", [1.01, 1.06, 1.3, 1.9])
def test_what_the_new_rate_cannot_hold_is_gone(rate, share):
    found = resampled(sine(share * 8_000, rate, rate // 2), rate, 16_000)
    assert decibels(found) < -110  # not folded down


@given(st.integers(0, 300), st.integers(1_000, 60_000), st.integers(1_000, 60_000))
def test_every_length_is_rounded_up(length, rate, new_rate):
    found = resampled(np.ones(length, np.float32), rate, new_rate)
    assert found.shape == (math.ceil(length * new_rate / rate),)
    assert np.isfinite(found).all()


def test_the_same_rate_changes_nothing():
    x = np.random.default_rng(0).standard_normal(100).astype(np.float32)
    assert np.array_equal(resampled(x, 8_000, 8_000), x)


def test_a_constant_stays_one():
    found = resampled(np.full(8_000, 0.7, np.float32), 44_100, 16_000)
    assert np.abs(found[300:-300] - np.float32(0.7)).max() < SMALL


def test_without_soxr_one_sentence_names_the_extra_and_the_other_ways(monkeypatch):
    monkeypatch.setitem(sys.modules, "soxr", None)
    with pytest.raises(ConfigError) as caught:
        resampled(np.zeros(10, np.float32), 44_100, 16_000)
    message = str(caught.value)
    for words in (
        "pip install 'glassformer[audio]'",
        "soxr",
        "44100",
        "processor.audio.rate=44100",
    ):
        assert words in message
    assert "\n" not in message
    assert resampled(np.zeros(10, np.float32), 16_000, 16_000).shape == (10,)


def test_the_extra_is_imported_only_where_it_is_needed():
    program = (
        "import sys, numpy\n"
        "from glassformer.media.audio_file import read_audio\n"
        "from glassformer.media.resample import resampled\n"
        "from glassformer.media.wav import write_wav\n"
        "resampled(read_audio(write_wav(numpy.zeros(9), 8000), 'x')[0], 8000, 8000)\n"
        "assert not {'soundfile', 'soxr', 'cffi'} & sys.modules.keys()\n"
    )
    subprocess.run([sys.executable, "-c", program], check=True)
