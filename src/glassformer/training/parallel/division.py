"""Division of the rows and the model of a run among its processes.

whole      every process has the whole model, and their gradients are added
divided    by `train.distributed.shard` and `tensor`, each has a part of it: see `sharding`
"""

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import torch
from torch import nn

from glassformer.core.axes import Tensor
from glassformer.core.batch import Batch
from glassformer.core.distributed.processes import ALONE, Processes
from glassformer.core.distributed.shards import whole
from glassformer.finetune.adapters import adapt
from glassformer.models.transformer import Output, Transformer
from glassformer.recipe.train import TrainConfig
from glassformer.training.folder.part_files import Part, part_of
from glassformer.training.parallel.gradient_sums import (
    forget_unread,
    read_every_part,
    replicate,
    sum_gradients,
)


class Division:
    """Every process has the whole model.

    `readers`: the processes that read different rows, as this one sees them. `in_order`: gradients
    are added in an order that does not depend on the number of processes, if it and the number of
    micro-batches are powers of two. `apart`: the gradients of each micro-batch are computed for
    themselves, in order or by threads, and added up after the backward passes. `copies`: the
    processes that share the optimizer's work; in order, each does all of it, because products of
    other numbers of matrices have other bits.
    """

    def __init__(self, readers: Processes, in_order: bool = False, threads: bool = False):
        self.readers, self.in_order, self.apart = readers, in_order, in_order or threads
        self.copies = ALONE if in_order else readers
        self._replica: nn.parallel.DistributedDataParallel | None = None

    def build(
        self, make: Callable[[torch.device], Transformer], seed: int | None, device: torch.device
    ) -> Transformer:
        """Return this process's part of the model that `make` makes on a device; one on "meta" gets
        the initial weights of a seed."""
        model = make(device)
        if self.readers.count > 1 and not self.apart:
            read_every_part(model)
            self._replica = replicate(model, self.readers)
        return model

    def for_steps(self, model: Transformer) -> Callable[[Batch], Output]:
        """The model that was built, whose backward passes add gradients up over the processes."""
        return self._replica or model

    def backward(self, last: bool) -> AbstractContextManager[None]:
        """Compute a micro-batch in the body; gradients are added up with the `last` one."""
        return nullcontext() if last or self._replica is None else self._replica.no_sync()

    def add_up(self, parameters: Sequence[Tensor]) -> None:
        """Replace every gradient by its sum over the processes, if the backward passes have not;
        None if no process has one."""
        if self.apart and self.readers.count > 1:
            add = self.readers.add_in_order if self.in_order else self.readers.add
            sum_gradients(parameters, add)
        elif self._replica is not None:
            forget_unread(self._replica.module, [self.readers.group])

    def whole(self, model: Transformer, train: TrainConfig) -> Transformer:
        """The model with all of its weights, in every process, for scores, samples and export."""
        return model

    def part(self, tensors: Mapping[str, Tensor]) -> Part | None:
        """Return the part of tensors that this process writes to a checkpoint; None: another one
        does."""
        return Part(tensors) if self.readers.first else None


class Divided(Division):
    """Each process has a part of the model."""

    def __init__(self, processes: Processes, mesh: Any, given: bool = False):
        """`given`: weights come from another model."""
        from glassformer.training.parallel import sharding

        self._mesh, self._sharding, self._given = mesh, sharding, given
        super().__init__(Processes(*sharding.readers(mesh), sharding.group_of_readers(mesh)))
        self._model: Transformer | None = None
        self.copies = ALONE  # the optimizer sees how its matrices are divided

    def build(
        self, make: Callable[[torch.device], Transformer], seed: int | None, device: torch.device
    ) -> Transformer:
        """See `Division`: on "meta", if all of its weights are drawn or read by name."""
        model = make(device if self._given else torch.device("meta"))
        late = next(model.parameters()).is_meta
        self._sharding.divide(model, self._mesh)
        if late:
            self._sharding.materialize(model, seed, device)
        self._model = model
        return model

    def add_up(self, parameters: Sequence[Tensor]) -> None:
        """See `Division`: FSDP2 has added them."""
        assert self._model is not None
        self._sharding.settle(self._model, parameters, self._mesh)

    def whole(self, model: Transformer, train: TrainConfig) -> Transformer:
        """See `Division`: a copy."""
        device = next(model.parameters()).device
        made = Transformer(model.config, None, device)
        adapt(made, train.finetune, train.seed)
        values = [*model.named_parameters(), *model.named_buffers()]
        targets = dict([*made.named_parameters(), *made.named_buffers()])
        with torch.no_grad():
            for name, value in values:
                targets[name].copy_(whole(value))
        return made

    def part(self, tensors: Mapping[str, Tensor]) -> Part | None:
        """Return the part of a divided model's tensors that this process writes."""
        return part_of(tensors, self._mesh)


UNDIVIDED = Division(ALONE)


def division_of(processes: Processes, train: TrainConfig, device: torch.device) -> Division:
    """Divide the model of a recipe among these processes."""
    of = train.distributed
    if of.shard * of.tensor == 1:
        threads = train.parallel_micro_batches > 1 and device.type == "cpu"
        return Division(processes, of.deterministic, threads)
    from glassformer.training.parallel.sharding import build_mesh

    mesh = build_mesh(device.type, processes.count, of.shard, of.tensor)
    return Divided(processes, mesh, train.init_from is not None or train.finetune.partial)
