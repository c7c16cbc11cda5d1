"""The notes' equations in float64 NumPy, one sequence at a time, as the texts write them.

Row vectors: X is T x d, a weight W maps by X W, so W_Q is d x d_k. Loops stand where they are
clearer than index tricks. Nothing here is shared with the code it judges.
"""

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]
"""float64 everywhere; complex where a derivative is taken by a complex step."""


def project(x: Array, weight: Array, bias: Array | None = None) -> Array:
    """X W + b (equation 1 with W_Q, W_K or W_V; every other map of the notes)."""
    y = x @ weight
    return y if bias is None else y + bias


def softmax(scores: Array, temperature: float = 1.0) -> Array:
    """Each row exp(s/τ) / Σ exp(s/τ); a row of -inf alone gives zeros (Note E, "The softmax
    function")."""
    closed = np.real(scores) == -np.inf  # decided before dividing: a complex -inf has no direction
    scaled = np.where(closed, -np.inf, scores) / temperature
    top = np.max(np.where(closed, -np.inf, np.real(scaled)), axis=-1, keepdims=True)
    e = np.exp(scaled - np.where(np.isfinite(top), top, 0.0))
    e = np.where(closed, 0.0, e)
    total = np.sum(e, axis=-1, keepdims=True)
    return e / np.where(total == 0, 1.0, total)


def simplified_attention(x: Array) -> Array:
    """Note B's first version: α_ij = softmax(x_i · x_j) over j <= i, a_i = Σ α_ij x_j (equation
    2)."""
    out = np.zeros_like(x)
    for i in range(len(x)):
        alpha = softmax(np.array([x[i] @ x[j] for j in range(i + 1)]))
        for j in range(i + 1):
            out[i] += alpha[j] * x[j]
    return out


def attention_by_vectors(
    q: Array, k: Array, v: Array, scale: float, *, causal: bool = False
) -> Array:
    """z_i = Σ_j a_ij v_j, a_ij = exp(s_ij) / Σ_j exp(s_ij), s_ij = q_i · k_j scale; `causal`: sums
    end at i."""
    out = np.zeros((len(q), v.shape[1]))
    for i in range(len(q)):
        last = i + 1 if causal else len(k)
        e = [math.exp(float(q[i] @ k[j]) * scale) for j in range(last)]
        for j in range(last):
            out[i] += e[j] / sum(e) * v[j]
    return out


def scores(
    q: Array, k: Array, scale: float, mask: Array | float = 0.0, bias: Array | float = 0.0
) -> Array:
    """S = Q Kᵀ scale + B + M (Notes A, D; B added to the scaled scores)."""
    return q @ k.T * scale + bias + mask


def scores_inside(
    q: Array, k: Array, scale: float, mask: Array | float = 0.0, bias: Array | float = 0.0
) -> Array:
    """S = (Q Kᵀ + B + M) scale (Note C)."""
    return (q @ k.T + bias + mask) * scale


def causal_mask(length: int) -> Array:
    """M_ij = 0 for j <= i, -inf otherwise (equation 4)."""
    return np.array([[0.0 if j <= i else -np.inf for j in range(length)] for i in range(length)])


def padding_mask(queries: int, valid: Sequence[bool]) -> Array:
    """M_ij = 0 where key j is real, -inf where it is padding."""
    return np.array([[0.0 if real else -np.inf for real in valid] for _ in range(queries)])


def split(x: Array, heads: int) -> list[Array]:
    """The columns of X in `heads` equal blocks: one matrix for each head."""
    return list(np.split(x, heads, axis=1))


