"""Messages of the processes of a divided model in a step, counted from the divided model.

Of B bytes, this many pass through each process of a ring of n:

    all-gather, reduce-scatter of B bytes     (n - 1) / n · B
    all-reduce                                twice that
    broadcast                                 B
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from torch.distributed.fsdp import FSDPModule

from glassformer.core.axes import Tensor
from glassformer.models.transformer import Transformer
from glassformer.training.parallel.sharding import bytes_here
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

    def passing(self, processes: int) -> float:
        """Bytes that pass through each process of a ring."""
        if self.operation == "broadcast":
            return self.bytes
        turns = 2 if self.operation == "all-reduce" else 1
        return turns * self.bytes * (processes - 1) / processes


@dataclass(frozen=True)
class Part:
    """Micro-batch of one process: its rows; their elements with class token and registers
    (`source`: without those, and of an encoder-decoder's source); queries of the last block; bytes
    of a number in the forward pass."""

    rows: int
    length: int
    source: int
    queries: int
    number: int


def collectives(
    model: Transformer, sizes: Mapping[str, int], part: Part, parts: int
) -> list[Collective]:
    """Return the collectives of a step of `parts` micro-batches in each process, for the first
    process of a mesh of these sizes, whose parts of tensors are the largest. Left out are calls
    that exchange a few numbers, the gradients of norms and biases of heads, and what Muon sends."""
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
    """Return the parameters that FSDP2 gathers by one call: those of each block, then all
    others."""
    blocks: list[Sequence[Tensor]] = [
        [*block.parameters()] for stack in stacks(model) for block in stack.blocks
    ]
    inside = {id(one) for block in blocks for one in block}
    return [*blocks, [one for one in model.parameters() if id(one) not in inside]]


def _of_tensors(model: Transformer, part: Part, parts: int) -> Collective:
    """Return the sums of outputs of attention and feed-forward network, and in the backward pass of
    gradients of their inputs, in float32. Self-attention reads all elements, the others those with
    queries, cross-attention the source too."""
    number, calls, size = next(model.parameters()).element_size(), 0, 0
    *before, last = stacks(model)
    for stack in (*before, last):
        source = part.rows * part.source
        read, crosses = (part.rows * part.length, len(before)) if stack is last else (source, 0)
        for block in stack.blocks:
            queries = part.queries if block is last.blocks[-1] else read
            calls += 4 + 3 * crosses
            size += (2 + crosses) * (part.number + number) * queries
            size += number * (read - queries + crosses * source)
    size *= parts * model.config.d_model
    return Collective("activations", "all-reduce", "tensor", parts * calls, size)
