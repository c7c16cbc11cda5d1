"""Positions in float64 NumPy: vectors added to the embedding, biases added to the scores,
rotated queries and keys."""

import math
from collections.abc import Sequence

import numpy as np

from glassformer.verify.reference import Array


def sinusoid(positions: Sequence[int], d: int, *, printed: bool = False) -> Array:
    """p(i, 2k) = sin(i ω_k), p(i, 2k+1) = cos(i ω_k), ω_k = 1 / 10000^(2k/d) (Notes A and E).

    `printed` (Note C): exponent 2j/d at the raw dimension j.
    """
    table = np.zeros((len(positions), d))
    for row, i in enumerate(positions):
        for j in range(d):
            angle = i / 10000 ** (2 * (j if printed else j // 2) / d)
            table[row, j] = math.cos(angle) if j % 2 else math.sin(angle)
    return table


def offset(d: int, delta: int) -> Array:
    """M with p_{i+Δ} = p_i M for every i: each pair (sin, cos) rotated by Δ ω_k (Note E)."""
    m = np.zeros((d, d))
    for k in range(d // 2):
        angle = delta / 10000 ** (2 * k / d)
        cos, sin = math.cos(angle), math.sin(angle)
        m[2 * k : 2 * k + 2, 2 * k : 2 * k + 2] = [[cos, -sin], [sin, cos]]
    return m


def sinusoid_grid(patches: Sequence[int], columns: int, d: int) -> Array:
    """For the patch in row r and column c: r's sinusoid of d/2 numbers, then c's; 0 for a token
    before them (Dosovitskiy et al. 2021, appendix D.4)."""
    halves = [[n // columns for n in patches], [n % columns for n in patches]]
    table = np.concatenate([sinusoid(half, d // 2) for half in halves], axis=1)
    return table * (np.array(patches) >= 0)[:, None]


def spread(table: Array) -> float:
    """How far p_i · p_j is from a function of i - j alone: the largest range along a diagonal of P
    Pᵀ."""
    products = table @ table.T
    return max(float(np.ptp(np.diagonal(products, offset))) for offset in range(len(table)))


def relative(table: Array, query: Sequence[int], key: Sequence[int]) -> Array:
    """Note C's B_ij = f(i - j) for each head: row clip(i - j) + reach of a (2 reach + 1) x H table;
    H x T x S."""
    reach = len(table) // 2
    rows = [[max(-reach, min(reach, i - j)) + reach for j in key] for i in query]
    return table[rows].transpose(2, 0, 1)


def bucket(distance: int, n_buckets: int, max_distance: int, *, both_ways: bool) -> int:
    """T5's bucket of the distance key - query: exact when near, logarithmic to `max_distance`, then
    one for all (Raffel et al. 2020)."""
    first = 0
    if both_ways:
        n_buckets //= 2
        first = n_buckets if distance > 0 else 0
        distance = -abs(distance)
    distance, exact = max(-distance, 0), n_buckets // 2
    if distance < exact:
        return first + distance
    steps = math.log(distance / exact) / math.log(max_distance / exact) * (n_buckets - exact)
    # 1e-9: at a bucket's first distance the quotient of logarithms is a whole number only up to
    # rounding.
    return first + min(exact + math.floor(steps + 1e-9), n_buckets - 1)


def bucketed(
    table: Array, query: Sequence[int], key: Sequence[int], max_distance: int, *, both_ways: bool
) -> Array:
    """T5's bias for each head: the row of the distance's bucket in a buckets x H table; H x T x
    S."""
    n = len(table)
    rows = [[bucket(j - i, n, max_distance, both_ways=both_ways) for j in key] for i in query]
    return table[rows].transpose(2, 0, 1)


def alibi_slopes(heads: int) -> list[float]:
    """2^(-8h/H), h = 1..H, for a power of two; else those of the power below, then every other of
    the one above (Press et al. 2022)."""
    power = 1 << (heads.bit_length() - 1)
    slopes = [2.0 ** (-8.0 * (h + 1) / power) for h in range(power)]
    above = [2.0 ** (-4.0 * (h + 1) / power) for h in range(0, 2 * power, 2)]
    return slopes + above[: heads - power]


def alibi(heads: int, query: Sequence[int], key: Sequence[int]) -> Array:
    """-slope_h |i - j|, H x T x S."""
    distance = np.array([[abs(i - j) for j in key] for i in query], dtype=np.float64)
    return np.array([-slope * distance for slope in alibi_slopes(heads)])


def rotary_grid(x: Array, patches: Sequence[int], columns: int, base: float) -> Array:
    """The first half of the angles by the patch's row, the others by its column, both from 1; a
    token before the patches is not rotated."""
    rows = [n // columns + 1 if n >= 0 else 0 for n in patches]
    across = [n % columns + 1 if n >= 0 else 0 for n in patches]
    quarter, out = x.shape[1] // 4, np.zeros_like(x)
    for first, numbers in ((0, rows), (quarter, across)):
        pair = [first + half + k for half in (0, 2 * quarter) for k in range(quarter)]
        out[:, pair] = rotary(x[:, pair], numbers, base)
    return out


def rotary(x: Array, positions: Sequence[int], base: float) -> Array:
    """Rotate each pair (x_k, x_{k + K/2}) of row i by the angle i · base^(-2k/K) (Su et al.
    2021)."""
    half = x.shape[1] // 2
    frequency = np.array([base ** (-2 * k / x.shape[1]) for k in range(half)])
    angle, first, second = np.outer(positions, frequency), x[:, :half], x[:, half:]
    cos, sin = np.cos(angle), np.sin(angle)
    return np.concatenate([first * cos - second * sin, first * sin + second * cos], axis=1)
