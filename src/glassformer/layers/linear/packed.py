"""Matrices in 16, 8 or 4 bits for inference on a CPU, where a step of decoding takes the time of
reading every weight once.

    fp32   a copy of W that no optimizer and no file can change
    fp16   W in half precision; x and all sums in single precision
    bf16   W and x in bfloat16, summed in single precision; the fastest for many rows
    int8   W as `quantized`, and each row of x as 8-bit integers with a scale of its own
    int4   W as `grouped`, x in bfloat16

A row's result has the same bits whatever other rows are computed with it. The operators are private
ones of torch, and only this file knows them. Where one is missing, or does not take a shape, the
product is that of the matrix which the bits stand for. The choice follows from the table that
`bench/one_row_kernels.py` measures, never from a clock when a model is opened, or two openings of
one model could differ in their last bits.
"""

import platform
import warnings
from collections.abc import Callable
from typing import Any, Literal

import torch
from torch.nn import functional as F

from glassformer.core.axes import Float, Tensor
from glassformer.layers.cpu_kernels import batch_invariant, fill, linear
from glassformer.layers.linear.quantized import GROUP, dequantized, grouped, quantized, ungrouped

Bits = Literal["fp32", "fp16", "bf16", "int8", "int4"]
Product = Callable[[Tensor, Tensor | None], Tensor]
"""x Wᵀ + b in float32, for contiguous float32 rows x, N x D with N > 0, without gradients."""
OF_LOGITS: dict[Bits, Bits] = {
    **{"fp32": "fp32", "fp16": "fp16", "bf16": "fp16"},
    **{"int8": "int8", "int4": "int8"},
}
"""Format of a head's matrix: its kernel must give float32, since a logit of -100 in bfloat16 is
rounded to 1/4."""
EXPECTED_ROWS = 16
"""Number of rows for which oneDNN orders a weight; any from 4 to 64 gives the same speed."""
LARGEST_HALF = 65504.0
"""Of float16."""


class PackedMatrix:
    """A matrix W, F x D, as numbers of `bits`, in the order in which a kernel reads them."""

    def __init__(self, weight: Float[Tensor, "F D"], bits: Bits):
        weight = weight.detach().float().contiguous()
        self.rows, self.columns = weight.shape
        if bits == "int4" and self.columns % GROUP:
            bits = "int8"
        if bits == "fp16" and float(weight.abs().amax()) > LARGEST_HALF:
            bits = "bf16"
        self.bits: Bits = bits
        self._copy = copy = weight.clone() if bits == "fp32" else None
        if copy is None:
            self._product = _kernel(weight, bits) or _plain(weight, bits)
        else:
            self._product: Product = lambda x, bias: linear(x, copy, bias)

    @property
    def matrix(self) -> Float[Tensor, "F D"]:
        """What the bits stand for, float32: the product with the identity."""
        if self._copy is not None:
            return self._copy
        with torch.no_grad():
            return self._product(torch.eye(self.columns), None).mT

    def linear(
        self, x: Float[Tensor, "*rows D"], bias: Float[Tensor, "F"] | None
    ) -> Float[Tensor, "*rows F"]:
        """x Wᵀ + b; where gradients are enabled, by the matrix that the bits stand for."""
        if torch.is_grad_enabled():
            return F.linear(x, self.matrix.to(x.dtype), bias)
        shape = (*x.shape[:-1], self.rows)
        if not x.numel():
            return x.new_zeros(shape)
        y = self._product(x.float().reshape(-1, self.columns).contiguous(), bias)
        return y.view(shape).to(x.dtype)


class PackedRows:
    """Rows `begin` to `end` of a packed matrix, such as the queries' of a joint one."""

    def __init__(self, whole: PackedMatrix, begin: int, end: int):
        self.whole, self.part = whole, slice(begin, end)

    @property
    def matrix(self) -> Float[Tensor, "F D"]:
        """See `PackedMatrix`."""
        return self.whole.matrix[self.part]

    def linear(
        self, x: Float[Tensor, "*rows D"], bias: Float[Tensor, "F"] | None
    ) -> Float[Tensor, "*rows F"]:
        """See `PackedMatrix`; takes the time of the whole matrix."""
        y = self.whole.linear(x, None)[..., self.part]
        return y if bias is None else y + bias


