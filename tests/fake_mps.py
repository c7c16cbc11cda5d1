"""A device "mps" that computes on the CPU, for tests of what the code asks of one.

Only Python sees it: a tensor on it is of a class of its own, says "mps" when asked for its device,
and every result computed from it is one, too. As on the real one there is no float64, and it does
not compute with tensors that lie elsewhere.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
import torch
from torch.overrides import TorchFunctionMode
from torch.utils._pytree import tree_leaves, tree_map

from glassformer.training import machine

MPS, CPU = torch.device("mps", 0), torch.device("cpu")
LEAVING = {torch.Tensor.cpu, torch.Tensor.tolist, torch.Tensor.item, torch.Tensor.numpy}
MIXING = {
    *(torch.Tensor.to, torch.Tensor.copy_, torch.autograd.grad),
    *(torch.Tensor.__getitem__, torch.Tensor.__setitem__),
}
"""What takes tensors of both: copies, indices, leaves of a gradient."""


class OnMps(torch.Tensor):
    """A tensor on the device."""

    __torch_function__ = torch._C._disabled_torch_function_impl


def bare(value: Any) -> Any:
    """The same numbers as a tensor of the CPU."""
    return value.as_subclass(torch.Tensor) if isinstance(value, OnMps) else value


def held(value: Any) -> Any:
    """The same numbers as a tensor of the device; TypeError: they are float64."""
    if not isinstance(value, torch.Tensor):
        return value
    if value.dtype == torch.float64:
        raise TypeError("the MPS framework doesn't support float64")
    return value if isinstance(value, OnMps) else value.as_subclass(OnMps)


class Device(TorchFunctionMode):
    """Every function of torch, where tensors of the device are given or asked for."""

    def __init__(self) -> None:
        super().__init__()
        self.calls = 0

    def __torch_function__(self, func, types, args=(), kwargs=None):
        kwargs, given = dict(kwargs or {}), tree_leaves((args, kwargs))
        tensors = [one for one in given if isinstance(one, torch.Tensor)]
        ours = [one for one in tensors if isinstance(one, OnMps)]
        if func is torch.device:
            return func(*args, **kwargs)
        if func == torch.Tensor.device.__get__:
            return MPS if ours else func(*args)
        places = [torch.device(one) for one in given if _is_place(one)]
        if places:
            there = places[0].type == "mps"
        elif func is torch.Tensor.to and len(tensors) == 2:  # like another tensor
            there = isinstance(tensors[1], OnMps)
        else:
            there = bool(ours) and func not in LEAVING
        self.calls += there
        if ours and func not in MIXING:
            elsewhere = [one for one in tensors if one.ndim and not isinstance(one, OnMps)]
            assert not elsewhere, f"{func} of tensors on mps and on the CPU"
        args, kwargs = tree_map(_on_cpu, (args, kwargs))
        if func is torch.autograd.grad:  # each beside its leaf
            leaves = tree_leaves(args[1])
            found = zip(leaves, func(*args, **kwargs), strict=True)
            return tuple(held(one) if isinstance(leaf, OnMps) else one for leaf, one in found)
        return tree_map(held if there else bare, func(*args, **kwargs))


def _is_place(value: Any) -> bool:
    return isinstance(value, torch.device) or (isinstance(value, str) and value in ("cpu", "mps"))


def _on_cpu(value: Any) -> Any:
    return CPU if _is_place(value) else value


@contextmanager
def fake_mps(patch: pytest.MonkeyPatch) -> Iterator[Device]:
    """A machine with the device, in the body."""
    patch.setattr(torch.backends.mps, "is_available", lambda: True)
    patch.setattr(torch.backends.mps, "get_name", lambda: "Apple M0")
    patch.setattr(machine, "measured_peak", lambda where, dtype, threads: 1e12)
    patch.setattr(torch.mps, "synchronize", lambda: None)
    own = torch.Generator()
    patch.setattr(torch.mps, "_get_default_mps_generator", lambda: own)
    with Device() as faked:
        yield faked
