"""The notes' equations in float64 NumPy, one sequence at a time, as the texts write them; positions
at the end.

Row vectors: X is T x d, a weight W maps by X W, so W_Q is d x d_k. Loops stand where they are
clearer than index tricks. No code is shared with production.
"""

import math
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]
"""float64 everywhere; complex where a derivative is taken by a complex step."""
ERF = np.vectorize(math.erf, otypes=[np.float64])


def softmax(scores: Array, temperature: float = 1.0) -> Array:
    """exp(s/τ) / Σ exp(s/τ) by rows; a row of -inf alone gives zeros (Note E, "The softmax
    function")."""
    closed = np.real(scores) == -np.inf  # before dividing: a complex -inf has no direction
    scaled = np.where(closed, -np.inf, scores) / temperature
    top = np.max(np.real(scaled), axis=-1, keepdims=True, initial=np.finfo(float).min)
    e = np.where(closed, 0.0, np.exp(scaled - top))
    total = e.sum(-1, keepdims=True)
    return e / np.where(total == 0, 1.0, total)


def attention_by_vectors(
    q: Array, k: Array, v: Array, scale: float, *, causal: bool = False
) -> Array:
    """z_i = Σ_j a_ij v_j, a_ij = exp(s_ij) / Σ_j exp(s_ij), s_ij = q_i · k_j scale; `causal`: sums
    end at i.

    Equation 2 (Note B's first version) is the same with q = k = v = x and scale 1, causal.
    """
    out = np.zeros((len(q), v.shape[1]))
    for i in range(len(q)):
        last = i + 1 if causal else len(k)
        e = [math.exp(float(q[i] @ k[j]) * scale) for j in range(last)]
        out[i] = sum(e[j] / sum(e) * v[j] for j in range(last))
    return out


def scores(
    q: Array,
    k: Array,
    scale: float,
    mask: Array | float = 0.0,
    bias: Array | float = 0.0,
    *,
    inside: bool = False,
) -> Array:
    """S = Q Kᵀ scale + B + M (Notes A, D); `inside`: (Q Kᵀ + B + M) scale (Note C).

    Of one head or of several, H x T x K, each with its own B.
    """
    products = q @ k.swapaxes(-1, -2)
    return (products + bias + mask) * scale if inside else products * scale + bias + mask


def attention(
    q: Array, k: Array, v: Array, scale: float, *added: Array | float, inside: bool = False
) -> Array:
    """Z = softmax(S) V; `added`: the mask and the bias of `scores`."""
    return softmax(scores(q, k, scale, *added, inside=inside)) @ v


def causal_mask(length: int) -> Array:
    """M_ij = 0 for j <= i, -inf otherwise (equation 4)."""
    return np.where(np.tri(length, dtype=bool), 0.0, -np.inf)


def layer_norm(x: Array, gamma: Array, beta: Array | None, epsilon: float = 0.0) -> Array:
    """γ (x - μ) / σ + β for each row, σ² = (1/d) Σ (x - μ)² + ε (equation 9; ε = 0 in the
    notes)."""
    centred = x - x.sum(-1, keepdims=True) / x.shape[-1]
    sigma = np.sqrt((centred**2).sum(-1, keepdims=True) / x.shape[-1] + epsilon)
    return gamma * centred / sigma + (0.0 if beta is None else beta)


def rms_norm(x: Array, gamma: Array, epsilon: float = 0.0) -> Array:
    """γ x / √((1/d) Σ x² + ε) for each row."""
    return gamma * x / np.sqrt((x**2).sum(-1, keepdims=True) / x.shape[-1] + epsilon)


def gelu(x: Array) -> Array:
    """x Φ(x), Φ(x) = (1 + erf(x / √2)) / 2."""
    return x * (1 + ERF(x / math.sqrt(2))) / 2


def gelu_tanh(x: Array) -> Array:
    """x (1 + tanh(√(2/π) (x + 0.044715 x³))) / 2."""
    return 0.5 * x * (1 + np.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3)))


def silu(x: Array) -> Array:
    """x / (1 + exp(-x)), written without overflow."""
    return x * (1 + np.tanh(x / 2)) / 2


