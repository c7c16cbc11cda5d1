"""Random numbers as functions of (seed, step, sample): nothing to save, and one draw more changes
no other.

permute      | a keyed permutation of 0 .. size - 1, evaluated at any places
RandomStream | numbers for each sample and purpose, for samples changed many at a time
generator    | NumPy's generator for one sample of one step
seed_from    | a seed that depends on every letter of a text, such as a seed with a name

Keys of permutations and streams come from SplitMix64 (Steele et al. 2014).
"""

import hashlib
import math
from zlib import crc32

import numpy as np

ROUNDS = 6
_MASK = (1 << 64) - 1
_ODD, _FIRST = 0x9E3779B97F4A7C15, 0xBF58476D1CE4E5B9
_GAMMA, _MIX, _LAST = (np.uint64(n) for n in (_ODD, _FIRST, 0x94D049BB133111EB))


def epoch_key(seed: int, epoch: int) -> int:
    """The 64-bit key of an epoch or step, for any integer seed."""
    return _next(_next(seed) + epoch * _FIRST)


def generator(seed: int, step: int, sample: int = 0) -> np.random.Generator:
    """An independent Philox generator for each (seed, step, sample); any integer seed."""
    key = np.array([seed & _MASK, step], np.uint64)  # a list with 2^63 in it would become floats
    return np.random.Generator(np.random.Philox(key=key, counter=[0, 0, 0, sample]))


def seed_from(text: str) -> int:
    """The first 64 bits of the SHA-256 of a text."""
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:8], "little")


def permute(place: np.ndarray, size: int, key: int) -> np.ndarray:
    """A pseudo-random permutation of 0..size-1 at the given places, int64.

    A generalized Feistel cipher on a grid of a * b >= size cells. left <- left + hash(right) mod a,
    then right in the same way, alternately. Repeated until the cell is below size (cycle walking).
    Largest size: 2^62. Source: Black & Rogaway, Ciphers with Arbitrary Finite Domains, 2002,
    methods 2 and 3.
    """
    a = math.isqrt(size - 1) + 1
    b = -(-size // a)
    keys = [(r % 2, np.uint64(_next(key + r * _FIRST))) for r in range(ROUNDS)]
    cell = _cipher(place.astype(np.uint64), np.uint64(a), np.uint64(b), keys)
    while (outside := np.flatnonzero(cell >= size)).size:
        cell[outside] = _cipher(cell[outside], np.uint64(a), np.uint64(b), keys)
    return cell.astype(np.int64)


class RandomStream:
    """Random numbers of the samples with these numbers, int64 [N], at a step; seed and step are any
    integers.

    Every purpose ("crop", "flip") has separate numbers.
    """

    def __init__(self, seed: int, step: int, samples: np.ndarray) -> None:
        self._keys = _mix(samples.astype(np.uint64) * _GAMMA + np.uint64(epoch_key(seed, step)))

    def uniform(self, purpose: str, count: int) -> np.ndarray:
        """Numbers in [0, 1), float64 [count, N]: one row for each decision."""
        return np.multiply((self._bits(purpose, count) >> np.uint64(11)).T, 2.0**-53, order="C")

    def noise(self, purpose: str, rows: np.ndarray, count: int) -> np.ndarray:
        """Bytes for the samples that `rows` chooses, uint8 [n, count]."""
        bits = self._bits(purpose, -(-count // 8), rows)
        return bits.astype("<u8", copy=False).view(np.uint8)[:, :count]

    def _bits(self, purpose: str, count: int, rows: np.ndarray | slice = np.s_[:]) -> np.ndarray:
        start = _mix(self._keys[rows] ^ np.uint64(crc32(purpose.encode())))
        return _mix(start[:, None] + np.arange(1, count + 1, dtype=np.uint64) * _GAMMA)


def _mix(state: np.ndarray) -> np.ndarray:
    """SplitMix64's output for each state, uint64; multiplication wraps modulo 2^64."""
    state = (state ^ state >> np.uint64(30)) * _MIX
    state = (state ^ state >> np.uint64(27)) * _LAST
    return state ^ state >> np.uint64(31)


def _next(state: int) -> int:
    """SplitMix64's output for the state after an integer, taken modulo 2^64."""
    return int(_mix(np.array([(state + _ODD) & _MASK], np.uint64))[0])


def _cipher(
    cell: np.ndarray, a: np.uint64, b: np.uint64, keys: list[tuple[int, np.uint64]]
) -> np.ndarray:
    halves = list(np.divmod(cell, b))  # left below a, right below b
    for side, key in keys:
        size = b if side else a
        halves[side] = (halves[side] + _hash(halves[1 - side], key)) % size
    return halves[0] * b + halves[1]


def _hash(value: np.ndarray, key: np.uint64) -> np.ndarray:
    """32 well-mixed bits of each value (below 2^32) under a key."""
    mixed = (value ^ key) * _MIX
    mixed ^= mixed >> np.uint64(32)
    mixed *= _GAMMA
    return mixed >> np.uint64(32)
