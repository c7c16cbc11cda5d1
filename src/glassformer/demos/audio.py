"""`glassformer demo audio`: how a tone moves: steady, rising, falling, vibrato, tremolo, ...

A clip is a second of a tone with overtones and noise. A pitch belongs to one split, so every pitch
of the test is new.
"""

from pathlib import Path

import numpy as np
import soundfile
from numpy.random import Generator

from glassformer.data.config import SplitName
from glassformer.data.records.recordings import recordings
from glassformer.demos.kit import Shown, counts, show_classes, split_of, write_labelled
from glassformer.run import Run

RATE = 8000
"""Samples a second; a clip is a second."""
MOVEMENTS = ("steady", "rising", "falling", "vibrato", "siren", "tremolo", "pulses", "trill")
KEYS = range(48, 84)
"""Pitches as MIDI counts them: C3 (131 Hz) to B5 (988 Hz)."""
COUNTS = counts(3_000, 300, 1_000)
"""Clips of each split."""


def write_tones(folder: Path) -> None:
    """Write each clip as WAV, and a table of files and movements for each split."""
    write_labelled(folder, COUNTS, ".wav", _write)


def _write(random: Generator, split: SplitName, file: Path) -> str:
    name = MOVEMENTS[random.integers(len(MOVEMENTS))]
    key = random.choice([key for key in KEYS if split_of(str(key)) == split])
    soundfile.write(file, (32767 * tone(random, name, key)).astype(np.int16), RATE)
    return name


def tone(random: Generator, name: str, key: float) -> np.ndarray:
    """Return a clip in [-1, 1], float64 [T]."""
    t = np.arange(RATE) / RATE
    depth, speed = random.uniform(0.5, 1), random.uniform(5, 8)
    swing = np.sin(2 * np.pi * (speed * t + random.uniform()))
    octaves = {
        "rising": depth * t,
        "falling": -depth * t,
        "vibrato": 0.25 * depth * swing,
        "siren": 0.8 * depth * np.sin(2 * np.pi * (speed / 4 * t + random.uniform())),
        "trill": 7 / 12 * (swing > 0),
    }.get(name, 0 * t)
    loud = {"tremolo": 1 + 0.9 * swing, "pulses": 1.0 * (swing > 0)}.get(name, 1 + 0 * t)
    angle = 2 * np.pi * np.cumsum(440 * 2 ** ((key - 69) / 12 + octaves)) / RATE
    bright = random.uniform(0, 0.8)
    sound = sum(bright**k * np.sin((k + 1) * angle) for k in range(5))
    begin, end = random.uniform(0, 0.15), random.uniform(0.8, 1)
    sound = loud * sound * np.clip(50 * np.minimum(t - begin, end - t), 0, 1)
    noisy = sound / np.abs(sound).max() + random.uniform(0, 0.1) * random.standard_normal(RATE)
    return np.clip(random.uniform(0.2, 0.7) * noisy, -1, 1)


def show(run: Run) -> Shown:
    """Accuracy at new pitches beside two baselines."""
    return show_classes(run, "clip", recordings, lambda row: row.samples())
