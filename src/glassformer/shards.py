"""A tensor that is divided among processes, and the whole one: the only place that asks for the
difference.

    whole(tensor)        all numbers, on every process (they all must call it)
    own(full, target)    the part of all numbers that this process has of `target`

A tensor that is not divided is its own whole.
"""

from typing import Any

import torch
from torch import Tensor


def mesh_of(tensor: Tensor) -> Any:
    """The mesh of processes that a tensor is divided among; None: it is not divided."""
    return getattr(tensor, "device_mesh", None)  # of torch's DTensors, asked without importing them


def is_divided(tensor: Tensor) -> bool:
    """Whether this process may hold a part of a tensor only."""
    return mesh_of(tensor) is not None


def cuts(tensor: Tensor) -> int:
    """How often a tensor is cut: the axes of the mesh along which processes have other parts."""
    return len(_cut_axes(tensor)) if is_divided(tensor) else 0


def cut_names(tensor: Tensor) -> set[str]:
    """The names of these axes."""
    mesh = mesh_of(tensor)
    return {mesh.mesh_dim_names[at] for at in _cut_axes(tensor)} if is_divided(tensor) else set()


def groups_of(tensor: Tensor) -> tuple[Any, ...]:
    """The groups of processes that hold the other parts of a tensor, one for each time it is
    cut."""
    return tuple(group for *_, group in _cuts(tensor)) if is_divided(tensor) else ()


def local(tensor: Tensor) -> Tensor:
    """The numbers that this process holds, sharing their memory."""
    divided: Any = tensor
    return divided.to_local() if is_divided(tensor) else tensor


@torch.no_grad()
def whole(tensor: Tensor) -> Tensor:
    """All numbers of a tensor; every process that has a part of it must call this."""
    if not is_divided(tensor):
        return tensor
    part, lengths, steps = local(tensor), [*tensor.shape], []
    for dim, parts, at, group in _cuts(tensor):
        steps.append((dim, lengths[dim], parts, group))
        step = -(-lengths[dim] // parts)
        lengths[dim] = max(0, min(step, lengths[dim] - at * step))
    for step in reversed(steps):
        part = _gathered(part, *step)
    return part


def box(tensor: Tensor) -> tuple[list[int], list[int]]:
    """Where this process's part begins in the whole tensor, and its lengths."""
    begins, lengths = [0] * tensor.dim(), [*tensor.shape]
    for dim, parts, at, _ in _cuts(tensor) if is_divided(tensor) else []:
        step = -(-lengths[dim] // parts)
        begin = min(lengths[dim], at * step)
        begins[dim] += begin
        lengths[dim] = min(step, lengths[dim] - begin)
    return begins, lengths


def own(full: Tensor, target: Tensor) -> Tensor:
    """The part of `full` that this process has of `target`, a view."""
    for dim, (begin, length) in enumerate(zip(*box(target), strict=True)):
        full = full.narrow(dim, begin, length)
    return full


def like(full: Tensor, target: Tensor) -> Tensor:
    """A copy of `full`, divided as `target` is, on the same device."""
    divided: Any = target
    part = own(full, target).to(local(target).device, copy=True).contiguous()
    if not is_divided(target):
        return part
    from torch.distributed.tensor import DTensor

    where = divided.device_mesh, divided.placements
    return DTensor.from_local(part, *where, shape=target.shape, stride=target.stride())


@torch.no_grad()
def put(target: Tensor, full: Tensor) -> None:
    """Fill this process's part of `target` from all numbers of it."""
    local(target).copy_(own(full, target))


def _cuts(tensor: Any) -> list[tuple[int, int, int, Any]]:
    """How a tensor is cut, step by step: the axis, the number of parts, this process's one, and the
    group of those that have the others. The last axis of the mesh cuts first, as torch does."""
    mesh = tensor.device_mesh
    return [
        (tensor.placements[at].dim, mesh.size(at), mesh.get_local_rank(at), mesh.get_group(at))
        for at in reversed(_cut_axes(tensor))
    ]


def _cut_axes(tensor: Any) -> list[int]:
    mesh, placements = tensor.device_mesh, enumerate(tensor.placements)
    return [at for at, one in placements if not one.is_replicate() and mesh.size(at) > 1]


def _gathered(part: Tensor, dim: int, length: int, parts: int, group: Any) -> Tensor:
    """The parts of all processes of a group along an axis; the last may be shorter, or empty."""
    step = -(-length // parts)
    shape = [*part.shape]
    shape[dim] = step
    padded = part.new_zeros(shape)
    padded.narrow(dim, 0, part.shape[dim]).copy_(part)
    found = [torch.empty_like(padded) for _ in range(parts)]
    torch.distributed.all_gather(found, padded, group)
    return torch.cat(found, dim).narrow(dim, 0, length)
