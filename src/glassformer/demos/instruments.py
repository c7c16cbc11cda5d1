"""Single notes of seven synthesized instruments, with noise and the echo of a room.

    flute     few overtones, breath, vibrato that sets in late
    clarinet  odd overtones
    string    plucked: Karplus and Strong's loop (1983)
    violin    bowed: all overtones, formants, vibrato
    organ     drawbars
    bell      frequency modulation (Chowning 1973)
    drum      a skin whose pitch falls onto the note, and a stroke of noise

Every note has its own pitch (C3 to B5, a little out of tune), loudness, beginning, length, tone,
noise and echo. Held out are notes: a pitch of an instrument belongs to one split, so that training
has no instrument at a pitch that it is tested at, but each pitch from other instruments. Clip n is
a function of (split, n).
"""

from collections.abc import Callable
from functools import cache
from pathlib import Path

import numpy as np

from glassformer.data.config import NAMES, SplitName
from glassformer.demos.hashing import split_by_hash
from glassformer.demos.writers import write_table
from glassformer.media.wav import write_wav
from glassformer.random_stream import generator

RATE = 8000
"""Samples a second; a clip is a second."""
PITCHES = ("C", "C#", "D", "D#", "E", "F", "F#", "G", "G#", "A", "A#", "B")
LOWEST, HIGHEST = 48, 83
"""Keys of the notes as MIDI counts them: C3 (131 Hz) and B5 (988 Hz)."""
COUNTS: dict[SplitName, int] = {"train": 3000, "validation": 300, "test": 1000}
"""Clips of each split."""

_HELD_OUT: dict[SplitName, int] = {"validation": 10, "test": 20}  # percent of the notes
# with which every instrument and pitch class is in every split, and none is trained at few pitches
_SALT = "33753"
_T = np.arange(RATE) / RATE  # seconds
_TABLE = 2048
_DRAWBARS = (0.5, 1, 1.5, 2, 3, 4, 5, 6, 8)  # times the pitch

Tone = Callable[[np.random.Generator, float, float], np.ndarray]
"""Samples [T] of a note by a random stream, a frequency in Hz and a length in seconds."""


def write_notes(folder: Path) -> None:
    """Write each clip as a WAV file, and a table of files, instruments and pitches for each
    split."""
    for split in NAMES:
        (folder / split).mkdir()
        rows = []
        for number in range(COUNTS[split]):
            samples, instrument, pitch = note(split, number)
            name = f"{split}/{number}.wav"
            (folder / name).write_bytes(write_wav(samples, RATE))
            rows.append((name, instrument, pitch))
        write_table(folder / f"{split}.tsv", "file_name instrument pitch", rows)


def note(split: SplitName, number: int) -> tuple[np.ndarray, str, str]:
    """Clip `number` of a split, float32 [T] in [-1, 1], its instrument and its pitch (C to B)."""
    random, keys = generator(0, NAMES.index(split), number), keys_of(split)
    instrument, key = keys[random.integers(len(keys))]
    return _clip(random, instrument, key).astype(np.float32), instrument, PITCHES[key % 12]


@cache
def keys_of(split: SplitName) -> list[tuple[str, int]]:
    """The notes of a split: instruments with MIDI keys."""
    return [
        (name, key)
        for name in INSTRUMENTS
        for key in range(LOWEST, HIGHEST + 1)
        if split_by_hash(f"{_SALT}{name}{key}", _HELD_OUT) == split
    ]


def _clip(random: np.random.Generator, instrument: str, key: int) -> np.ndarray:
    """A note as it is recorded, [T]."""
    frequency = 440 * 2 ** ((key - 69 + random.uniform(-0.12, 0.12)) / 12)
    silent, length = int(random.uniform(0, 0.15) * RATE), random.uniform(0.25, 0.75)
    tone = INSTRUMENTS[instrument](random, frequency, length)
    dry = np.concatenate([np.zeros(silent), tone[: RATE - silent]])
    wet = dry + random.uniform(0, 0.5) * _echo(random, dry)
    hiss = random.standard_normal(RATE) * 10 ** random.uniform(
        -2.6, -1.3
    )  # 52 to 26 dB below the loudest sample
    recorded = wet / np.abs(wet).max() + hiss
    return np.clip(10 ** random.uniform(-0.9, -0.05) * recorded, -1, 1)


