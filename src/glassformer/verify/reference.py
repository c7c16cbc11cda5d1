"""Equations of the notes in float64 NumPy, one sequence at a time, as the texts write them;
positions at the end.

Row vectors: X is T x d, a weight W maps by X W, so W_Q is d x d_k. No code is shared with
production.
"""

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]
"""float64 everywhere; complex where a derivative is taken by a complex step."""
ERF = np.vectorize(math.erf, otypes=[np.float64])


def softmax(scores: Array, temperature: float = 1.0) -> Array:
    """exp(s/τ) / Σ exp(s/τ) by rows; a row with -inf only gives zeros (Note E, "The softmax
    function")."""
    closed = np.real(scores) == -np.inf  # before dividing: a complex -inf has no direction
    scaled = np.where(closed, -np.inf, scores) / temperature
    top = np.max(np.real(scaled), axis=-1, keepdims=True, initial=np.finfo(float).min)
    e = np.where(closed, 0.0, np.exp(scaled - top))
    total = e.sum(-1, keepdims=True)
    return e / np.where(total == 0, 1.0, total)


def simple_attention(x: Array) -> Array:
    """a_i = Σ_{j <= i} α_ij x_j, α_ij = exp(x_i · x_j) / Σ_{j <= i} exp(x_i · x_j) (equation 2,
    Note B's first version)."""
    out = np.zeros(x.shape)
    for i in range(len(x)):
        e = [math.exp(float(x[i] @ x[j])) for j in range(i + 1)]
        out[i] = sum(e[j] / sum(e) * x[j] for j in range(i + 1))
    return out


def scores(
    q: Array, k: Array, scale: float, mask: Array, bias: Array | float, *, inside: bool
) -> Array:
    """S = Q Kᵀ scale + B + M of each head (Notes A, D); `inside`: (Q Kᵀ + B + M) scale (Note C)."""
    products = q @ k.swapaxes(-1, -2)
    return (products + bias + mask) * scale if inside else products * scale + bias + mask


def layer_norm(x: Array, gamma: Array, beta: Array | None, epsilon: float) -> Array:
    """γ (x - μ) / σ + β for each row, σ² = (1/d) Σ (x - μ)² + ε (equation 9; ε = 0 in the
    notes)."""
    centred = x - x.mean(-1, keepdims=True)
    y = rms_norm(centred, gamma, epsilon)
    return y if beta is None else y + beta


def rms_norm(x: Array, gamma: Array, epsilon: float) -> Array:
    """γ x / √((1/d) Σ x² + ε) for each row."""
    return gamma * x / np.sqrt((x**2).mean(-1, keepdims=True) + epsilon)


def gelu(x: Array) -> Array:
    """x Φ(x), Φ(x) = (1 + erf(x / √2)) / 2."""
    return x * (1 + ERF(x / math.sqrt(2))) / 2


PHI: dict[str, Callable[[Array], Array]] = {
    "relu": lambda x: np.maximum(x, 0),
    "relu_squared": lambda x: np.maximum(x, 0) ** 2,
    "gelu": gelu,
    "gelu_tanh": lambda x: x * (1 + np.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3))) / 2,
    "silu": lambda x: x * (1 + np.tanh(x / 2)) / 2,  # x / (1 + exp(-x)) without overflow
    "tanh": np.tanh,
    "identity": lambda x: x,
}
"""The activations by name."""


def cross_entropy(logits: Array, targets: Array, ignore: int) -> tuple[float, int]:
    """-Σ_i Σ_j y_ij log f_ij with f_i = softmax(logits_i) and y one-hot, and the number of i whose
    target is not `ignore` (equation 14)."""
    rows, targets = logits.reshape(-1, logits.shape[-1]), targets.reshape(-1)
    counted = np.flatnonzero(targets != ignore)
    shifted = rows - rows.max(-1, keepdims=True)
    log_f = shifted - np.log(np.exp(shifted).sum(-1, keepdims=True))
    return -float(log_f[counted, targets[counted]].sum()), len(counted)


def greedy(step: Callable[[list[int]], Array], prompt: Sequence[int], count: int) -> list[int]:
    """Append arg max f(x_1 .. x_t) `count` times, everything computed again at each step (equation
    16)."""
    ids = list(prompt)
    for _ in range(count):
        ids.append(int(np.argmax(step(ids))))
    return ids[-count:]


def patches(image: Array, side: int) -> Array:
    """An image (height, width, colours) cut into side x side squares, each flattened to h·w·c
    numbers (equation 18)."""
    height, width, _ = image.shape
    corners = [(top, left) for top in range(0, height, side) for left in range(0, width, side)]
    return np.array([image[y : y + side, x : x + side].ravel() for y, x in corners])


