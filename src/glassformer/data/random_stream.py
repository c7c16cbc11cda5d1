"""Chance as a pure function of (seed, step, sample): what a sample draws does not depend on which
others are drawn for.

Every purpose ("crop", "flip") has numbers of its own, so that one more of them changes nothing for
the others. The numbers are those of SplitMix64 (Steele et al. 2014), with a start for each sample.
"""

from zlib import crc32

import numpy as np

from glassformer.data.order import epoch_key

_ODD, _FIRST, _SECOND = (
    np.uint64(n) for n in (0x9E3779B97F4A7C15, 0xBF58476D1CE4E5B9, 0x94D049BB133111EB)
)
_THIRTY, _TWENTY_SEVEN, _THIRTY_ONE, _ELEVEN = (np.uint64(n) for n in (30, 27, 31, 11))


class Chances:
    """What is drawn for the samples of these numbers, int64 [N], at a step; seed and step are any
    integers."""

    def __init__(self, seed: int, step: int, samples: np.ndarray) -> None:
        self._keys = _mixed(samples.astype(np.uint64) * _ODD + np.uint64(epoch_key(seed, step)))

    def uniform(self, purpose: str, count: int) -> np.ndarray:
        """Numbers in [0, 1), float64 [count, N]: one row for each thing to decide."""
        return np.multiply((self._bits(purpose, count) >> _ELEVEN).T, 2.0**-53, order="C")

    def noise(self, purpose: str, rows: np.ndarray, count: int) -> np.ndarray:
        """Bytes for the samples that `rows` chooses, uint8 [n, count]."""
        return (
            self._bits(purpose, -(-count // 8), rows)
            .astype("<u8", copy=False)
            .view(np.uint8)[:, :count]
        )

    def _bits(self, purpose: str, count: int, rows: np.ndarray | slice = np.s_[:]) -> np.ndarray:
        start = _mixed(self._keys[rows] ^ np.uint64(crc32(purpose.encode())))
        return _mixed(start[:, None] + np.arange(1, count + 1, dtype=np.uint64) * _ODD)


def _mixed(value: np.ndarray) -> np.ndarray:
    """SplitMix64's output for each state; multiplication wraps modulo 2^64."""
    value = (value ^ value >> _THIRTY) * _FIRST
    value = (value ^ value >> _TWENTY_SEVEN) * _SECOND
    return value ^ value >> _THIRTY_ONE
