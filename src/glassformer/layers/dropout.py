"""Dropout: each number is zeroed with probability p, and the others are scaled by 1 / (1 - p)
(Srivastava et al. 2014).

On a CPU, torch draws a random number for every element one after another, which costs a fifth of a
training step; here 64 random bits serve four elements. All randomness comes from torch's own
generator, which a training step seeds by (seed, step, part), or from the generator of a thread that
shares the processor with others.
"""

import threading
from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import nn
from torch.nn import functional as F

from glassformer.axes import Float, Tensor

STEPS = 1 << 16
"""p is rounded to a multiple of 1 / STEPS; the scale is that of the rounded p, so the mean is kept
exactly."""
_OWN = threading.local()


@contextmanager
def drawn_from(seed: int) -> Iterator[None]:
    """What this thread drops on a CPU meanwhile is a function of the seed alone, whatever other
    threads draw."""
    _OWN.generator = torch.Generator().manual_seed(seed)
    try:
        yield
    finally:
        del _OWN.generator


def dropout(x: Float[Tensor, "*shape"], p: float) -> Float[Tensor, "*shape"]:
    """x · m / (1 - p), m independent with P(m = 0) = p in [0, 1); p = 0 is x itself."""
    dropped = round(p * STEPS)
    if not dropped:
        return x
    if x.device.type != "cpu" or torch.compiler.is_compiling():
        return F.dropout(x, p)
    own = getattr(_OWN, "generator", None)
    words = torch.empty((x.numel() + 3) // 4, dtype=torch.int64).random_(
        -(2**63), None, generator=own
    )
    bits = words.view(torch.int16)[: x.numel()].view(x.shape)
    kept = (bits >= dropped - STEPS // 2).to(x.dtype)
    return x * kept.mul_(STEPS / (STEPS - dropped))


class Dropout(nn.Module):
    """`dropout` while training, the identity otherwise."""

    def __init__(self, p: float):
        super().__init__()
        self.p = p

    def forward(self, x: Float[Tensor, "*shape"]) -> Float[Tensor, "*shape"]:
        """Shapes: any."""
        return dropout(x, self.p) if self.training and self.p else x
