"""A tensor that is divided among processes, and the whole one: no other file knows the
difference.

    whole(tensor)      | all numbers, on every process (they all must call it)
    own(full, target)  | the part of all numbers that this process has of `target`

A tensor that is not divided is its own whole.
"""

from typing import Any

import torch
from torch import Tensor


def mesh_of(tensor: Tensor) -> Any:
    """Return the mesh of processes that a tensor is divided among; None: it is not divided."""
    return getattr(tensor, "device_mesh", None)  # of torch's DTensors, which are not imported


def cut_names(tensor: Tensor) -> set[str]:
    """The names of the axes of the mesh along which processes have other parts."""
    return {mesh_of(tensor).mesh_dim_names[at] for at in _cut_axes(tensor)}


def groups_of(tensor: Tensor) -> tuple[Any, ...]:
    """The groups of processes that hold the other parts of a tensor, one for each time it is
    cut."""
    return tuple(mesh_of(tensor).get_group(at) for at in _cut_axes(tensor))


def local(tensor: Tensor) -> Tensor:
    """The numbers that this process holds, sharing their memory."""
    divided: Any = tensor
    return divided.to_local() if mesh_of(tensor) is not None else tensor


@torch.no_grad()
def whole(tensor: Tensor) -> Tensor:
    """All numbers of a tensor; every process that has a part of it must call this."""
    divided: Any = tensor
    return divided.full_tensor() if mesh_of(tensor) is not None else tensor


def box(tensor: Tensor) -> tuple[list[int], list[int]]:
    """Return where this process's part begins in the whole tensor, and its lengths."""
    divided: Any = tensor
    if mesh_of(tensor) is None:
        return [0] * tensor.dim(), [*tensor.shape]
    from torch.distributed.tensor._utils import compute_local_shape_and_global_offset

    place = tensor.shape, divided.device_mesh, divided.placements
    lengths, begins = compute_local_shape_and_global_offset(*place)
    return [*begins], [*lengths]


def own(full: Tensor, target: Tensor) -> Tensor:
    """The part of `full` that this process has of `target`, a view."""
    for dim, (begin, length) in enumerate(zip(*box(target), strict=True)):
        full = full.narrow(dim, begin, length)
    return full


@torch.no_grad()
def put(target: Tensor, full: Tensor) -> None:
    """Fill this process's part of `target` from all numbers of it."""
    local(target).copy_(own(full, target))


def _cut_axes(tensor: Any) -> list[int]:
    """The axes of the mesh that cut a tensor, the last first."""
    if (mesh := mesh_of(tensor)) is None:
        return []
    placements = enumerate(tensor.placements)
    return [at for at, one in placements if not one.is_replicate() and mesh.size(at) > 1][::-1]
