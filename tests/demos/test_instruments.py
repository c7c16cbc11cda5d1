"""Synthesized notes: in tune, each instrument with what makes it one, and no tested note ever
trained."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from glassformer.data.config import NAMES
from glassformer.demos import instruments as module
from glassformer.demos.instruments import (
    HIGHEST,
    INSTRUMENTS,
    LOWEST,
    PITCHES,
    RATE,
    Note,
    keys_of,
    note,
)

HELD = ("flute", "clarinet", "organ", "violin")  # as long as the note is held; the others die away


@pytest.fixture(scope="module")
def some():
    clips, *labels = zip(*(note("train", number) for number in range(280)), strict=True)
    return np.stack(clips), *labels


def test_form(some):
    clips, instruments, pitches = some
    assert clips.shape == (280, RATE)
    assert clips.dtype == np.float32
    assert np.abs(clips).max() <= 1
    assert set(instruments) == set(INSTRUMENTS)
    assert set(pitches) == set(PITCHES)
    loudest = np.abs(clips).max(axis=1)
    assert loudest.min() > 0.1
    assert np.ptp(loudest) > 0.5
    assert (np.abs(clips) == 1).mean() < 1e-4  # hardly anything is cut off


def test_a_clip_is_always_the_same_and_no_two_are():
    drawn = [note(split, number)[0].tobytes() for split in NAMES for number in range(16)]
    assert len(set(drawn)) == 48
    assert drawn[16 + 3] == note(NAMES[1], 3)[0].tobytes()


def test_held_out_notes_are_new_but_their_parts_are_not():
    keys = {split: set(keys_of(split)) for split in NAMES}
    assert (
        sum(map(len, keys.values()))
        == len(set.union(*keys.values()))
        == len(INSTRUMENTS) * (HIGHEST - LOWEST + 1)
    )
    for split in NAMES:
        assert {instrument for instrument, _ in keys[split]} == set(INSTRUMENTS)
        assert {key % 12 for _, key in keys[split]} == set(range(12))
    assert {key for _, key in keys["train"]} == set(range(LOWEST, HIGHEST + 1))
    for instrument in INSTRUMENTS:
        assert sum(name == instrument for name, _ in keys["train"]) > 20  # of 36
        assert 5 < sum(name == instrument for name, _ in keys["test"]) < 10


@given(st.sampled_from([*HELD, "string"]), st.integers(LOWEST, HIGHEST), st.integers(0, 1000))
def test_instruments_are_in_tune(instrument, key, seed):
    """The period that a sound repeats itself with, by its autocorrelation, to a sixth of a
    semitone."""
    frequency = 440 * 2 ** ((key - 69) / 12)
    tone = Note(instrument, np.random.default_rng(seed), frequency, 1.0).sound()
    period = (
        RATE / frequency * (2 if instrument == "organ" else 1)
    )  # its lowest drawbar is an octave below
    power = np.abs(np.fft.rfft(tone[1000:5000] * np.hanning(4000), 16384)) ** 2
    likeness = np.fft.irfft(np.pad(power, (0, 7 * 8192)))  # eight times finer than the samples
    lags = np.arange(round(0.92 * 8 * period), round(1.08 * 8 * period))
    found = lags[likeness[lags].argmax()] / 8
    assert abs(12 * np.log2(found / period)) < 1 / 6 + 12 * np.log2(1 + 1 / (16 * period))
    assert likeness[lags].max() > 0.5 * likeness[0]


def test_labels_tell_the_pitch_that_is_heard(some):
    """The loudest frequency of a flute is its pitch, in whatever room."""
    clips, instruments, pitches = some
    heard = [clip for clip, name in zip(clips, instruments, strict=True) if name == "flute"]
    meant = [
        PITCHES.index(pitch)
        for pitch, name in zip(pitches, instruments, strict=True)
        if name == "flute"
    ]
    assert len(heard) > 15
    for clip, pitch in zip(heard, meant, strict=True):
        loudest = np.abs(
            np.fft.rfft(clip * np.hanning(RATE))
        ).argmax()  # in Hz, since the clip is a second
        away = (12 * np.log2(loudest / 440) + 9 - pitch + 6) % 12 - 6
        assert abs(away) < 0.5


def test_the_loop_of_the_string_is_the_one_written_out():
    random = np.random.default_rng(0)
    period, dull, kept = 20, 0.4, 0.98
    stroke = random.standard_normal(period)
    y = np.zeros(RATE + 1)
    for t in range(RATE):
        past = sum(
            w * y[t - period + d]
            for d, w in ((-1, dull / 2), (0, 1 - dull), (1, dull / 2))
            if t - period + d >= 0
        )
        y[t] = (stroke[t] if t < period else 0) + kept * past
    solved = module._looped(stroke, float(period), dull, kept)
    np.testing.assert_allclose(solved, y[:RATE], atol=1e-7)  # what comes round: 0.98 ** 800


def test_what_makes_an_instrument():
    at = {name: _overtones(name) for name in INSTRUMENTS}
    assert at["clarinet"][1::2][:3].max() < 0.2 * at["clarinet"][::2][:3].min()  # odd ones only
    assert at["violin"][1] > 0.3 * at["violin"][0]  # all of them
    assert at["flute"][3:].max() < 0.1  # few
    ends = {name: _loudness(name, 4000, 5000) / _loudness(name, 500, 1500) for name in INSTRUMENTS}
    assert min(ends[name] for name in HELD) > 0.7
    assert max(ends[name] for name in set(INSTRUMENTS) - set(HELD)) < 0.6
    assert ends["drum"] < 0.05


def test_recordings_have_noise_and_a_beginning(some):
    early = np.sqrt((some[0][:, :40] ** 2).mean(axis=1))
    assert early.min() > 0  # hiss from the first sample on
    begins = (np.abs(some[0]) > 0.3 * np.abs(some[0]).max(axis=1, keepdims=True)).argmax(
        axis=1
    ) / RATE
    assert np.percentile(begins, 10) < 0.06
    assert np.percentile(begins, 90) > 0.12


def _tones(name):
    return [Note(name, np.random.default_rng(seed), 250.0, 0.8).sound() for seed in range(20)]


def _overtones(name):
    """Loudness of overtones 1 to 8 of 250 Hz, the loudest is 1."""
    spectrum = np.mean([np.abs(np.fft.rfft(tone[:RATE])) for tone in _tones(name)], axis=0)
    peaks = np.array([spectrum[250 * n - 15 : 250 * n + 16].max() for n in range(1, 9)])
    return peaks / peaks.max()


def _loudness(name, begin, end):
    return np.mean(
        [
            np.sqrt((tone[begin:end] ** 2).mean()) / np.sqrt((tone**2).mean())
            for tone in _tones(name)
        ]
    )
