"""Dropout: each number is zeroed with probability p, and the others are scaled by 1 / (1 - p)
(Srivastava et al. 2014).

A training step draws all of it by (seed, step, micro-batch), from generators that nobody else uses
(`drawn_by`); elsewhere it comes from torch's own.
"""

import threading
from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import nn
from torch.nn import functional as F

from glassformer.core.axes import Float, Tensor
from glassformer.core.devices import generator
from glassformer.layers import cpu_kernels

_LENT = threading.Lock()


@contextmanager
def drawn_by(seed: int, device: torch.device, compiled: bool = False) -> Iterator[None]:
    """Draw this thread's dropout by a seed; whoever else draws in this process is not disturbed.

    On a CPU from a generator of the thread. Compiled graphs and other devices know only the
    device's own generator: one thread at a time has it, and its state is put back.
    """
    if device.type == "cpu" and not compiled:
        with cpu_kernels.thread_generator(seed):
            yield
        return
    with _LENT:
        own = generator(device)
        before = own.get_state()
        own.manual_seed(seed)
        try:
            yield
        finally:
            own.set_state(before)


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
