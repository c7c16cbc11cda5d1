"""Gradients of whole models, added up over processes.

replicate        in the backward pass, by DistributedDataParallel
sum_gradients    after it, by one message: in the order of a tree, or of micro-batches by threads
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from typing import Any

import torch
from torch import nn
from torch._C._distributed_c10d import GradBucket
from torch.distributed import all_reduce
from torch.futures import Future
from torch.nn.parallel import DistributedDataParallel

from glassformer.core.axes import Tensor
from glassformer.core.distributed.processes import Processes
from glassformer.core.distributed.shards import local
from glassformer.models.transformer import Output, Transformer


def replicate(model: Transformer, processes: Processes) -> DistributedDataParallel:
    """The model whose backward pass adds gradients up over processes that have equal copies."""
    replica = DistributedDataParallel(model, process_group=processes.group)
    replica.register_comm_hook(processes.group, _sum)
    return replica


def _sum(group: Any, bucket: GradBucket) -> Future[Tensor]:
    """Add up, where torch would take the mean: losses are divided by the targets of all rows."""
    sent: Any = all_reduce(bucket.buffer(), group=group, async_op=True)
    return sent.get_future().then(lambda future: future.value()[0])


def sum_gradients(parameters: Sequence[Tensor], add: Callable[[Tensor], None]) -> None:
    """Replace gradients by their sum over the processes, which `add` gives for numbers; None if no
    process has one."""
    learned = [parameter for parameter in parameters if parameter.requires_grad]
    there = torch.tensor([parameter.grad is not None for parameter in learned])
    own = (torch.zeros_like(p) if p.grad is None else p.grad for p in learned)
    message = torch.cat([*(one.flatten() for one in own), there.to(learned[0])])
    add(message)
    *found, anywhere = message.split([*(one.numel() for one in learned), len(learned)])
    for parameter, numbers, here in zip(learned, found, anywhere.tolist(), strict=True):
        parameter.grad = numbers.view_as(parameter) if here else None


def read_every_part(model: Transformer) -> None:
    """Let every output depend on the embeddings of all types of parts: a batch may have none of a
    type, and all processes send the same number of gradients."""

    def touch(module: nn.Module, inputs: Any, output: Output) -> Output | None:
        own = [one for one in model.embed.parts.parameters() if one.requires_grad]
        if not own or not torch.is_grad_enabled():
            return None
        nothing = torch.stack([0 * one.sum() for one in own]).sum()
        return replace(output, logits=output.logits + nothing)

    model.register_forward_hook(touch)


def forget_unread(model: nn.Module, groups: Iterable[Any]) -> None:
    """Leave out of a step the embeddings of parts that no process has read, as one process does:
    their gradient is None."""
    parts: Any = model.embed
    gradients = {one: one.grad for one in parts.parts.parameters() if one.grad is not None}
    if not gradients:
        return
    read = torch.stack([local(one).any() for one in gradients.values()]).float()
    for group in groups:
        all_reduce(read, group=group)
    for parameter, anywhere in zip(gradients, read.tolist(), strict=True):
        parameter.grad = gradients[parameter] if anywhere else None
