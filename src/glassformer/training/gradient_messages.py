"""What processes send each other of their gradients after, or during, a backward pass.

Large gradients are sent one by one, where they are, in the order in which a backward pass ends
them: from the last parameter to the first, the same in all processes. Small ones follow in one
message, and with them a number for each gradient: whether there is one.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

import torch

from glassformer.axes import Tensor
from glassformer.shards import local

LARGE = 2**16
"""Numbers of a gradient that is sent by itself."""
Start = Callable[[Tensor], Callable[[], object]]
"""Begins to replace numbers by their sum over the processes, or by those of one process; the result
waits for the end."""


def is_large(parameter: Tensor) -> bool:
    """Whether this process sends its part of a gradient by itself."""
    return local(parameter).numel() >= LARGE


class GradientMessages:
    """The messages of one step."""

    def __init__(self, parameters: Sequence[Tensor], start: Start):
        self._learned = [parameter for parameter in reversed(parameters) if parameter.requires_grad]
        self._large = [parameter for parameter in self._learned if is_large(parameter)]
        self._start = start
        self._there = set[Tensor]()
        self._sent: list[Callable[[], object]] = []

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
        self._sent.append(self._start(_numbers(parameter)))

    def finish(self) -> None:
        """Send the others, and wait for all; a gradient that nobody has is None."""
        there = [parameter.grad is not None for parameter in self._learned]
        for parameter in self._large[len(self._sent) :]:
            self._send(parameter)
        small = [_numbers(parameter) for parameter in self._learned if not is_large(parameter)]
        flags = local(self._learned[0]).new_tensor(there)
        message = torch.cat([*(one.flatten() for one in small), flags])
        self._start(message)()
        *found, anywhere = message.split([*(one.numel() for one in small), len(there)])
        for own, numbers in zip(small, found, strict=True):
            own.copy_(numbers.view_as(own))
        for wait in self._sent:
            wait()
        for parameter, here in zip(self._learned, anywhere.tolist(), strict=True):
            if not here:
                parameter.grad = None


def _numbers(parameter: Tensor) -> Tensor:
    """What this process has of a parameter's gradient, in one piece of memory; zeros if it has
    none."""
    gradient = torch.zeros_like(parameter) if parameter.grad is None else parameter.grad
    parameter.grad = gradient.contiguous()
    return local(parameter.grad)