def multi_head(
    q: Sequence[Array],
    k: Sequence[Array],
    v: Sequence[Array],
    w_o: Array,
    scale: float,
    mask: Array | float = 0.0,
) -> Array:
    """concat(Z¹ .. Zᴴ) W_O; with fewer key-value heads than heads, each serves H / G neighbours
    (equation 5)."""
    share = len(q) // len(k)
    z = [softmax(scores(q[h], k[h // share], scale, mask)) @ v[h // share] for h in range(len(q))]
    return np.concatenate(z, axis=1) @ w_o


def layer_norm(x: Array, gamma: Array, beta: Array | None, epsilon: float = 0.0) -> Array:
    """γ (x - μ) / σ + β for each row, σ² = (1/d) Σ (x - μ)² + ε (equation 9; ε = 0 in the
    notes)."""
    mu = x.sum(-1, keepdims=True) / x.shape[-1]
    sigma = np.sqrt(((x - mu) ** 2).sum(-1, keepdims=True) / x.shape[-1] + epsilon)
    y = gamma * (x - mu) / sigma
    return y if beta is None else y + beta


def rms_norm(x: Array, gamma: Array, epsilon: float = 0.0) -> Array:
    """γ x / √((1/d) Σ x² + ε) for each row."""
    return gamma * x / np.sqrt((x**2).sum(-1, keepdims=True) / x.shape[-1] + epsilon)


def relu(x: Array) -> Array:
    """max(0, x)."""
    return np.where(np.real(x) > 0, x, 0)


def gelu(x: Array) -> Array:
    """x Φ(x), Φ(x) = (1 + erf(x / √2)) / 2."""
    phi = np.array([0.5 * (1 + math.erf(value / math.sqrt(2))) for value in x.ravel()])
    return x * phi.reshape(x.shape)


def gelu_tanh(x: Array) -> Array:
    """x (1 + tanh(√(2/π) (x + 0.044715 x³))) / 2."""
    return 0.5 * x * (1 + np.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3)))


def silu(x: Array) -> Array:
    """x / (1 + exp(-x)), written without overflow."""
    return x * 0.5 * (1 + np.tanh(x / 2))


PHI: dict[str, Callable[[Array], Array]] = {
    "relu": relu,
    "relu_squared": lambda x: relu(x) ** 2,
    "gelu": gelu,
    "gelu_tanh": gelu_tanh,
    "silu": silu,
    "identity": lambda x: x,
}
"""The activations by name."""


def feed_forward(
    x: Array,
    w_1: Array,
    b_1: Array | None,
    w_2: Array,
    b_2: Array | None,
    phi: Callable[[Array], Array],
    w_gate: Array | None = None,
    b_gate: Array | None = None,
) -> Array:
    """φ(x W₁ + b₁) W₂ + b₂; gated: (φ(x W_g + b_g) ⊙ (x W₁ + b₁)) W₂ + b₂ (equation 10)."""
    hidden = project(x, w_1, b_1)
    hidden = phi(hidden) if w_gate is None else phi(project(x, w_gate, b_gate)) * hidden
    return project(hidden, w_2, b_2)


def pre_norm(x: Array, f: Callable[[Array], Array], norm: Callable[[Array], Array]) -> Array:
    """x + f(LN(x)) (equation 11)."""
    return x + f(norm(x))


def post_norm(x: Array, f: Callable[[Array], Array], norm: Callable[[Array], Array]) -> Array:
    """LN(x + f(x)) (equation 11)."""
    return norm(x + f(x))


def cross_entropy(logits: Array, targets: Array, ignore: int | None = None) -> tuple[float, int]:
    """-Σ_i Σ_j y_ij log f_ij with f_i = softmax(logits_i) and y one-hot, and how many i counted
    (equation 14)."""
    total, count = 0.0, 0
    for row, target in zip(logits.reshape(-1, logits.shape[-1]), targets.reshape(-1), strict=True):
        if target == ignore:
            continue
        top = row.max()
        total -= float(row[target] - top - np.log(np.exp(row - top).sum()))
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
    return ids[len(prompt) :]


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
    with np.errstate(
        invalid="ignore"
    ):  # the imaginary part of a masked score, -inf + i·0, has no meaning
        return np.imag(f(x + 1j * h * direction)) / h


def jacobian(f: Callable[[Array], Array], x: Array) -> Array:
    """∂f_m/∂x_n over the flattened arrays, column by column with `derivative`."""
    columns = []
    for n in range(x.size):
        unit = np.zeros(x.size)
        unit[n] = 1.0
        columns.append(derivative(f, x, unit.reshape(x.shape)).ravel())
    return np.array(columns).T
