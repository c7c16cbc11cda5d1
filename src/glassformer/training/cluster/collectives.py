"""What the processes of a divided model send each other in a step: counted from the divided model,
and the time that it takes by the cost of a ring.

    all-gather, reduce-scatter of B bytes     (n - 1) / n · B / bandwidth + (n - 1) · latency
    all-reduce                                twice that
    broadcast                                 B / bandwidth + (n - 1) · latency
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

from torch import nn
from torch._C._distributed_c10d import _compute_bucket_assignment_by_size
from torch.distributed.device_mesh import DeviceMesh
from torch.distributed.fsdp import FSDPModule

from glassformer.axes import Tensor
from glassformer.batch import Positions
from glassformer.layers.attention import Attention
from glassformer.layers.sliced import is_long, runs_of
from glassformer.layers.stack import Stack
from glassformer.models.transformer import Transformer
from glassformer.shards import cuts
from glassformer.training.optimizer import is_block_matrix
from glassformer.training.sharding import bytes_here
from glassformer.training.tensor_parallel import copies, stacks

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


def collectives(
    model: Transformer, mesh: DeviceMesh, part: Part, parts: int, muon: bool
) -> list[Collective]:
    """Those of a step of `parts` micro-batches in each process, for the first process of a mesh,
    whose parts of tensors are the largest. Calls that exchange a few numbers are left out."""
    replicate, shard, tensor = (mesh.size(axis) for axis in range(3))
    found: list[Collective] = []
    trained = [one for one in model.parameters() if one.requires_grad]
    if shard * tensor == 1:
        buckets, size = _buckets(trained), bytes_here(trained)
        found.append(Collective("gradients", "all-reduce", "replicate", buckets, size))
    elif isinstance(model, FSDPModule):
        found += _of_shards(model, parts, replicate, shard)
    if tensor > 1:
        found += _of_tensors(model, part, parts)
        size = bytes_here(copies(trained))
        found.append(Collective("gradients of copies", "broadcast", "tensor", 1, size))
    if muon:
        found += _of_directions(model, mesh)
    totals: dict[tuple[str, Operation, str], list[int]] = defaultdict(lambda: [0, 0])
    for one in found:
        total = totals[one.purpose, one.operation, one.axis]
        total[0], total[1] = total[0] + one.calls, total[1] + one.bytes
    sizes = {"replicate": replicate, "shard": shard, "tensor": tensor}
    return [Collective(*key, *total) for key, total in totals.items() if sizes[key[2]] > 1]


def gathered_together(model: Transformer) -> list[Sequence[Tensor]]:
    """The parameters that FSDP2 gathers by one call: those of each block, then all others."""
    blocks: list[Sequence[Tensor]] = [
        [*block.parameters()] for stack in stacks(model) for block in stack.blocks
    ]
    inside = {id(one) for block in blocks for one in block}
    return [*blocks, [one for one in model.parameters() if id(one) not in inside]]


def _buckets(trained: Sequence[Tensor]) -> int:
    """The number of messages in which DistributedDataParallel sends gradients."""
    return len(_compute_bucket_assignment_by_size([*reversed(trained)], [1 << 20, 25 << 20])[0])


def _of_shards(model: Transformer, parts: int, replicate: int, shard: int) -> Iterator[Collective]:
    *blocks, rest = gathered_together(model)
    for group in (*blocks, rest):
        size = bytes_here(group) * shard
        trained = bytes_here(one for one in group if one.requires_grad)
        again = 1 if group is rest else 2  # blocks are freed after the forward pass
        yield Collective("parameters", "all-gather", "shard", parts * again, parts * again * size)
        if trained:
            sent = parts * trained * shard
            yield Collective("gradients", "reduce-scatter", "shard", parts, sent)
            yield Collective("gradients", "all-reduce", "replicate", parts, parts * trained)


def _of_tensors(model: Transformer, part: Part, parts: int) -> Iterator[Collective]:
    """Outputs of attention and feed-forward network on the way forward; gradients of their inputs,
    in float32, on the way back; those of the norm of heads, and of a learned score bias."""
    number = next(model.parameters()).element_size()
    every = lambda size: Collective("activations", "all-reduce", "tensor", parts, parts * size)
    for stack in stacks(model):
        d = model.config.d_model
        length = (
            part.source if stack is model.encoder and model.decoder is not None else part.length
        )
        if stack.bias is not None and (heads := [*stack.bias.parameters()]):
            calls, scores = _biased(stack, length)
            size = parts * heads[0].shape[-1] * scores * number
            yield Collective("score bias", "all-gather", "tensor", parts * calls, size)
        for i, block in enumerate(stack.blocks):
            last = stack is stacks(model)[-1] and i == len(stack.blocks) - 1
            queries = part.queries if last else part.rows * length
            yield from map(every, _summed(block, part, queries, part.rows * length, d, number))


def _summed(
    block: nn.Module, part: Part, queries: int, read: int, d: int, number: int
) -> Iterator[int]:
    """The bytes of each all-reduce of a block among the processes of `tensor`: `read` vectors of d
    numbers go in, `queries` of them come out; `number`: bytes of a number of a gradient."""
    for module in block.children():
        if isinstance(module, Attention):
            crossed = module is block.cross
            yield part.number * queries * d
            yield number * d * (queries if crossed else read)
            if crossed:
                yield number * d * part.rows * part.source
            for norm in filter(None, (module.q_norm, module.k_norm)):
                yield number * len(norm.weight)
        elif module is block.feedforward:
            yield part.number * queries * d
            yield number * queries * d


def _biased(stack: Stack, length: int) -> tuple[int, int]:
    """Return how often a score bias is computed for rows, and for how many scores."""
    rows = Positions.arange(length)
    if not is_long(stack.mask, rows):
        return 1, length**2
    runs = runs_of(stack.mask, lambda *_: None, rows)
    return len(runs), sum(run.queries * (run.keys.stop - run.keys.start) for run in runs)


def _of_directions(model: Transformer, mesh: DeviceMesh) -> Iterator[Collective]:
    """Muon gathers each matrix of a block, first along "shard", then along "tensor", and sends the
    whole update along the first of the two. Of whole matrices of one shape (and rate), each process
    has the updates of its share, and all gather them."""
    replicate, shard, tensor = (mesh.size(axis) for axis in range(3))
    named = model.named_parameters()
    matrices = [one for name, one in named if one.requires_grad and is_block_matrix(name, one)]
    if shard * tensor == 1:
        for shape, count in Counter(one.shape for one in matrices).items():
            size = -(-count // replicate) * replicate * shape.numel() * matrices[0].element_size()
            yield Collective("Muon's updates", "all-gather", "replicate", 1, size)
        return
    for one in matrices:
        whole = one.numel() * one.element_size()
        sizes = {"shard": bytes_here([one]) * shard} if shard > 1 else {}
        if cuts(one) > len(sizes):
            sizes["tensor"] = whole
        for axis, size in sizes.items():
            yield Collective("Muon's directions", "all-gather", axis, 1, size)
        for axis in [*sizes][:1]:
            yield Collective("Muon's updates", "broadcast", axis, 1, whole)


def ring_seconds(
    operation: Operation, calls: int, size: float, processes: int, bandwidth: float, latency: float
) -> float:
    """Seconds of so many calls on `size` bytes in all."""
    turns = 2 if operation == "all-reduce" else 1
    share = 1.0 if operation == "broadcast" else (processes - 1) / processes
    return turns * (share * size / bandwidth + calls * (processes - 1) * latency)


def orthogonalizing_flops(shapes: Iterable[tuple[int, ...]], processes: int) -> float:
    """Operations of Muon's five steps on matrices of these shapes (`optimizer.orthogonalize`) in
    one of the processes that share them."""
    total = 0.0
    for shape, count in Counter(shapes).items():
        m, n = sorted(shape)
        products = 34 * m**3 + 4 * m * m * n if n >= 2 * m else 5 * (2 * m**3 + 4 * m * m * n)
        total += -(-count // processes) * products
    return total