PHI: dict[str, Callable[[Array], Array]] = {
    "relu": lambda x: x * (np.real(x) > 0),
    "relu_squared": lambda x: x**2 * (np.real(x) > 0),
    "gelu": gelu,
    "gelu_tanh": gelu_tanh,
    "silu": silu,
    "tanh": np.tanh,
    "identity": lambda x: x,
}
"""The activations by name."""


def sublayer(
    x: Array,
    f: Callable[[Array], Array],
    norm: Callable[[Array], Array],
    placement: str,
    *,
    residual: bool = True,
) -> Array:
    """x + f(LN(x)) for the placement "pre", LN(x + f(x)) for "post" (equations 11, 12).

    Not `residual` (Note C, "Without the residual connection"): x + is left out of both.
    """
    branch = f(norm(x)) if placement == "pre" else f(x)
    branch = x + branch if residual else branch
    return branch if placement == "pre" else norm(branch)


def cross_entropy(logits: Array, targets: Array, ignore: int | None = None) -> tuple[float, int]:
    """-Σ_i Σ_j y_ij log f_ij with f_i = softmax(logits_i) and y one-hot, and how many i counted
    (equation 14)."""
    total, count = 0.0, 0
    for row, target in zip(logits.reshape(-1, logits.shape[-1]), targets.reshape(-1), strict=True):
        if target != ignore:
            shifted = row - row.max()
            total -= float(shifted[target] - np.log(np.exp(shifted).sum()))
            count += 1
    return total, count


def shift(target: Sequence[int], start: int) -> list[int]:
    """The decoder's input: [START] + the target without its last token (equation 15)."""
    return [start, *target[:-1]]


def greedy(step: Callable[[list[int]], Array], prompt: Sequence[int], count: int) -> list[int]:
    """Append arg max f(x_1 .. x_t) `count` times, everything computed anew at each step (equation
    16)."""
    ids = list(prompt)
    for _ in range(count):
        ids.append(int(np.argmax(step(ids))))
    return ids[-count:]


def sampling(chain: Sequence[int], p: Array) -> tuple[Array, float]:
    """Deviations of a chain x_1 .. x_n from x_{t+1} ~ p[x_t], in standard deviations (equation 16).

    Counts: Σ_t (1[x_{t+1} = j] - p_j(x_t)), of variance Σ_t p_j (1 - p_j), for each token j.
    Surprise: Σ_t (-log p(x_{t+1}) - entropy of p(x_t)). Each term has mean 0 given the past, so the
    variances add up.
    """
    rows, drawn = p[list(chain[:-1])], list(chain[1:])
    counts = (np.eye(p.shape[1])[drawn] - rows).sum(0) / np.sqrt((rows * (1 - rows)).sum(0))
    surprise = -np.log(rows)
    entropy = (rows * surprise).sum(-1)
    variance = (rows * surprise**2).sum(-1) - entropy**2
    told = surprise[np.arange(len(drawn)), drawn] - entropy
    return counts, float(told.sum() / np.sqrt(variance.sum()))


def four_terms(x: Array, p: Array, w_q: Array, w_k: Array) -> list[Array]:
    """The scores of x + p in four: content to content, content to position, position to content,
    position to position (Note E, "three additional relationships")."""
    return [query @ w_q @ (key @ w_k).T for query in (x, p) for key in (x, p)]


def patches(image: Array, side: int) -> Array:
    """An image (height, width, colours) cut into side x side squares, each flattened to h·w·c
    numbers (equation 18)."""
    rows = []
    for top in range(0, image.shape[0], side):
        for left in range(0, image.shape[1], side):
            square = image[top : top + side, left : left + side]
            rows.append([value for line in square for pixel in line for value in pixel])
    return np.array(rows)


def derivative(f: Callable[[Array], Array], x: Array, direction: Array) -> Array:
    """The directional derivative of an analytic f by a complex step: Im f(x + i h u) / h, exact to
    rounding."""
    h = 1e-30
    # The imaginary part of a masked score, -inf + i·0, has no meaning.
    with np.errstate(invalid="ignore"):
        return np.imag(f(x + 1j * h * direction)) / h