def _echo(random: np.random.Generator, dry: np.ndarray) -> np.ndarray:
    """A room's answer: noise that dies away, about as loud as the sound itself."""
    room = random.standard_normal(RATE // 2) * np.exp(-_T[: RATE // 2] / random.uniform(0.03, 0.12))
    room[: RATE // 100] = 0  # walls are at least 1.7 m away
    room /= np.sqrt((room**2).sum())
    return np.fft.irfft(np.fft.rfft(dry, 2 * RATE) * np.fft.rfft(room, 2 * RATE))[:RATE]


def _held(attack: float, length: float, release: float) -> np.ndarray:
    """Loudness of a note that sounds as long as it is held; all in seconds."""
    rising, falling = np.minimum(_T / attack, 1), np.exp(-np.maximum(_T - length, 0) / release)
    return rising * rising * (3 - 2 * rising) * falling


def _phase(frequency: float, vibrato: np.ndarray | float = 0.0) -> np.ndarray:
    """Periods since the beginning, [T]; `vibrato` is the deviation of the frequency, relative."""
    return np.cumsum(np.broadcast_to(frequency / RATE * (1 + vibrato), _T.shape))


def _vibrato(random: np.random.Generator, depth: float) -> np.ndarray:
    """4.5 to 6.5 Hz, not at once."""
    waves = np.sin(2 * np.pi * (random.uniform(4.5, 6.5) * _T + random.random()))
    return depth * waves * np.clip(_T / 0.3 - 0.2, 0, 1)


def _wave(frequency: float, overtones: np.ndarray, phase: np.ndarray) -> np.ndarray:
    """A sum of overtones 1, 2, 3, ... of the given loudness, those left out that the rate cannot
    hold, [T]."""
    heard = overtones[: int(0.47 * RATE / frequency)]
    spectrum = np.zeros(_TABLE // 2 + 1, complex)
    spectrum[1 : len(heard) + 1] = -1j * heard
    table = np.fft.irfft(spectrum) * (_TABLE / 2)
    return np.interp(phase % 1, np.arange(_TABLE + 1) / _TABLE, np.append(table, table[0]))


def _flute(random: np.random.Generator, frequency: float, length: float) -> np.ndarray:
    overtones = np.array([1, random.uniform(0.1, 0.3), random.uniform(0.03, 0.12), 0.02])
    tone = _wave(
        frequency, overtones, _phase(frequency, _vibrato(random, random.uniform(0.003, 0.009)))
    )
    breath = np.convolve(random.standard_normal(RATE), np.hanning(5), "same") * random.uniform(
        0.01, 0.04
    )
    trembling = 1 + random.uniform(0.05, 0.2) * np.sin(2 * np.pi * random.uniform(4.5, 6.5) * _T)
    return (tone * trembling + breath) * _held(random.uniform(0.05, 0.12), length, 0.05)


def _string(random: np.random.Generator, frequency: float, length: float) -> np.ndarray:
    period = RATE / frequency
    dull = random.uniform(0.2, 0.5) * min(1, period / 60) ** 1.5  # high ones go round more often
    stroke = random.uniform(-1, 1, max(round(period), 2))
    kept = 10 ** (-3 * period / RATE / random.uniform(0.9, 1.8))  # down by 60 dB in so many seconds
    ringing = _looped(stroke - stroke.mean(), period, dull, kept)
    place = random.uniform(
        0.1, 0.35
    )  # where it is plucked: overtones with a node there are missing
    return (ringing - np.interp(_T - place * period / RATE, _T, ringing, left=0)) * _held(
        0.001, length, 0.06
    )


def _looped(stroke: np.ndarray, period: float, dull: float, kept: float) -> np.ndarray:
    """A stroke that goes round a loop: y(t) = stroke(t) + kept * average of y about t - period,
    [T].

    The average has the weights dull/2, 1 - dull, dull/2. Solved for each frequency at once, so that
    the period may be any fraction of a sample; on twice the length, so that what comes round again
    has died away.
    """
    angle = np.pi * np.arange(RATE + 1) / RATE
    average = (1 - dull + dull * np.cos(angle)) * np.exp(-1j * angle * period)
    return np.fft.irfft(np.fft.rfft(stroke, 2 * RATE) / (1 - kept * average))[:RATE]


def _organ(random: np.random.Generator, frequency: float, length: float) -> np.ndarray:
    drawn = random.uniform(0, 1, len(_DRAWBARS)) * (1, 1, 0.8, 0.9, 0.7, 0.8, 0.5, 0.5, 0.6)
    drawn[[0, 1, 3]] += 0.4
    overtones = np.zeros(16)
    overtones[[round(2 * bar) - 1 for bar in _DRAWBARS]] = drawn  # of the octave below
    return _wave(frequency / 2, overtones, _phase(frequency / 2)) * _held(0.008, length, 0.015)


def _bell(random: np.random.Generator, frequency: float, length: float) -> np.ndarray:
    ratio, fading = random.choice([1.4, 2.76, 3.5]), random.uniform(0.2, 0.5)
    index = random.uniform(1.0, 2.5) * np.exp(-_T / (0.6 * fading))
    angle = 2 * np.pi * _phase(frequency)
    tone = np.sin(angle + index * np.sin(ratio * angle)) * np.exp(-_T / fading)
    return tone * _held(0.002, length + 0.2, 0.1)


def _clarinet(random: np.random.Generator, frequency: float, length: float) -> np.ndarray:
    number = np.arange(1, 32)
    overtones = number ** -random.uniform(0.9, 1.3) * np.where(
        number % 2, 1, random.uniform(0.01, 0.05)
    )
    phase = _phase(frequency)
    dull, full = _wave(frequency, overtones[:3], phase), _wave(frequency, overtones, phase)
    opened = np.minimum(_T / random.uniform(0.05, 0.12), 1)
    return (dull + opened * (full - dull)) * _held(random.uniform(0.02, 0.06), length, 0.03)


def _violin(random: np.random.Generator, frequency: float, length: float) -> np.ndarray:
    pitch = frequency * np.arange(1, 32)
    body = sum(
        np.exp(-(((pitch - at) / wide) ** 2)) for at, wide in ((460, 150), (1100, 300), (2300, 700))
    )
    overtones = (0.25 + body) / np.arange(1, 32) ** random.uniform(0.7, 1.0)
    tone = _wave(
        frequency, overtones, _phase(frequency, _vibrato(random, random.uniform(0.004, 0.012)))
    )
    bow = random.standard_normal(RATE) * random.uniform(0.01, 0.05)
    return (tone + bow) * _held(random.uniform(0.06, 0.15), length, 0.08)


def _drum(random: np.random.Generator, frequency: float, length: float) -> np.ndarray:
    fading = random.uniform(0.06, 0.18)
    falling = random.uniform(0.3, 0.9) * np.exp(-_T / 0.03)
    skin = sum(
        loud * np.sin(2 * np.pi * _phase(frequency * ratio, falling)) * np.exp(-_T * ratio / fading)
        for ratio, loud in ((1.0, 1.0), (1.59, 0.4), (2.14, 0.25))  # of a round membrane
    )
    stroke = (
        random.standard_normal(RATE)
        * np.exp(-_T / random.uniform(0.01, 0.06))
        * random.uniform(0.2, 0.7)
    )
    return (skin + stroke) * _held(0.001, length, 0.05)


INSTRUMENTS: dict[str, Tone] = {
    "flute": _flute,
    "string": _string,
    "organ": _organ,
    "bell": _bell,
    "clarinet": _clarinet,
    "violin": _violin,
    "drum": _drum,
}
