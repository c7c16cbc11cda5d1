"""Dropout: each number is zeroed with probability p, and the others are scaled by 1 / (1 - p)
(Srivastava et al. 2014).

All randomness comes from torch's generator, which a training step seeds by (seed, step,
micro-batch), or from that of a thread (`cpu_kernels.thread_generator`).
"""

from torch import nn
from torch.nn import functional as F

from glassformer.axes import Float, Tensor
from glassformer.layers import cpu_kernels


def dropout(x: Float[Tensor, "*shape"], p: float) -> Float[Tensor, "*shape"]:
    """x · m / (1 - p), m independent with P(m = 0) = p in [0, 1); p = 0 is x itself."""
    if not p:
        return x
    return cpu_kernels.dropout(x, p) if cpu_kernels.on_cpu(x) else F.dropout(x, p)


class Dropout(nn.Module):
    """`dropout` while training, the identity otherwise."""

    def __init__(self, p: float):
        super().__init__()
        self.p = p

    def forward(self, x: Float[Tensor, "*shape"]) -> Float[Tensor, "*shape"]:
        """Shapes: any."""
        return dropout(x, self.p) if self.training and self.p else x
