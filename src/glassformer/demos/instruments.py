"""Single notes of seven synthesized instruments, with noise and the echo of a room: the demo data
of audio.

    flute     few overtones, breath, vibrato that sets in late       clarinet  odd overtones
    string    plucked: Karplus and Strong's loop (1983)              violin    bowed: all overtones, formants, vibrato
    organ     drawbars                                               bell      frequency modulation (Chowning 1973)
    drum      a skin whose pitch falls onto the note, and a stroke of noise

Every note has its own pitch (C3 to B5, a little out of tune), loudness, beginning, length, tone,
noise and echo. Held out are notes: a pitch of an instrument belongs to one split, whatever the
seed, so that no instrument was heard in training at a pitch that it is tested at, but each pitch
was from others. Clip n is a function of (seed, split, n).
"""

import hashlib
from collections.abc import Callable
from functools import cache

import numpy as np

from glassformer.data.split import NAMES, SplitName
from glassformer.errors import ConfigError

RATE = 8000
"""Samples a second; a clip is a second."""
PITCHES = ("C", "C#", "D", "D#", "E", "F", "F#", "G", "G#", "A", "A#", "B")
LOWEST, HIGHEST = 48, 83
"""Keys of the notes as MIDI counts them: C3 (131 Hz) and B5 (988 Hz)."""
COUNTS: dict[SplitName, int] = {"train": 3000, "validation": 300, "test": 1000}
"""Clips of each split of `builtin:notes`."""

_HELD_OUT = {"validation": 10, "test": 20}  # percent of the notes
# with which every instrument and pitch class is in every split, and none is trained at few pitches
_SALT = "33753"
_T = np.arange(RATE) / RATE  # seconds
_TABLE = 2048
_DRAWBARS = (0.5, 1, 1.5, 2, 3, 4, 5, 6, 8)  # times the pitch

Tone = Callable[[np.random.Generator, float, float], np.ndarray]
"""What plays a note: of a frequency in Hz and a length in seconds, from the clip's beginning to its
end, [T]."""


def notes(split: SplitName, count: int, seed: int = 0) -> tuple[np.ndarray, list[str], list[str]]:
    """The first `count` clips of a split, float32 [N, T] in [-1, 1], their instruments, and their
    pitches (C to B).

    ConfigError: a negative count.
    """
    if count < 0:
        raise ConfigError(
            f"The number of notes is {count}, but it must be 0 or more; give another number."
        )
    clips = np.empty((count, RATE), np.float32)
    for number in range(count):
        clips[number] = note(split, number, seed)
    names = [named(split, number, seed) for number in range(count)]
    return clips, [instrument for instrument, _ in names], [pitch for _, pitch in names]


def note(split: SplitName, number: int, seed: int = 0) -> np.ndarray:
    """Clip `number` of a split, counted from 0, float32 [T] in [-1, 1]."""
    return _clip(*_drawn(split, number, seed)).astype(np.float32)


def named(split: SplitName, number: int, seed: int = 0) -> tuple[str, str]:
    """The instrument and the pitch (C to B) of a clip, known without playing it."""
    _, instrument, key = _drawn(split, number, seed)
    return instrument, PITCHES[key % 12]


def _drawn(split: SplitName, number: int, seed: int) -> tuple[np.random.Generator, str, int]:
    """What a clip is: chance for the rest of it, instrument and MIDI key."""
    key = [seed % (1 << 64), NAMES.index(split)]
    random = np.random.Generator(np.random.Philox(key=key, counter=[0, 0, 0, number]))
    return random, *keys_of(split)[random.integers(len(keys_of(split)))]


def describe_notes() -> str:
    """One sentence on what is to be heard."""
    return (
        f"builtin:notes is clips of one second at {RATE} Hz of {len(INSTRUMENTS)} synthesized "
        f"instruments, each at "
        f"{HIGHEST - LOWEST + 1} pitches of which {sum(_HELD_OUT.values())} % are held out, "
        f"with noise and echo"
    )


@cache
def keys_of(split: SplitName) -> list[tuple[str, int]]:
    """The notes of a split: instruments with MIDI keys."""
    return [
        (name, key)
        for name in INSTRUMENTS
        for key in range(LOWEST, HIGHEST + 1)
        if _split(name, key) == split
    ]


def _split(instrument: str, key: int) -> SplitName:
    digest = hashlib.blake2b(f"{_SALT}{instrument}{key}".encode(), digest_size=8).digest()
    place = int.from_bytes(digest) % 100
    if place < _HELD_OUT["validation"]:
        return "validation"
    return "test" if place < _HELD_OUT["validation"] + _HELD_OUT["test"] else "train"


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