def derivative(f: Callable[[Array], Array], x: Array, direction: Array) -> Array:
    """Directional derivative of an analytic f by a complex step: Im f(x + i h u) / h, exact to
    rounding."""
    h = 1e-30
    # The imaginary part of a masked score, -inf + i·0, has no meaning.
    with np.errstate(invalid="ignore"):
        return np.imag(f(x + 1j * h * direction)) / h


def sinusoid(positions: Array, d: int, kind: str = "") -> Array:
    """p(i, 2k) = sin(i ω_k), p(i, 2k+1) = cos(i ω_k), ω_k = 1 / 10000^(2k/d) (Notes A and E).

    `printed` (Note C): exponent 2j/d at the raw dimension j. `halves`: the sines before the
    cosines.
    """
    j = np.arange(d)
    exponent = 2 * (j if kind == "printed" else j // 2) / d
    angle = positions[:, None] / 10000**exponent
    table = np.where(j % 2, np.cos(angle), np.sin(angle))
    return np.hstack([table[:, 0::2], table[:, 1::2]]) if kind == "halves" else table


def offset(d: int, delta: int) -> Array:
    """M with p_{i+Δ} = p_i M for every i: each pair (sin, cos) rotated by Δ ω_k (Note E)."""
    m = np.zeros((d, d))
    for k in range(0, d, 2):
        angle = delta / 10000 ** (k / d)
        cos, sin = math.cos(angle), math.sin(angle)
        m[k : k + 2, k : k + 2] = [[cos, -sin], [sin, cos]]
    return m


def sinusoid_grid(patches: Array, columns: int, d: int) -> Array:
    """For the patch in row r and column c: the sinusoid of r with d/2 numbers, then that of c; 0
    for a token before them (Dosovitskiy et al. 2021, appendix D.4)."""
    halves = [sinusoid(half, d // 2) for half in (patches // columns, patches % columns)]
    return np.hstack(halves) * (patches >= 0)[:, None]


def relative(table: Array, positions: Array) -> Array:
    """B_ij = f(i - j) of Note C for each head: row clip(i - j) + reach of a (2 reach + 1) x H
    table; H x T x T."""
    reach = len(table) // 2
    gap = np.subtract.outer(positions, positions).clip(-reach, reach)
    return table[gap + reach].transpose(2, 0, 1)


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


def bucket_bias(table: Array, positions: Array, max_distance: int, *, both_ways: bool) -> Array:
    """T5's bias for each head: the row of the distance's bucket in a buckets x H table; H x T x
    T."""
    gaps, at = np.unique(-np.subtract.outer(positions, positions), return_inverse=True)
    numbers = [bucket(int(gap), len(table), max_distance, both_ways=both_ways) for gap in gaps]
    return table[numbers][at.reshape([len(positions)] * 2)].transpose(2, 0, 1)


def alibi(heads: int, positions: Array) -> Array:
    """-slope_h |i - j|, H x T x T; slopes 2^(-8h/H), h = 1..H, for a power of two; else those of
    the power below, then every other of the one above (Press et al. 2022)."""
    power = 1 << (heads.bit_length() - 1)
    slopes = [2.0 ** (-8 * h / power) for h in range(1, power + 1)]
    slopes += [2.0 ** (-4 * h / power) for h in range(1, 2 * power, 2)]
    distance = np.abs(np.subtract.outer(positions, positions))
    return -np.array(slopes[:heads])[:, None, None] * distance


def rotary_grid(x: Array, patches: Array, columns: int, base: float) -> Array:
    """The first half of the angles by the patch's row, the others by its column, both from 1; a
    token before the patches is not rotated."""
    quarter, out = x.shape[-1] // 4, np.zeros_like(x)
    for first, place in ((0, patches // columns), (quarter, patches % columns)):
        pair = [first + half + k for half in (0, 2 * quarter) for k in range(quarter)]
        out[..., pair] = rotary(x[..., pair], (place + 1) * (patches >= 0), base)
    return out


def rotary(
    x: Array,
    positions: Array,
    base: float,
    factor: float = 1.0,
    wavelengths: tuple[float, float] | None = None,
) -> Array:
    """Rotate each pair (x_k, x_{k + K/2}) of row i by the angle i · base^(-2k/K) (Su et al. 2021),
    divided by `factor`: only those of long wavelengths, where two are given (Llama 3)."""
    width, share = x.shape[-1], 1.0
    frequency = base ** (-2 * np.arange(width // 2) / width)
    if wavelengths is not None:
        short, long = (1 / length for length in wavelengths)
        share = ((short - frequency / (2 * math.pi)) / (short - long)).clip(0, 1)
    frequency = (1 - share) * frequency + share * frequency / factor
    angle, (first, second) = np.outer(positions, frequency), np.split(x, 2, axis=-1)
    cos, sin = np.cos(angle), np.sin(angle)
    return np.concatenate([first * cos - second * sin, first * sin + second * cos], axis=-1)
