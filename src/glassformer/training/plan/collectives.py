"""What the processes of a divided model send each other in a step: counted from the divided model,
and the time that it takes by the cost of a ring.

    all-gather, reduce-scatter of B bytes     (n - 1) / n · B / bandwidth + (n - 1) · latency
    all-reduce                                twice that
    broadcast                                 B / bandwidth + (n - 1) · latency
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from torch.distributed.device_mesh import DeviceMesh
from torch.distributed.fsdp import FSDPModule

from glassformer.core.axes import Tensor
from glassformer.layers.attention import Attention
from glassformer.models.transformer import Transformer
from glassformer.training.parallel.sharding import AXES, bytes_here
from glassformer.training.parallel.tensor_parallel import copies, stacks

FIRST_BUCKET, BUCKET = 1 << 20, 25 << 20
"""Bytes of gradients that DistributedDataParallel sends in one message."""
Operation = Literal["all-gather", "reduce-scatter", "all-reduce", "broadcast"]


@dataclass(frozen=True)
class Collective:
    """Calls of one kind in a step: `bytes` of the whole tensor, summed over the `calls`, among the
    processes along an `axis` of the mesh."""

    purpose: str
    operation: Operation
    axis: str
    calls: int
    bytes: int


@dataclass(frozen=True)
class Part:
    """A micro-batch as one process computes it: its rows; their elements, class token and registers
    among them (`source`: without those, and of an encoder-decoder's source); those that the last
    block has queries for; and bytes of a number in the forward pass."""

    rows: int
    length: int
    source: int
    queries: int
    number: int


def collectives(model: Transformer, mesh: DeviceMesh, part: Part, parts: int) -> list[Collective]:
    """Those of a step of `parts` micro-batches in each process, for the first process of a mesh,
    whose parts of tensors are the largest. Left out are calls that exchange a few numbers, the
    gradients of norms and biases of heads, and what Muon sends."""
    sizes = {axis: mesh[axis].size() for axis in AXES}
    found: list[Collective] = []
    trained = [one for one in model.parameters() if one.requires_grad]
    size = bytes_here(trained)
    if sizes["shard"] * sizes["tensor"] == 1:
        buckets = 1 + max(0, -(-(size - FIRST_BUCKET) // BUCKET))
        found.append(Collective("gradients", "all-reduce", "replicate", buckets, size))
    elif isinstance(model, FSDPModule):
        *blocks, rest = map(bytes_here, gathered_together(model))
        n, shard = parts * (len(blocks) + 1), sizes["shard"]
        gathered = parts * (2 * sum(blocks) + rest) * shard  # blocks are gathered twice
        found += [
            Collective("parameters", "all-gather", "shard", 2 * n - parts, gathered),
            Collective("gradients", "reduce-scatter", "shard", n, parts * size * shard),
            Collective("gradients", "all-reduce", "replicate", n, parts * size),
        ]
    if sizes["tensor"] > 1:
        found.append(_of_tensors(model, part, parts))
        size = bytes_here(copies(trained))
        found.append(Collective("gradients of copies", "broadcast", "tensor", 1, size))
    return [one for one in found if sizes[one.axis] > 1]


def gathered_together(model: Transformer) -> list[Sequence[Tensor]]:
    """The parameters that FSDP2 gathers by one call: those of each block, then all others."""
    blocks: list[Sequence[Tensor]] = [
        [*block.parameters()] for stack in stacks(model) for block in stack.blocks
    ]
    inside = {id(one) for block in blocks for one in block}
    return [*blocks, [one for one in model.parameters() if id(one) not in inside]]


def _of_tensors(model: Transformer, part: Part, parts: int) -> Collective:
    """Outputs of attention and feed-forward network on the way forward; gradients of their inputs,
    in float32, on the way back."""
    number, calls, size = next(model.parameters()).element_size(), 0, 0
    for stack in stacks(model):
        encodes = stack is model.encoder and model.decoder is not None
        read = part.rows * (part.source if encodes else part.length)
        for block in stack.blocks:
            last = stack is stacks(model)[-1] and block is stack.blocks[-1]
            queries = part.queries if last else read
            for module in block.children():
                if not isinstance(module, Attention) and module is not block.feedforward:
                    continue
                crossed = module is block.cross
                attends = isinstance(module, Attention) and not crossed
                vectors = part.number * queries + number * (read if attends else queries)
                vectors += crossed * number * part.rows * part.source
                calls, size = calls + 2 + crossed, size + vectors * model.config.d_model
    return Collective("activations", "all-reduce", "tensor", parts * calls, parts * size)


def ring_seconds(
    operation: Operation, calls: int, size: float, processes: int, bandwidth: float, latency: float
) -> float:
    """Seconds of so many calls on `size` bytes in all."""
    turns = 2 if operation == "all-reduce" else 1
    share = 1.0 if operation == "broadcast" else (processes - 1) / processes
    return turns * (share * size / bandwidth + calls * (processes - 1) * latency)
