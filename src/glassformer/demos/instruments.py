"""Single notes of seven synthesized instruments, with noise and the echo of a room.

    flute     few overtones, breath, vibrato that sets in late
    clarinet  odd overtones
    string    plucked: Karplus and Strong's loop (1983)
    violin    bowed: all overtones, formants, vibrato
    organ     drawbars
    bell      frequency modulation (Chowning 1973)
    drum      a skin whose pitch falls onto the note, and a stroke of noise

Every note has its own pitch (C3 to B5, a little out of tune), loudness, beginning, length, tone,
noise and echo. Notes are held out: a pitch of an instrument belongs to one split, so that training
has no instrument at a pitch that it is tested at, but each pitch from other instruments. Clip n is
a function of (split, n).
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import numpy as np
from numpy.random import Generator

from glassformer.data.config import NAMES, SplitName
from glassformer.demos.hashing import split_by_hash
from glassformer.demos.tables import constants
from glassformer.demos.writers import write_table
from glassformer.media.audio_file import write_wav
from glassformer.random_stream import generator

_TABLES = constants("instruments")
RATE = 8000
"""Samples a second; a clip is a second."""
PITCHES: list[str] = _TABLES["pitches"]
LOWEST, HIGHEST = 48, 83
"""Keys of the notes as MIDI counts them: C3 (131 Hz) and B5 (988 Hz)."""
COUNTS: dict[SplitName, int] = {"train": 3000, "validation": 300, "test": 1000}
"""Clips of each split."""

_HELD_OUT: dict[SplitName, int] = {"validation": 10, "test": 20}  # percent of the notes
# with it, every instrument and pitch class is in every split, and none is trained at few pitches
_SALT = "33753"
_T = np.arange(RATE) / RATE  # seconds
_TABLE = 2048

Samples = np.ndarray
"""One second of sound, [T]."""


@dataclass(frozen=True)
class Note:
    """An instrument with a random stream, a frequency in Hz, and how long the note is held, in
    seconds."""

    instrument: str
    random: Generator
    frequency: float
    length: float

    def sound(self) -> Samples:
        """The note without noise and echo."""
        tone = INSTRUMENTS[self.instrument](self)
        rising = np.minimum(_T / self.draw("attack"), 1)
        late = np.maximum(_T - (self.length + self.draw("longer")), 0)
        return tone * (rising * rising * (3 - 2 * rising) * np.exp(-late / self.draw("release")))

    def draw(self, name: str) -> float:
        """A number of the instrument in tables/instruments.json, or one drawn from its range."""
        value = _TABLES["instruments"][self.instrument][name]
        return self.random.uniform(*value) if isinstance(value, list) else value

    def noise(self) -> Samples:
        """White noise."""
        return self.random.standard_normal(RATE)

    def wave(self, overtones: np.ndarray, ratio: float = 1, wavering: bool = False) -> Samples:
        """A sum of overtones 1, 2, 3, ... of `ratio` times the frequency with the given loudness,
        without those that the rate cannot hold."""
        phase = _phase(self.frequency * ratio, self._vibrato() if wavering else 0)
        heard = overtones[: int(0.47 * RATE / (self.frequency * ratio))]
        spectrum = np.zeros(_TABLE // 2 + 1, complex)
        spectrum[1 : len(heard) + 1] = -1j * heard
        table = np.fft.irfft(spectrum) * (_TABLE / 2)
        return np.interp(phase % 1, np.arange(_TABLE + 1) / _TABLE, np.append(table, table[0]))

    def _vibrato(self) -> Samples:
        """Relative deviation of the frequency, 4.5 to 6.5 Hz, not at once."""
        depth, rate = self.draw("vibrato"), self.random.uniform(4.5, 6.5)
        waves = np.sin(2 * np.pi * (rate * _T + self.random.random()))
        return depth * waves * np.clip(_T / 0.3 - 0.2, 0, 1)


def write_notes(folder: Path) -> None:
    """Write each clip as a WAV file, and a table of files, instruments and pitches for each
    split."""
    for split in NAMES:
        (folder / split).mkdir()
        rows = []
        for number in range(COUNTS[split]):
            samples, *labels = note(split, number)
            name = f"{split}/{number}.wav"
            (folder / name).write_bytes(write_wav(samples, RATE))
            rows.append((name, *labels))
        write_table(folder / f"{split}.tsv", "file_name instrument pitch", rows)


def note(split: SplitName, number: int) -> tuple[Samples, str, str]:
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


def _clip(random: Generator, instrument: str, key: int) -> Samples:
    """A note as it is recorded."""
    frequency = 440 * 2 ** ((key - 69 + random.uniform(-0.12, 0.12)) / 12)
    silent = int(random.uniform(0, 0.15) * RATE)
    tone = Note(instrument, random, frequency, length=random.uniform(0.25, 0.75)).sound()
    dry = np.pad(tone, (silent, 0))[:RATE]
    wet = dry + random.uniform(0, 0.5) * _echo(random, dry)
    # 52 to 26 dB below the loudest sample
    hiss = random.standard_normal(RATE) * 10 ** random.uniform(-2.6, -1.3)
    recorded = wet / np.abs(wet).max() + hiss
    return np.clip(10 ** random.uniform(-0.9, -0.05) * recorded, -1, 1)


def _echo(random: Generator, dry: Samples) -> Samples:
    """The echo of a room: noise that dies away, about as loud as the sound itself."""
    room = random.standard_normal(RATE // 2) * np.exp(-_T[: RATE // 2] / random.uniform(0.03, 0.12))
    room[: RATE // 100] = 0  # walls are at least 1.7 m away
    room /= np.sqrt((room**2).sum())
    return np.fft.irfft(np.fft.rfft(dry, 2 * RATE) * np.fft.rfft(room, 2 * RATE))[:RATE]


def _phase(frequency: float, vibrato: Samples | float = 0.0) -> Samples:
    """Periods since the beginning; `vibrato` is the deviation of the frequency, relative."""
    return np.cumsum(np.broadcast_to(frequency / RATE * (1 + vibrato), _T.shape))


def _flute(note: Note) -> Samples:
    overtones = np.array([1, note.draw("second"), note.draw("third"), 0.02])
    tone = note.wave(overtones, wavering=True)
    breath = np.convolve(note.noise(), np.hanning(5), "same") * note.draw("breath")
    trembling = note.draw("trembling") * np.sin(2 * np.pi * note.draw("trembling_rate") * _T)
    return tone * (1 + trembling) + breath


def _string(note: Note) -> Samples:
    period = RATE / note.frequency
    dull = note.draw("dull") * min(1, period / 60) ** 1.5  # high ones go round more often
    stroke = note.random.uniform(-1, 1, max(round(period), 2))
    kept = 10 ** (-3 * period / RATE / note.draw("dying"))  # down by 60 dB in so many seconds
    ringing = _looped(stroke - stroke.mean(), period, dull, kept)
    place = note.draw("place")  # where it is plucked: overtones with a node there are missing
    return ringing - np.interp(_T - place * period / RATE, _T, ringing, left=0)


def _looped(stroke: np.ndarray, period: float, dull: float, kept: float) -> Samples:
    """A stroke that goes round a loop: y(t) = stroke(t) + kept * average of y about t - period.

    The average has the weights dull/2, 1 - dull, dull/2. Solved for each frequency at once, so that
    the period may be any fraction of a sample; on twice the length, so that what comes round again
    has died away.
    """
    angle = np.pi * np.arange(RATE + 1) / RATE
    average = (1 - dull + dull * np.cos(angle)) * np.exp(-1j * angle * period)
    return np.fft.irfft(np.fft.rfft(stroke, 2 * RATE) / (1 - kept * average))[:RATE]


def _organ(note: Note) -> Samples:
    bars = _TABLES["drawbars"]  # times the pitch
    drawn = note.random.uniform(0, 1, len(bars)) * _TABLES["drawbar_loudness"]
    drawn[[0, 1, 3]] += 0.4
    overtones = np.zeros(16)
    overtones[[round(2 * bar) - 1 for bar in bars]] = drawn  # of the octave below
    return note.wave(overtones, ratio=0.5)


def _bell(note: Note) -> Samples:
    ratio, fading = note.random.choice(_TABLES["bell_ratios"]), note.draw("fading")
    index = note.draw("index") * np.exp(-_T / (0.6 * fading))
    angle = 2 * np.pi * _phase(note.frequency)
    return np.sin(angle + index * np.sin(ratio * angle)) * np.exp(-_T / fading)


def _clarinet(note: Note) -> Samples:
    number = np.arange(1, 32)
    falling = number ** -note.draw("falling")
    overtones = falling * np.where(number % 2, 1, note.draw("even"))
    dull, full = note.wave(overtones[:3]), note.wave(overtones)
    return dull + np.minimum(_T / note.draw("opening"), 1) * (full - dull)


def _violin(note: Note) -> Samples:
    number = np.arange(1, 32)
    pitch = note.frequency * number
    body = sum(np.exp(-(((pitch - at) / wide) ** 2)) for at, wide in _TABLES["formants"])
    overtones = (0.25 + body) / number ** note.draw("falling")
    return note.wave(overtones, wavering=True) + note.noise() * note.draw("bow")


def _drum(note: Note) -> Samples:
    fading, drop = note.draw("fading"), note.draw("drop") * np.exp(-_T / 0.03)
    skin = np.zeros(RATE)
    for ratio, loud in _TABLES["membrane"]:
        angle = 2 * np.pi * _phase(note.frequency * ratio, drop)
        skin += loud * np.sin(angle) * np.exp(-_T * ratio / fading)
    stroke = note.noise() * np.exp(-_T / note.draw("stroke"))
    return skin + stroke * note.draw("stroke_loudness")


INSTRUMENTS: dict[str, Callable[[Note], Samples]] = {
    "flute": _flute,
    "string": _string,
    "organ": _organ,
    "bell": _bell,
    "clarinet": _clarinet,
    "violin": _violin,
    "drum": _drum,
}
"""The tones by name, without attack and release, [T]."""