def _kernel(weight: Tensor, bits: Bits) -> Product | None:
    """The product by torch's packed kernel; None: there is none for this machine or shape."""
    if platform.machine() not in ("x86_64", "AMD64") or not torch.cpu._is_avx2_supported():
        return None
    if bits in ("fp16", "int8") and torch.backends.quantized.engine not in ("x86", "fbgemm"):
        return None
    if bits == "bf16" and not torch.cpu._is_avx512_bf16_supported():
        return None
    if bits == "int4" and (len(weight) % 16 or not torch.cpu._is_avx512_supported()):
        return None
    make = {"fp16": _half, "bf16": _brain, "int8": _integers, "int4": _groups}[bits]
    try:
        return make(weight)
    except (AttributeError, RuntimeError):  # another build of torch
        return None


def _half(weight: Tensor) -> Product:
    """By FBGEMM, which widens the weights in registers.

    Without AVX-512 it computes six rows at a time, and one or two that are left by kernels that add
    in another order; copies make them three.
    """
    packed = torch.ops.quantized.linear_prepack_fp16(weight, None)
    multiply: Any = torch.ops.quantized.linear_dynamic_fp16.default
    wide = torch.cpu._is_avx512_supported()

    def product(x: Tensor, bias: Tensor | None) -> Tensor:
        left = len(x) % 6
        few = not wide and left in (1, 2)
        y = multiply(fill(x, len(x) + 3 - left), packed)[: len(x)] if few else multiply(x, packed)
        return _plus(y, bias)

    return product


def _brain(weight: Tensor) -> Product:
    """By oneDNN, the weights in its own order."""
    packed = torch.ops.mkldnn._reorder_linear_weight(weight.bfloat16(), EXPECTED_ROWS)
    multiply: Any = torch.ops.mkldnn._linear_pointwise.default

    def product(x: Tensor, bias: Tensor | None) -> Tensor:
        y = multiply(fill(x.bfloat16()), packed, None, "none", [], "")
        return _plus(y[: len(x)].float(), bias)

    return product


def _integers(weight: Tensor) -> Product:
    """By FBGEMM, x / max |x| of each row as unsigned integers around a zero point in the middle.

    Without VNNI instructions pairs of products are summed in 16 bits, so x has 7 bits there. A row
    of zeros is 0 / 0, of which come any integers, times 0.
    """
    levels, scale = quantized(weight)
    zeros = torch.zeros(len(weight), dtype=torch.long)
    with warnings.catch_warnings():  # torch will drop this type of tensors; see `_kernel`
        warnings.simplefilter("ignore", UserWarning)
        make = torch._make_per_channel_quantized_tensor  # pyright: ignore[reportPrivateImportUsage]
        whole = make(levels, scale[:, 0].double(), zeros, 0)
        packed = torch.ops.quantized.linear_prepack(whole, None)
    steps = 127 if torch.cpu._is_vnni_supported() else 63
    multiply: Any = torch.ops.quantized.linear_with_input_q_dq_qweight_dq_output_fp32.default

    def product(x: Tensor, bias: Tensor | None) -> Tensor:
        peak = x.abs().amax(-1, keepdim=True)  # a tenth of the time of a norm
        y = multiply(x / peak, 1 / steps, steps + 1, packed)
        return y.mul_(peak) if bias is None else torch.addcmul(bias, y, peak)

    return product


def _groups(weight: Tensor) -> Product:
    """By torch's kernel for 4 bits; with x in float32 it is ten times slower than with bfloat16."""
    levels, scale, zero = grouped(weight)
    packed = torch.ops.aten._convert_weight_to_int4pack_for_cpu(levels.int(), 1)
    both = torch.stack([scale, zero], 2).transpose(0, 1).bfloat16().contiguous()
    multiply: Any = torch.ops.aten._weight_int4pack_mm_for_cpu.default
    return lambda x, bias: _plus(multiply(x.bfloat16(), packed, GROUP, both).float(), bias)


def _plus(y: Tensor, bias: Tensor | None) -> Tensor:
    return y if bias is None else y.add_(bias)


def _plain(weight: Tensor, bits: Bits) -> Product:
    """By the product with the matrix that the bits stand for, made anew each time."""
    if bits in ("fp16", "bf16"):
        low = weight.to(torch.float16 if bits == "fp16" else torch.bfloat16)
        return lambda x, bias: _alike(x, low.float(), bias)
    if bits == "int8":
        levels, scale = quantized(weight)
        return lambda x, bias: _alike(x, dequantized(levels, scale), bias)
    parts = grouped(weight)
    return lambda x, bias: _alike(x, ungrouped(*parts), bias)


def _alike(x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
    """x Wᵀ + b; where there is oneDNN, the bits of a row do not depend on others."""
    with batch_invariant():
        return linear(fill(x), weight, bias)[: len(x)]
