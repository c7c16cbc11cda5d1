"""Positions in float64 NumPy: vectors added to the embedding, biases added to the scores, turned
queries and keys."""

import math
from collections.abc import Sequence

import numpy as np

from glassformer.verify.reference import Array


def sinusoid(positions: Sequence[int], d: int) -> Array:
    """p(i, 2k) = sin(i ω_k), p(i, 2k+1) = cos(i ω_k), ω_k = 1 / 10000^(2k/d) (Notes A and E)."""
    table = np.zeros((len(positions), d))
    for row, i in enumerate(positions):
        for j in range(d):
            k = j // 2
            angle = i / 10000 ** (2 * k / d)
            table[row, j] = math.sin(angle) if j % 2 == 0 else math.cos(angle)
    return table


def sinusoid_printed(positions: Sequence[int], d: int) -> Array:
    """Note C as printed: exponent 2i/d at the raw dimension i, sine for even i, cosine for odd
    i."""
    table = np.zeros((len(positions), d))
    for row, t in enumerate(positions):
        for i in range(d):
            angle = t / 10000 ** (2 * i / d)
            table[row, i] = math.sin(angle) if i % 2 == 0 else math.cos(angle)
    return table


def sinusoid_grid(patches: Sequence[int], columns: int, d: int) -> Array:
    """Of the patch in row r and column c: r's sinusoid of d/2 numbers, then c's; 0 for a token
    before them (Note D)."""
    table = np.zeros((len(patches), d))
    for at, n in enumerate(patches):
        if n >= 0:
            table[at] = np.concatenate(
                [sinusoid([n // columns], d // 2)[0], sinusoid([n % columns], d // 2)[0]]
            )
    return table


def spread(table: Array) -> float:
    """How far p_i · p_j is from a function of i - j alone: the largest range along a diagonal of P
    Pᵀ."""
    products = table @ table.T
    n = len(table)
    return max(float(np.ptp(np.diagonal(products, offset))) for offset in range(n))


def relative(table: Array, query: Sequence[int], key: Sequence[int]) -> Array:
    """Note C's B_ij = f(i - j) for each head: row clip(i - j) + reach of a (2 reach + 1) x H table;
    H x T x S."""
    reach = len(table) // 2
    out = np.zeros((table.shape[1], len(query), len(key)))
    for a, i in enumerate(query):
        for b, j in enumerate(key):
            out[:, a, b] = table[max(-reach, min(reach, i - j)) + reach]
    return out


def bucket(distance: int, n_buckets: int, max_distance: int, *, both_ways: bool) -> int:
    """T5's bucket of the distance key - query: exact when near, logarithmic to `max_distance`, then
    one for all."""
    first = 0
    if both_ways:
        n_buckets //= 2
        if distance > 0:
            first = n_buckets
        distance = abs(distance)
    else:
        distance = max(-distance, 0)
    exact = n_buckets // 2
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
    out = np.zeros((table.shape[1], len(query), len(key)))
    for a, i in enumerate(query):
        for b, j in enumerate(key):
            out[:, a, b] = table[bucket(j - i, len(table), max_distance, both_ways=both_ways)]
    return out


def alibi_slopes(heads: int) -> list[float]:
    """2^(-8h/H), h = 1..H, for a power of two; else those of the power below, then every other of
    the one above."""
    power = 1
    while power * 2 <= heads:
        power *= 2
    slopes = [2.0 ** (-8.0 * (h + 1) / power) for h in range(power)]
    above = [2.0 ** (-8.0 * (h + 1) / (2 * power)) for h in range(2 * power)]
    return slopes + above[0::2][: heads - power]


def alibi(heads: int, query: Sequence[int], key: Sequence[int]) -> Array:
    """-slope_h |i - j|, H x T x S."""
    distance = np.array([[abs(i - j) for j in key] for i in query], dtype=np.float64)
    return np.array([-slope * distance for slope in alibi_slopes(heads)])


def rotary_grid(x: Array, patches: Sequence[int], columns: int, base: float) -> Array:
    """The pairs of the first half of the angles turned by the patch's row, the others by its
    column, both from 1.

    A token before the patches stays as it is.
    """
    rows = [n // columns + 1 if n >= 0 else 0 for n in patches]
    across = [n % columns + 1 if n >= 0 else 0 for n in patches]
    quarter = x.shape[1] // 4
    out = np.zeros_like(x)
    for first, numbers in ((0, rows), (quarter, across)):
        pair = [first + k for k in range(quarter)] + [
            first + 2 * quarter + k for k in range(quarter)
        ]
        out[:, pair] = rotary(x[:, pair], numbers, base)
    return out


def rotary(x: Array, positions: Sequence[int], base: float) -> Array:
    """Turn each pair (x_k, x_{k + K/2}) of row i by the angle i · base^(-2k/K)."""
    half = x.shape[1] // 2
    out = np.zeros_like(x)
    for k in range(half):
        angle = np.array([i * base ** (-2 * k / x.shape[1]) for i in positions])
        cos, sin = np.cos(angle), np.sin(angle)
        out[:, k] = x[:, k] * cos - x[:, k + half] * sin
        out[:, k + half] = x[:, k] * sin + x[:, k + half] * cos
    return out
