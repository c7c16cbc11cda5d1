"""The sum of every gradient over processes, sent while the last backward pass computes others.

Large gradients are sent one by one, where they are, in the order in which a backward pass ends
them: from the last parameter to the first, the same in all processes. Small ones follow in one
message.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import torch

from glassformer.axes import Tensor
from glassformer.processes import Processes

LARGE = 2**16
"""Numbers of a gradient that is sent by itself."""


class GradientSums:
    """The sums of one step."""

    def __init__(self, parameters: Sequence[Tensor], processes: Processes):
        learned = [parameter for parameter in reversed(parameters) if parameter.requires_grad]
        self._large = [parameter for parameter in learned if parameter.numel() >= LARGE]
        self._small = [parameter for parameter in learned if parameter.numel() < LARGE]
        self._learned, self._processes = learned, processes
        self._there = set[Tensor]()
        self._sent: list[Any] = []

    @contextmanager
    def during_backward(self) -> Iterator[None]:
        """Send what is ready: each gradient is added to for the last time."""
        hooks = [p.register_post_accumulate_grad_hook(self._ready) for p in self._large]
        try:
            yield
        finally:
            for hook in hooks:
                hook.remove()

    def _ready(self, parameter: Tensor) -> None:
        self._there.add(parameter)
        while len(self._sent) < len(self._large) and self._large[len(self._sent)] in self._there:
            self._send(self._large[len(self._sent)])

    def _send(self, parameter: Tensor) -> None:
        if parameter.grad is None:
            parameter.grad = torch.zeros_like(parameter)
        self._sent.append(self._processes.start_sum(parameter.grad))

    def finish(self) -> None:
        """Send the others, and wait for all: every gradient is its sum, or None if nobody has
        one."""
        there = [p.grad is not None for p in self._learned]
        for parameter in self._large[len(self._sent) :]:
            self._send(parameter)
        own = [p.new_zeros(p.numel()) if p.grad is None else p.grad.flatten() for p in self._small]
        flat = torch.cat([*own, self._learned[0].new_tensor(there)])
        self._processes.start_sum(flat)()
        *sums, anywhere = flat.split([*(p.numel() for p in self._small), len(self._learned)])
        for parameter, total in zip(self._small, sums, strict=True):
            parameter.grad = total.view_as(parameter)
        for wait in self._sent:
            wait()
        for parameter, here in zip(self._learned, anywhere.tolist(), strict=True):
            if not here:
                parameter.grad = None
