"""A model divided among processes: a mesh of three axes, FSDP2 and tensor parallelism.

    replicate   copies of everything below; their gradients are added
    shard       each process keeps a part of every parameter, its gradient and optimizer state, and
                all of them gather a block's parameters just before it computes (FSDP2)
    tensor      each process computes a part of the heads and of the hidden units of a block

Processes that differ in `replicate` or `shard` read different rows; those that differ in `tensor`
alone read the same. Gradients are sums over all rows, never means: the loss of a step is divided by
its number of targets before.
"""

import warnings
from collections.abc import Iterable, Sequence
from typing import Any

import torch
from torch import nn
from torch.distributed.device_mesh import DeviceMesh, init_device_mesh
from torch.distributed.distributed_c10d import _set_pg_timeout
from torch.distributed.fsdp import FSDPModule, fully_shard

from glassformer.core.axes import Tensor
from glassformer.core.distributed.processes import STEP
from glassformer.core.distributed.shards import local, put
from glassformer.models.transformer import Transformer
from glassformer.training.parallel.gradient_sums import forget_unread, read_every_part
from glassformer.training.parallel.tensor_parallel import divide_blocks, keep_equal, stacks

AXES = ("replicate", "shard", "tensor")
"""Of the mesh; neighbours along the last are neighbours in rank, so on one machine."""


def build_mesh(device: str, processes: int, shard: int = 1, tensor: int = 1) -> DeviceMesh:
    """All processes as replicate x shard x tensor; their number is a multiple."""
    sizes = (processes // (shard * tensor), shard, tensor)
    return init_device_mesh(device, sizes, mesh_dim_names=AXES)


def group_of_readers(mesh: DeviceMesh) -> Any:
    """The group of the processes that read different rows; in all groups of a mesh, each waits for
    the others as within a step."""
    group = mesh["replicate", "shard"]._flatten("readers").get_group()
    for one in (group, *map(mesh.get_group, AXES)):
        _set_pg_timeout(STEP, one)
    return group


def readers(mesh: DeviceMesh) -> tuple[int, int]:
    """The place of this process among those that read different rows, and their number."""
    replicate, shard = mesh.size(0), mesh.size(1)
    return mesh.get_local_rank(0) * shard + mesh.get_local_rank(1), replicate * shard


def divide(model: Transformer, mesh: DeviceMesh) -> None:
    """Divide a model among the processes of a mesh, in place; on "meta" nothing is allocated.

    A mesh of `replicate` alone divides nothing: the step adds the gradients. ConfigError: heads or
    hidden units that `tensor` does not divide, or adapters with it.
    """
    replicate, shard, tensor = (mesh.size(axis) for axis in range(len(AXES)))
    if tensor > 1:
        divide_blocks(model, mesh["tensor"])
    if shard > 1 or (tensor > 1 and replicate > 1):
        _shard(model, mesh)


def _shard(model: Transformer, mesh: DeviceMesh) -> None:
    """FSDP2: every block is gathered and freed by itself, the rest with the whole model; parameters
    and gradients travel in their own precision."""
    axes = ("replicate", "shard") if mesh["replicate"].size() > 1 else ("shard",)
    for stack in stacks(model):
        for block in stack.blocks:
            fully_shard(block, mesh=mesh[axes])
    fully_shard(model, mesh=mesh[axes])
    warnings.filterwarnings("ignore", "FSDP2-wrapped module")  # nobody changes logits in place
    for module in model.modules():
        if isinstance(module, FSDPModule):
            module.set_gradient_divide_factor(1.0)
            module.set_force_sum_reduction_for_comms(True)  # gloo has no scaled sum
    read_every_part(model)
    model.register_forward_hook(_reshard_after_forward)


def _reshard_after_forward(model: nn.Module, inputs: Any, output: Any) -> None:
    """Free what was gathered outside the blocks, where no backward pass needs it."""
    if not torch.is_grad_enabled():
        assert isinstance(model, FSDPModule)
        model.reshard()


def materialize(model: Transformer, seed: int | None, device: torch.device | str) -> None:
    """Give a model that was divided on "meta" its memory, and the initial weights of (config,
    seed): each parameter is drawn whole, and this process keeps its part."""
    model.to_empty(device=device)
    if seed is not None:
        model.initialize(seed, put)


def settle(model: Transformer, parameters: Sequence[Tensor], mesh: DeviceMesh) -> None:
    """Make gradients after a backward pass those of one process."""
    forget_unread(model, [mesh.get_group(axis) for axis in AXES])
    keep_equal(parameters, mesh["tensor"])


def bytes_here(tensors: Iterable[Tensor]) -> int:
    """Bytes of these tensors that this process holds."""
    return sum(part.numel() * part.element_size() for part in map(local, tensors))
