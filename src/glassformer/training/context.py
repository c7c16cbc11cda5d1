"""Rows whose positions several processes compute, each a contiguous slice of every row.

    slice   positions [p·s, p·s + s) of T for process p of n, s = T / n rounded up; the last may be
            shorter or empty
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
from glassformer.layers.mask import AT_ONCE, Mask
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


def borders(length: int, place: int, count: int) -> tuple[int, int]:
    """Begin and end of slice `place` of `count` of so many positions."""
    step = -(-length // count)
    return min(length, place * step), min(length, place * step + step)


def sliced(batch: Batch, place: int, count: int) -> Batch:
    """Slice `place` of `count` of the positions of a batch, with the targets there; attention needs
    `Positions.whole`.

    An empty slice has the last element without a target, which is computed for nothing.
    """
    length = batch.elements.shape[1]
    begin, end = borders(length, place, count)
    empty = begin == end
    begin = min(begin, length - 1)
    cut = lambda t: t[:, begin : begin + 1 if empty else end]
    where = batch.where()
    own = where.mapped(cut, None if where.start is None else where.start + begin)
    kept = torch.arange(begin, begin if empty else end)
    parts = (part.taken(kept, length) for part in batch.parts)
    at, targets = _own_targets(batch, begin, begin if empty else end)
    return replace(
        batch,
        elements=cut(batch.elements),
        positions=replace(own, whole=where),
        targets=targets,
        token_type_ids=None if batch.token_type_ids is None else cut(batch.token_type_ids),
        source=None if batch.source is None else sliced(batch.source, place, count),
        at=at,
        parts=tuple(part for part in parts if len(part.at)),
    )


def _own_targets(batch: Batch, begin: int, end: int) -> tuple[Tensor | None, Tensor | None]:
    """`at` and targets of the positions from `begin` to `end`; without any, the first element with
    IGNORE."""
    at, targets, length = batch.at, batch.targets, batch.elements.shape[1]
    if targets is None:
        return None, None
    if at is None:
        empty = begin == end
        return None, torch.full_like(targets[:, :1], IGNORE) if empty else targets[:, begin:end]
    row, column = at // length, at % length
    here = (column >= begin) & (column < end)
    if not here.any():
        return at.new_zeros(1), targets.new_full((1,), IGNORE)
    return (row * (end - begin) + column - begin)[here], targets[here]


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
    begin, end = seen(stack.mask, query, query.whole)
    start = None if query.whole.start is None else query.whole.start + begin
    keys = query.whole.mapped(lambda t: t[:, begin:end], start)
    lengths = query.whole.length, 0 if source is None else source.length
    cache = SlicedCache(keys, slices=slices, begin=begin, lengths=lengths)
    with saved_tensors_hooks(cache.packed, _unpacked):
        stream = forward(**{**named, "cache": cache, "source_positions": source})
    cache.forget()
    return stream


def seen(mask: Mask, query: Positions, key: Positions) -> tuple[int, int]:
    """The keys from the first to the last that any query may attend to; all if there is none."""
    needed = mask.needed(query, key)
    if needed is None:
        return 0, key.length
    some = torch.zeros(key.length, dtype=torch.bool, device=key.position.device)
    for begin in range(0, query.length, AT_ONCE):  # no table of all queries
        at_once = query.mapped(lambda t, begin=begin: t[:, begin : begin + AT_ONCE])
        some |= needed.table(at_once, key).flatten(0, 1).any(0)
    found = some.nonzero()
    return (int(found[0]), int(found[-1]) + 1) if len(found) else (0, key.length)


@dataclass(frozen=True)
class SlicedCache(Cache):
    """The keys and values of all slices, at `positions`, from those of this process.

    `lengths`: of a whole row, of which `positions` are those from `begin` on, and of a whole
    source. `newest`: what was gathered last.
    """

    slices: Processes = ALONE
    begin: int = 0
    lengths: tuple[int, int] = (0, 0)
    newest: list["Gathered"] = field(default_factory=list)

    def store(
        self, layer: int, keys: Float[Tensor, "B G T K"], values: Float[Tensor, "B G T K"]
    ) -> KeysValues:
        """See `Cache`."""
        assert self.positions is not None
        k, v = self.whole(keys, values, self.lengths[0])
        own = slice(self.begin, self.begin + self.positions.length)
        return k[:, :, own], v[:, :, own]

    def once(self, layer: int, compute: Callable[[], KeysValues]) -> KeysValues:
        """See `Cache`."""
        return self.whole(*compute(), self.lengths[1])

    def whole(
        self, keys: Float[Tensor, "B G t K"], values: Float[Tensor, "B G t K"], length: int
    ) -> KeysValues:
        """Keys and values of rows of `length` positions; each slice is padded on its way to the
        length of the first."""
        begin, end = borders(length, self.slices.rank, self.slices.count)
        both = torch.stack([keys, values])[..., : end - begin, :]
        own = F.pad(both, (0, 0, 0, -(-length // self.slices.count) - (end - begin)))
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
    return torch.cat(slices.start_gather(own)(), -2)


class _Gathering(torch.autograd.Function):
    """The positions of all processes, one behind the other; back comes the sum of the gradients of
    this one's, in float32 at least."""

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
        return slices.own_sum(exact.chunk(slices.count, -2)).to(gradient.dtype), None
