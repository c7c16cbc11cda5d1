"""The order in which training sees the text: a pure function of (seed, index), with no state to
save.

epoch e       visits each of its W windows once, in an order that is a keyed permutation of 0..W-1
window w      begins at phase(e) + w * length; the phase moves the borders from epoch to epoch
"""

import math

import numpy as np

ROUNDS = 6
_MASK = (1 << 64) - 1
_ODD, _MIX = 0x9E3779B97F4A7C15, 0xBF58476D1CE4E5B9
_HALF, _FIRST, _SECOND = np.uint64(32), np.uint64(_MIX), np.uint64(_ODD)


def sample_indices(step: int, batch_size: int) -> np.ndarray:
    """The global sample indices of a step: step * batch_size .. (step + 1) * batch_size - 1,
    int64."""
    return np.arange(step * batch_size, (step + 1) * batch_size, dtype=np.int64)


def windows_per_epoch(n_tokens: int, length: int) -> int:
    """W = max(1, floor((n - length) / length)), so that length + 1 tokens fit behind every start at
    every phase.

    Needs n_tokens >= length + 1.
    """
    return max(1, (n_tokens - length) // length)


def windows(n_tokens: int, length: int, seed: int, index: np.ndarray) -> np.ndarray:
    """Where the windows with the given global sample indices begin, int64; each has length + 1
    tokens.

    start = phase(seed, e) + length * permute(i mod W, W, seed, e) with e = i div W; phases are
    uniform over all that fit, at least `length` of them if n_tokens >= 2 * length. Needs n_tokens
    >= length + 1.
    """
    count = windows_per_epoch(n_tokens, length)
    slack = n_tokens - count * length  # phases 0 .. n - 1 - count * length
    starts = np.empty(len(index), dtype=np.int64)
    epochs = (
        range(int(index.min()) // count, int(index.max()) // count + 1) if len(index) else range(0)
    )
    for epoch in epochs:  # nearly always just one
        here = slice(None) if len(epochs) == 1 else index // count == epoch
        key = epoch_key(seed, epoch)
        starts[here] = permute(index[here] - epoch * count, count, key) * length + key % slack
    return starts


def epoch_key(seed: int, epoch: int) -> int:
    """The 64-bit key of an epoch, for any integer seed."""
    return _mixed(_mixed(seed) + epoch * _MIX)


def permute(place: np.ndarray, size: int, key: int) -> np.ndarray:
    """A pseudo-random permutation of 0..size-1 at the given places, int64.

    A generalized Feistel cipher on a grid of a * b >= size cells: left <- left + hash(right) mod a,
    then right in the same way, in turn; repeated until the cell is below size (cycle walking). size
    < 2^62. Source: Black & Rogaway, Ciphers with Arbitrary Finite Domains, 2002, methods 2 and 3.
    """
    return _walk(place, size, key, forward=True)


def unpermute(place: np.ndarray, size: int, key: int) -> np.ndarray:
    """The inverse of `permute`: which place is sent here."""
    return _walk(place, size, key, forward=False)


def _walk(place: np.ndarray, size: int, key: int, forward: bool) -> np.ndarray:
    a = math.isqrt(size - 1) + 1
    b = -(-size // a)
    keys = [(r % 2, np.uint64(_mixed(key + r * _MIX))) for r in range(ROUNDS)]
    keys = keys if forward else keys[::-1]
    cell = _cipher(place.astype(np.uint64), np.uint64(a), np.uint64(b), keys, forward)
    while (outside := np.flatnonzero(cell >= size)).size:
        cell[outside] = _cipher(cell[outside], np.uint64(a), np.uint64(b), keys, forward)
    return cell.astype(np.int64)


def _cipher(
    cell: np.ndarray, a: np.uint64, b: np.uint64, keys: list[tuple[int, np.uint64]], forward: bool
) -> np.ndarray:
    halves = list(np.divmod(cell, b))  # left below a, right below b
    for side, key in keys:
        size = b if side else a
        hashed = _hash(halves[1 - side], key)
        halves[side] = (halves[side] + (hashed if forward else size - hashed % size)) % size
    return halves[0] * b + halves[1]


def _hash(value: np.ndarray, key: np.uint64) -> np.ndarray:
    """32 well-mixed bits of each value (below 2^32) under a key; multiplication wraps modulo
    2^64."""
    mixed = (value ^ key) * _FIRST
    mixed ^= mixed >> _HALF
    mixed *= _SECOND
    return mixed >> _HALF


def _mixed(value: int) -> int:
    """SplitMix64's step: 64 well-mixed bits of an integer modulo 2^64."""
    value = (value + _ODD) & _MASK
    value = (value ^ value >> 30) * _MIX & _MASK
    value = (value ^ value >> 27) * 0x94D049BB133111EB & _MASK
    return value ^ value >> 31
