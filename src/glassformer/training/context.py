"""Rows whose positions several processes compute, each a slice of every row.

    slice   pieces p and 2n - 1 - p of 2n of T positions, for process p of n; a piece has T / 2n
            positions, rounded up, the last ones fewer or none. Under a causal mask, all slices read
            the same number of keys.
    keys    attention gathers the keys and values of all slices (all-gather); their gradients come
            back as sums (reduce-scatter)

All other layers work on positions alone, and a target belongs to one slice: losses and gradients
are sums over slices as they are over rows. Source: Llama Team 2024, section 3.3.2.
"""

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import partial
from inspect import signature
from typing import Any

import torch
from torch.autograd.graph import saved_tensors_hooks
from torch.nn import functional as F

from glassformer.axes import Float, Tensor
from glassformer.batch import IGNORE, Batch, Positions
from glassformer.errors import ConfigError, counted
from glassformer.layers.cache import Cache, KeysValues
from glassformer.layers.stack import Stack
from glassformer.models.transformer import Transformer
from glassformer.processes import ALONE, Processes
from glassformer.shards import is_divided
from glassformer.training.tensor_parallel import stacks


def groups(readers: int, context: int) -> int:
    """How many groups of `context` processes read different rows; ConfigError: it does not divide
    the processes that read rows."""
    if readers % context:
        raise ConfigError(
            f"train.distributed.context={context} does not divide the "
            f"{counted(readers, 'process')} that read rows (all of them, divided by tensor); "
            "choose a divisor, or start more by torchrun or --processes."
        )
    return readers // context


