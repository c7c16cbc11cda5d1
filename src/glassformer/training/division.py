"""How the processes of a run share its rows and its model.

whole      every process has the whole model, and their gradients are added
divided    by `train.distributed.shard` and `tensor`, each has a part of it: see `sharding`
"""

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import torch

from glassformer.axes import Tensor
from glassformer.data.collate import Share
from glassformer.finetune.adapters import adapt
from glassformer.models.transformer import Transformer
from glassformer.processes import ALONE, Processes
from glassformer.recipe.train import TrainConfig
from glassformer.shards import whole
from glassformer.tasks.task import Task
from glassformer.training.gradient_messages import GradientMessages
from glassformer.training.part_files import Part, part_of
from glassformer.training.tensor_parallel import keep_equal


class Division:
    """Every process has the whole model.

    `readers`: the processes that read different rows, as this one sees them. `in_order`: gradients
    are added in an order that does not depend on the number of processes, if it and the number of
    micro-batches are powers of two. `copies`: the processes that share the optimizer's work; in
    order, each does all of it, because products of other numbers of matrices have other bits.
    """

    divided = False

    def __init__(self, readers: Processes, in_order: bool = False):
        self.readers, self.in_order = readers, in_order
        self.copies = ALONE if in_order else readers
        self._messages: GradientMessages | None = None

    def device(self, train: TrainConfig, device: torch.device) -> torch.device:
        """Where a model is made before `place`."""
        return device

    def place(self, model: Transformer, seed: int | None, device: torch.device) -> None:
        """Give this process its part of a model; of one on "meta", with the initial weights of a
        seed."""

    def share(self, task: Task, step: int) -> Share:
        """Return the micro-batches of a step that this process computes."""
        return task.share(step, self.readers.rank, self.readers.count)

    def last_backward(self, parameters: Sequence[Tensor]) -> AbstractContextManager[None]:
        """Begin with `add_up` during a backward pass."""
        if self.readers.count == 1:
            return nullcontext()
        self._messages = GradientMessages(parameters, self._start_sum)
        return self._messages.during_backward()

    def add_up(self, parameters: Sequence[Tensor]) -> None:
        """Replace every gradient by its sum over the processes; None if nobody has one."""
        if self.readers.count == 1:
            return
        messages = self._messages or GradientMessages(parameters, self._start_sum)
        self._messages = None
        messages.finish()

    def _start_sum(self, numbers: Tensor) -> Callable[[], None]:
        if not self.in_order:
            return self.readers.start_sum(numbers)
        self.readers.add_in_order(numbers)
        return lambda: None

    def whole(self, model: Transformer, train: TrainConfig) -> Transformer:
        """The model with all of its weights, in every process, for scores, samples and export."""
        return model

    def part(self, tensors: Mapping[str, Tensor]) -> Part | None:
        """What this process writes of tensors in a checkpoint; None: another one does."""
        return Part(tensors) if self.readers.first else None


class Divided(Division):
    """Each process has a part of the model."""

    divided = True

    def __init__(self, processes: Processes, mesh: Any):
        from glassformer.training import sharding

        self._mesh, self._sharding = mesh, sharding
        self._model: Transformer | None = None
        group = mesh["replicate", "shard"]._flatten("readers").get_group()
        super().__init__(Processes(*sharding.readers(mesh), group))
        self.copies = ALONE  # the optimizer sees how its matrices are divided

    def device(self, train: TrainConfig, device: torch.device) -> torch.device:
        """See `Division`: nowhere, if all of its weights are drawn or read by name."""
        given = train.init_from is not None or train.finetune.partial
        return device if given else torch.device("meta")

    def place(self, model: Transformer, seed: int | None, device: torch.device) -> None:
        """See `Division`."""
        late = next(model.parameters()).is_meta
        self._sharding.divide(model, self._mesh)
        if late:
            self._sharding.materialize(model, seed, device)
        self._model = model

    def share(self, task: Task, step: int) -> Share:
        """See `Division`: as many in every process."""
        own = super().share(task, step)
        missing = task.recipe.train.micro_batches // self.readers.count - len(own.batches)
        if not missing:
            return own
        return own._replace(idle=(own.batches or task.batches(step))[:1] * missing)

    def last_backward(self, parameters: Sequence[Tensor]) -> AbstractContextManager[None]:
        """See `Division`: FSDP2 adds them."""
        return nullcontext()

    def add_up(self, parameters: Sequence[Tensor]) -> None:
        """See `Division`: FSDP2 has added them."""
        assert self._model is not None
        self._sharding.forget_unread(self._model, self._mesh)
        keep_equal(parameters, self._mesh["tensor"])

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
        """See `Division`."""
        return part_of(tensors, self._mesh)


UNDIVIDED = Division(ALONE)


def division_of(processes: Processes, train: TrainConfig, device: torch.device) -> Division:
    """How a recipe divides its model among these processes."""
    of = train.distributed
    if of.shard * of.tensor == 1:
        return Division(processes, of.deterministic)
    from glassformer.training.sharding import build_mesh

    mesh = build_mesh(device.type, processes.count, of.shard, of.tensor)
    return Divided(processes, mesh)