def jacobian(f: Callable[[Array], Array], x: Array) -> Array:
    """∂f_m/∂x_n over the flattened arrays, column by column with `derivative`."""
    units = np.eye(x.size).reshape(-1, *x.shape)
    return np.array([derivative(f, x, unit).ravel() for unit in units]).T


def sinusoid(
    positions: Sequence[int], d: int, *, printed: bool = False, halves: bool = False
) -> Array:
    """p(i, 2k) = sin(i ω_k), p(i, 2k+1) = cos(i ω_k), ω_k = 1 / 10000^(2k/d) (Notes A and E).

    `printed` (Note C): exponent 2j/d at the raw dimension j. `halves`: the sines before the
    cosines.
    """
    table = np.zeros((len(positions), d))
    for row, i in enumerate(positions):
        for j in range(d):
            angle = i / 10000 ** (2 * (j if printed else j // 2) / d)
            place = j // 2 + (j % 2) * (d - d // 2) if halves else j
            table[row, place] = math.cos(angle) if j % 2 else math.sin(angle)
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


def relative(table: Array, positions: Sequence[int]) -> Array:
    """Note C's B_ij = f(i - j) for each head: row clip(i - j) + reach of a (2 reach + 1) x H table;
    H x T x T."""
    reach = len(table) // 2
    rows = [[max(-reach, min(reach, i - j)) + reach for j in positions] for i in positions]
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
    table: Array, positions: Sequence[int], max_distance: int, *, both_ways: bool
) -> Array:
    """T5's bias for each head: the row of the distance's bucket in a buckets x H table; H x T x
    T."""
    number = partial(bucket, n_buckets=len(table), max_distance=max_distance, both_ways=both_ways)
    rows = [[number(j - i) for j in positions] for i in positions]
    return table[rows].transpose(2, 0, 1)


def alibi_slopes(heads: int) -> list[float]:
    """2^(-8h/H), h = 1..H, for a power of two; else those of the power below, then every other of
    the one above (Press et al. 2022)."""
    power = 1 << (heads.bit_length() - 1)
    slopes = [2.0 ** (-8.0 * (h + 1) / power) for h in range(power)]
    above = [2.0 ** (-4.0 * (h + 1) / power) for h in range(0, 2 * power, 2)]
    return slopes + above[: heads - power]


def alibi(heads: int, positions: Sequence[int]) -> Array:
    """-slope_h |i - j|, H x T x T."""
    distance = np.abs(np.subtract.outer(positions, positions))
    return np.array([-slope * distance for slope in alibi_slopes(heads)])


def rotary_grid(x: Array, patches: Sequence[int], columns: int, base: float) -> Array:
    """The first half of the angles by the patch's row, the others by its column, both from 1; a
    token before the patches is not rotated."""
    rows = [n // columns + 1 if n >= 0 else 0 for n in patches]
    across = [n % columns + 1 if n >= 0 else 0 for n in patches]
    quarter, out = x.shape[-1] // 4, np.zeros_like(x)
    for first, numbers in ((0, rows), (quarter, across)):
        pair = [first + half + k for half in (0, 2 * quarter) for k in range(quarter)]
        out[..., pair] = rotary(x[..., pair], numbers, base)
    return out


def rotary(
    x: Array,
    positions: Sequence[int],
    base: float,
    factor: float = 1.0,
    wavelengths: tuple[float, float] | None = None,
) -> Array:
    """Rotate each pair (x_k, x_{k + K/2}) of row i by the angle i · base^(-2k/K) (Su et al. 2021),
    divided by `factor`: those of long wavelengths alone, where two are given (Llama 3)."""
    width = x.shape[-1]
    frequency = np.array([base ** (-2 * k / width) for k in range(width // 2)])
    for k, own in enumerate(frequency):
        length, share = 2 * math.pi / own, 1.0
        if wavelengths is not None:
            short, long = wavelengths
            share = (1 / short - 1 / length) / (1 / short - 1 / long)
            share = 0.0 if length < short else 1.0 if length > long else share
        frequency[k] = (1 - share) * own + share * own / factor
    angle, (first, second) = np.outer(positions, frequency), np.split(x, 2, axis=-1)
    cos, sin = np.cos(angle), np.sin(angle)
    return np.concatenate([first * cos - second * sin, first * sin + second * cos], axis=-1)