def pieces_of(length: int, place: int, count: int) -> tuple[range, range]:
    """The two pieces of slice `place` of `count` of so many positions."""
    step = -(-length // (2 * count))
    piece = lambda number: range(min(length, number * step), min(length, number * step + step))
    return piece(place), piece(2 * count - 1 - place)


def full(length: int, count: int) -> int:
    """Positions of a slice whose pieces are full."""
    return length if count == 1 else 2 * -(-length // (2 * count))


def sliced(batch: Batch, place: int, count: int) -> Batch:
    """Slice `place` of `count` of the positions of a batch, with the targets there; attention needs
    `Positions.whole`.

    An empty slice has the last element without a target, which is computed for nothing.
    """
    length = batch.elements.shape[1]
    first, second = pieces_of(length, place, count)
    kept = torch.tensor([*first, *second], dtype=torch.int64)
    if first.stop == second.start:
        first, second = range(first.start, second.stop), second[:0]
    pieces = (first, second) if second else (first,) if first else (range(length - 1, length),)
    read = kept if len(kept) else kept.new_tensor([length - 1])
    cut = lambda t: t[:, read]
    where = batch.where()
    start = where.start if len(pieces) == 1 else None
    own = where.mapped(cut, None if start is None else start + pieces[0].start)
    parts = (part.taken(kept, length) for part in batch.parts)
    at, targets = _own_targets(batch, kept)
    return replace(
        batch,
        elements=cut(batch.elements),
        positions=replace(own, whole=where, pieces=pieces),
        targets=targets,
        token_type_ids=None if batch.token_type_ids is None else cut(batch.token_type_ids),
        source=None if batch.source is None else sliced(batch.source, place, count),
        at=at,
        parts=tuple(part for part in parts if len(part.at)),
    )


def _own_targets(batch: Batch, kept: Tensor) -> tuple[Tensor | None, Tensor | None]:
    """`at` and targets of the positions that are kept; without any, the first element with
    IGNORE."""
    at, targets, length = batch.at, batch.targets, batch.elements.shape[1]
    if targets is None:
        return None, None
    if at is None:
        own = targets[:, kept]
        return None, own if len(kept) else torch.full_like(targets[:, :1], IGNORE)
    place = torch.full((length,), -1)
    place[kept] = torch.arange(len(kept))
    row, slot = at // length, place[at % length]
    here = slot >= 0
    if not here.any():
        return at.new_zeros(1), targets.new_full((1,), IGNORE)
    return (row * len(kept) + slot)[here], targets[here]


def slices_of(device: str, processes: int, context: int, tensor: int) -> Processes:
    """The processes that have the slices of the same rows, neighbours in rank but for `tensor`."""
    from torch.distributed.device_mesh import init_device_mesh

    sizes = processes // (context * tensor), context, tensor
    own = init_device_mesh(device, sizes, mesh_dim_names=("rows", "context", "tensor"))["context"]
    return Processes(own.get_local_rank(), context, own.get_group())


def gather_keys(model: Transformer, slices: Processes) -> None:
    """Let attention gather the keys and values of all slices, where a batch is a slice."""
    for stack in stacks(model):
        stack.forward = partial(_gathering, slices, stack, stack.forward)


def _gathering(
    slices: Processes, stack: Stack, forward: Callable[..., Tensor], *given: Any, **named: Any
) -> Tensor:
    """A stack's forward pass with a cache that gathers, if the batch is a slice."""
    named = signature(forward).bind(*given, **named).arguments
    query: Positions = named["positions"]
    if query.whole is None:
        return forward(**named)
    memory: Positions | None = named.get("source_positions")
    source = None if memory is None else memory.whole
    lengths = query.whole.length, 0 if source is None else source.length
    cache = SlicedCache(query.whole, slices=slices, lengths=lengths)
    with saved_tensors_hooks(cache.packed, _unpacked):
        stream = forward(**{**named, "cache": cache, "source_positions": source})
    cache.forget()
    return stream


@dataclass(frozen=True)
class SlicedCache(Cache):
    """The keys and values of all slices, at `positions`, from those of this process.

    `lengths`: of a whole row and of a whole source. `newest`: what was gathered last.
    """

    slices: Processes = ALONE
    lengths: tuple[int, int] = (0, 0)
    newest: list["Gathered"] = field(default_factory=list)

    def store(
        self, layer: int, keys: Float[Tensor, "B G T K"], values: Float[Tensor, "B G T K"]
    ) -> KeysValues:
        """See `Cache`."""
        return self.whole(keys, values, self.lengths[0])

    def once(self, layer: int, compute: Callable[[], KeysValues]) -> KeysValues:
        """See `Cache`."""
        return self.whole(*compute(), self.lengths[1])

    def whole(
        self, keys: Float[Tensor, "B G t K"], values: Float[Tensor, "B G t K"], length: int
    ) -> KeysValues:
        """Keys and values of rows of `length` positions; each slice is padded on its way to the
        length of a full one: if a piece is short, nothing comes behind it."""
        slices = self.slices
        size = sum(map(len, pieces_of(length, slices.rank, slices.count)))
        both = torch.stack([keys, values])[..., :size, :]
        own = F.pad(both, (0, 0, 0, full(length, slices.count) - size))
        if torch.is_grad_enabled() and not own.requires_grad:
            own.requires_grad_()  # all processes gather again, whatever is trained
        newest = Gathered(self.slices)
        found: Tensor = _Gathering.apply(own, newest)
        newest.own, newest.found = own.detach(), found.detach()
        self.forget()
        self.newest.append(newest)
        k, v = found[..., :length, :].unbind()
        return k, v

    def packed(self, saved: Tensor) -> Any:
        """What is kept of a tensor until the backward pass: of what was gathered last, how to read
        it when it is gathered again."""
        for one in () if is_divided(saved) else self.newest:
            if one.found is not None and _memory(one.found) == _memory(saved):
                return one, saved.shape, saved.stride(), saved.storage_offset()
        return saved

    def forget(self) -> None:
        """Keep of what was gathered last this process's own alone."""
        while self.newest:
            self.newest.pop().found = None


def _memory(tensor: Tensor) -> int:
    return tensor.untyped_storage().data_ptr()


def _unpacked(kept: Any) -> Tensor:
    """The tensor that `SlicedCache.packed` made this of."""
    if isinstance(kept, Tensor):
        return kept
    gathered, *view = kept
    return gathered.again().as_strided(*view)


@dataclass
class Gathered:
    """The keys and values of a layer: of this process, `own`, and, while they are needed, those of
    all slices, `found`: for attention, and again for its backward pass."""

    slices: Processes
    own: Tensor | None = None
    found: Tensor | None = None

    def again(self) -> Tensor:
        """Those of all slices, gathered if they are not there."""
        if self.found is None:
            assert self.own is not None
            self.found = _all(self.own, self.slices)
        return self.found


def _all(own: Tensor, slices: Processes) -> Tensor:
    """The slices of all processes as rows: first pieces, then second ones, from the last slice to
    the first."""
    both = [one.chunk(2, -2) for one in slices.start_gather(own)()]
    return torch.cat([one for one, _ in both] + [one for _, one in reversed(both)], -2)


class _Gathering(torch.autograd.Function):
    """The rows of all processes' slices; back comes the sum of the gradients of this one's, in
    float32 at least."""

    @staticmethod
    def forward(ctx: Any, own: Tensor, gathered: Gathered) -> Tensor:
        ctx.gathered = gathered
        return _all(own, gathered.slices)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, None]:
        (gradient,) = gradients
        slices: Processes = ctx.gathered.slices
        ctx.gathered.again()  # if no kernel has read them: others' may have
        ctx.gathered.found = None
        exact = gradient.to(torch.promote_types(gradient.dtype, torch.float32))
        pieces = exact.chunk(2 * slices.count, -2)
        own = [torch.cat(two, -2) for two in zip(pieces, reversed(pieces), strict=True)]
        return slices.own_sum(own[: slices.count]).to(gradient.dtype), None
