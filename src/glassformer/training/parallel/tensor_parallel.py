"""Tensor parallelism: each process computes a part of the heads and of the hidden units of a block.

    q, k, v, up, gate     by columns: from all of x to this process's heads or hidden units
    out, down             by rows: from those to a part of the sum, which all of them add up

So a block adds its output up twice, after attention and after the feed-forward network, and the
gradients of its inputs twice on the way back. Embedding, norms, score bias and head are computed
by every process: each has a copy of their parameters, which `keep_equal` keeps equal.
"""

from collections.abc import Iterable
from functools import partial
from typing import Any

import torch
from torch import nn
from torch.distributed import all_reduce, broadcast
from torch.distributed.device_mesh import DeviceMesh
from torch.distributed.tensor import DTensor, Partial, Replicate, Shard
from torch.distributed.tensor.parallel import (
    ColwiseParallel,
    RowwiseParallel,
    parallelize_module,
)

from glassformer.core.axes import Float, Tensor
from glassformer.core.distributed.shards import cut_names, local
from glassformer.core.errors import ConfigError
from glassformer.layers.attention.multi_head import Attention
from glassformer.layers.feedforward import FeedForward
from glassformer.layers.lora import adapters
from glassformer.layers.norm import RMSNorm, rms_norm
from glassformer.layers.stack import Stack
from glassformer.models.transformer import Transformer


def stacks(model: Transformer) -> list[Stack]:
    """The encoder and the decoder, where there are."""
    return [stack for stack in (model.encoder, model.decoder) if stack is not None]


def divide_blocks(model: Transformer, mesh: DeviceMesh) -> None:
    """Tensor parallelism: queries, keys, values and hidden units by columns, the maps back to the
    stream by rows. Embedding, norms, score bias and head stay on every process."""
    config, n = model.config, mesh.size()
    sizes = {
        "n_heads": config.n_heads,
        "n_kv_heads": config.kv_heads,
        "d_ff": config.ff_width,
    }
    for name, size in sizes.items():
        if size % n:
            raise ConfigError(
                f"train.distributed.tensor={n} does not divide model.{name}={size}; choose a "
                "divisor of it."
            )
    if adapters(model):
        raise ConfigError(
            f"train.distributed.tensor={n} is not for adapters; use train.distributed.shard, or "
            "train.finetune.method=full."
        )
    for module in [*model.modules()]:
        if isinstance(module, Attention):
            columns, row = [module.q_proj, module.k_proj, module.v_proj], module.out_proj
            module.n_heads, module.n_kv_heads = module.n_heads // n, module.n_kv_heads // n
            for one in ("q_norm", "k_norm"):
                if (norm := getattr(module, one)) is not None:
                    setattr(module, one, HeadNorm(norm, mesh))
        elif isinstance(module, FeedForward):
            columns, row = [*filter(None, (module.up_proj, module.gate_proj))], module.down_proj
        else:
            continue
        module.register_forward_pre_hook(partial(_copied_inputs, mesh))
        for one in columns:
            one.register_forward_pre_hook(partial(_parted_input, mesh))
            parallelize_module(one, mesh, ColwiseParallel(), src_data_rank=None)
        parallelize_module(row, mesh, RowwiseParallel(), src_data_rank=None)
    for stack in stacks(model):
        if stack.bias is not None:
            stack.bias.register_forward_hook(partial(_own_heads, mesh))


class _Parted(torch.autograd.Function):
    """The numbers of x on every process; back comes the part of this one.

    Several maps may read x: `_copied_inputs` adds its gradients up once for all of them.
    """

    @staticmethod
    def forward(ctx: Any, x: Tensor, mesh: DeviceMesh) -> Tensor:
        return DTensor.from_local(x, mesh, [Replicate()], run_check=False)

    @staticmethod
    def backward(ctx: Any, *gradients: Any) -> tuple[Tensor, None]:
        return gradients[0].to_local(), None


class _Copied(torch.autograd.Function):
    """x; back comes the sum over the processes."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, mesh: DeviceMesh) -> Tensor:
        ctx.group = mesh.get_group()
        return x.view_as(x)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, None]:
        total = gradients[0].clone(memory_format=torch.contiguous_format)
        all_reduce(total, group=ctx.group)
        return total, None


def _parted_input(mesh: DeviceMesh, module: nn.Module, inputs: tuple[Tensor]) -> Tensor:
    """The input of a map that is divided by columns."""
    return _Parted.apply(inputs[0], mesh)


def _copied_inputs(mesh: DeviceMesh, module: nn.Module, inputs: tuple[Any, ...]) -> tuple[Any, ...]:
    """The inputs of a layer whose maps are divided (x, and the source of cross-attention)."""
    copied = lambda one: _Copied.apply(one, mesh) if isinstance(one, Tensor) else one
    return tuple(map(copied, inputs))


class HeadNorm(RMSNorm):
    """The norm of queries or keys where a process has some of the heads: the gradient of its weight
    is added up over all heads."""

    def __init__(self, norm: RMSNorm, mesh: DeviceMesh):
        super().__init__(len(norm.weight), epsilon=norm.epsilon)
        self.weight, self.mesh = norm.weight, mesh

    def forward(self, x: Float[Tensor, "*rows D"]) -> Float[Tensor, "*rows D"]:
        """Normalize the last axis."""
        every = DTensor.from_local(self.weight, self.mesh, [Replicate()], run_check=False)
        return rms_norm(x, every.to_local(grad_placements=[Partial()]), self.epsilon)


def _own_heads(mesh: DeviceMesh, module: nn.Module, inputs: Any, bias: Tensor) -> Tensor:
    """The score bias of the heads of this process; gradients of all heads come back."""
    every = DTensor.from_local(bias, mesh, [Replicate()], run_check=False)
    return every.redistribute(placements=[Shard(1)]).to_local()


def copies(parameters: Iterable[Tensor]) -> list[Tensor]:
    """Those of the trained parameters that every process of "tensor" has."""
    return [one for one in parameters if one.requires_grad and "tensor" not in cut_names(one)]


def keep_equal(parameters: Iterable[Tensor], mesh: DeviceMesh) -> None:
    """Take the gradients of `copies` from the first process of "tensor".

    Each has computed them from the same numbers, but kernels that add in no fixed order, or that
    are chosen by their speed, differ in the last bits: copies would drift apart, and with them the
    states of the optimizer. A broadcast of V x D numbers in a step (embedding, head) is little
    beside the activations of every block.
    """
    own = copies(parameters)
    gradients = [local(one.grad) for one in own if one.grad is not None]
    if mesh.size() > 1 and gradients:
        message = torch.cat([one.flatten() for one in gradients])
        broadcast(message, group=mesh.get_group(), group_src=0)
        sizes = [one.numel() for one in gradients]
        for gradient, numbers in zip(gradients, message.split(sizes), strict=True):
            gradient.copy_(numbers.view_as(gradient))
