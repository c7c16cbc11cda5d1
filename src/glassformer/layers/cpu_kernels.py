"""Kernels that exist only because torch's own are slow on a CPU; each agrees with the formula of
the layer file that uses it.

`on_cpu(x)` says where they apply: elsewhere, and in compiled graphs, torch's own operations are
used. Times are of one two-core machine, in training at 384 wide (bench/LOG.md).
"""

import platform
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, cast

import torch
from torch.nn import functional as F

from glassformer.core.axes import Float, Tensor

STEPS = 1 << 16
"""Dropout rounds p to a multiple of 1 / STEPS; the scale is that of the rounded p, so the mean is
exact."""
_OWN = threading.local()
LARGE_WEIGHT = 1 << 17
"""Numbers of a weight from which on oneDNN is not slower, whatever the rows."""
LARGE_PRODUCT = 1 << 20
"""Multiplications from which on it is not slower, whatever the weight: a call of it takes ten
microseconds, one of MKL one."""
MIN_ROWS = 2
"""Rows from which on oneDNN computes each with the same bits, however many there are (one row has a
kernel of its own)."""
BEST_ROWS = 4
"""Rows of a weight in oneDNN's order that are computed in less time than one or two."""


def _one_dnn() -> Callable[..., Tensor] | None:
    """oneDNN's linear map, a private operator of torch; None: there is none, or it was not measured
    (other processors than x86-64)."""
    if platform.machine() not in ("x86_64", "AMD64") or not torch.backends.mkldnn.is_available():
        return None
    return getattr(torch.ops.mkldnn, "_linear_pointwise", None)


ONE_DNN = _one_dnn()


def on_cpu(x: Tensor) -> bool:
    """True on a CPU outside compiled graphs: values can be read there without stalling a device or
    breaking a graph in two."""
    return x.device.type == "cpu" and not torch.compiler.is_compiling()


@contextmanager
def thread_generator(seed: int) -> Iterator[None]:
    """Draw this thread's dropout from a generator of its own, independent of other threads."""
    _OWN.generator = torch.Generator("cpu").manual_seed(seed)
    try:
        yield
    finally:
        del _OWN.generator


@contextmanager
def batch_invariant() -> Iterator[None]:
    """Products without gradients in this thread have rows whose bits do not depend on the others,
    if there are at least MIN_ROWS.

    oneDNN computes all of them: MKL gives the rows at a thread's edge to another kernel (measured
    for 2 to 512 rows, 1 and 2 threads, bench/LOG.md).
    """
    before = getattr(_OWN, "invariant", False)
    _OWN.invariant = True
    try:
        yield
    finally:
        _OWN.invariant = before


def fill(rows: Float[Tensor, "_ D"], least: int = BEST_ROWS) -> Float[Tensor, "M D"]:
    """The rows, with copies of the first behind them up to `least`."""
    missing = least - len(rows)
    return rows if missing <= 0 else torch.cat([rows, rows[:1].expand(missing, -1)])


def linear(
    x: Float[Tensor, "*rows D"], weight: Float[Tensor, "F D"], bias: Float[Tensor, "F"] | None
) -> Float[Tensor, "*rows F"]:
    """x Wᵀ + b; without gradients by oneDNN, where the weight is large.

    On AMD's processors torch's own, MKL's, is slower: half as fast with many rows, and at 768 x
    50257 with one (bench/LOG.md). It has no gradient and no autocast.
    """
    plain = not (torch.is_grad_enabled() or torch.is_autocast_enabled("cpu"))
    plain = plain and type(x) is Tensor  # oneDNN's map is none of a divided tensor's operations
    single = x.dtype == weight.dtype == torch.float32
    if plain and single and ONE_DNN and on_cpu(x) and x.numel() and _is_large(x, weight):
        return ONE_DNN(x, weight, bias, "none", [], "")
    return F.linear(x, weight, bias)


def _is_large(x: Tensor, weight: Tensor) -> bool:
    large = weight.numel() >= LARGE_WEIGHT or x.numel() * len(weight) >= LARGE_PRODUCT
    return large or getattr(_OWN, "invariant", False)


def dropout(x: Float[Tensor, "*shape"], p: float) -> Float[Tensor, "*shape"]:
    """x · m / (1 - p) with P(m = 0) = p, from 64 random bits for each four elements.

    torch draws one random number after another: 83 ms for 6.3 million elements, this 20 ms; a fifth
    of a training step.
    """
    dropped = round(p * STEPS)
    if not dropped:
        return x
    own = getattr(_OWN, "generator", None)
    words = torch.empty((x.numel() + 3) // 4, dtype=torch.int64, device="cpu")
    bits = words.random_(-(2**63), None, generator=own).view(torch.int16)[: x.numel()]
    kept = (bits.view(x.shape) >= dropped - STEPS // 2).to(x.dtype)
    return x * kept.mul_(STEPS / (STEPS - dropped))


def rms_norm(
    x: Float[Tensor, "*rows D"], weight: Float[Tensor, "D"], epsilon: float
) -> Float[Tensor, "*rows D"]:
    """γ x / √(mean(x²) + ε) with half of the passes over memory.

    torch composes it from single operations on a CPU: 1.2 ms against 0.6 ms.
    """
    if not torch.is_grad_enabled():  # the same numbers without 10 microseconds of autograd
        return (x * _scale(x, epsilon)).mul_(weight)
    return cast(Tensor, _RMSNorm.apply(x, weight, epsilon))


class _RMSNorm(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor, epsilon: float) -> Tensor:
        scale = _scale(x, epsilon)
        ctx.save_for_backward(x, scale, weight)
        ctx.epsilon = epsilon
        return (x * scale).mul_(weight)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, Tensor | None, None]:
        (gradient,) = gradients
        x, scale, weight = ctx.saved_tensors
        if torch.is_grad_enabled():  # second derivatives: the scale depends on x
            scale = _inverse_rms(x, ctx.epsilon)
        inner = gradient * weight
        along = torch.linalg.vecdot(inner, x)[..., None] * scale.square() / x.shape[-1]
        of_weight = None
        if ctx.needs_input_grad[1]:  # not of a frozen one
            of_weight = scale.flatten() @ (gradient * x).flatten(0, -2)
        return torch.addcmul(inner, x, along, value=-1).mul_(scale), of_weight, None


def _scale(x: Tensor, epsilon: float) -> Tensor:
    if not torch.is_autocast_enabled("cpu"):
        return _inverse_rms(x, epsilon)
    with torch.autocast("cpu", enabled=False):  # or the scale would be a bfloat16
        return _inverse_rms(x, epsilon)


def _inverse_rms(x: Tensor, epsilon: float) -> Tensor:
    return (torch.linalg.vecdot(x, x) / x.shape[-1] + epsilon).rsqrt()[..., None]


def relu_squared(x: Float[Tensor, "*rows F"]) -> Float[Tensor, "*rows F"]:
    """max(0, x)² with the derivative 2 max(0, x).

    The derivative of torch's square is a power: 11 ms for relu(x).square() and back, this 1.5 ms.
    """
    return cast(Tensor, _ReluSquared.apply(x)) if torch.is_grad_enabled() else _squared(x)


def _squared(x: Tensor) -> Tensor:
    return x.clamp(min=0).square_()


class _ReluSquared(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        ctx.save_for_backward(x)
        return _squared(x)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> Tensor:
        (x,) = ctx.saved_tensors
        return x.clamp(min=0).mul_(gradients[0]).mul_(2)
