"""Models of a few numbers, each filled with one, and processes that save them together."""

import json
import shutil
import threading
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import torch

from glassformer.core.distributed.processes import Processes
from glassformer.core.errors import GlassformerError
from glassformer.models import ModelConfig, Transformer
from glassformer.models.weights import load_tensors
from glassformer.training.folder.checkpoints import Checkpoints, State
from glassformer.training.folder.models import tensors_to_save
from glassformer.training.folder.part_files import Part, part_files

CONFIG = {"vocab_size": 5, "d_model": 4, "n_layers": 1, "n_heads": 1}


def model(fill: float = 0.0) -> Transformer:
    made = Transformer(ModelConfig.parse(CONFIG))
    with torch.no_grad():
        for parameter in made.parameters():
            parameter.fill_(fill)
    return made


class Turns:
    """Threads that are the processes of a run, one after the other up to the next exchange, so that
    calls come in one order."""

    def __init__(self, count: int):
        self._count, self._turn, self._round = count, 0, 0
        self._values: dict[int, list[Any]] = {}
        self._changed = threading.Condition()

    def exchanged(self, rank: int, value: Any) -> list[Any]:
        with self._changed:
            number = self._round
            self._values.setdefault(number, []).append(json.dumps(value))
            self._next(rank)
            self.wait(rank)
            return [json.loads(one) for one in self._values[number]]

    def wait(self, rank: int) -> None:
        with self._changed:
            assert self._changed.wait_for(lambda: self._turn == rank, 60)

    def _next(self, rank: int) -> None:
        self._turn = (rank + 1) % self._count
        self._round += self._turn == 0
        self._changed.notify_all()

    def run(self, rank: int, compute: Callable[[Processes], Any]) -> GlassformerError | None:
        """The error that one of the processes ends with."""
        self.wait(rank)
        try:
            compute(OneOf(rank, self._count, self))
        except GlassformerError as error:
            return error
        finally:
            with self._changed:
                self._next(rank)
        return None


class OneOf(Processes):
    """A process of `Turns`."""

    def gather(self, value: Any) -> list[Any]:
        return self.group.exchanged(self.rank, value)


def together(count: int, compute: Callable[[Processes], Any]) -> list[GlassformerError | None]:
    """The error that each of some processes ends with."""
    turns = Turns(count)
    with ThreadPoolExecutor(count) as threads:
        ends = [threads.submit(turns.run, rank, compute) for rank in range(count)]
        return [one.result() for one in ends]


def part(tensors: Mapping[str, torch.Tensor], rank: int, count: int) -> Part:
    """Some rows of every tensor; of one process, the tensors."""
    if count == 1:
        return Part(tensors)
    own, where = {}, {}
    for name, tensor in tensors.items():
        if not tensor.dim():
            if rank == 0:
                own[name], where[name] = tensor, ([], [])
            continue
        rows = -(-len(tensor) // count)
        if len(mine := tensor[rank * rows : (rank + 1) * rows]):
            own[name], where[name] = (
                mine,
                ([*tensor.shape], [rank * rows, *[0] * (tensor.dim() - 1)]),
            )
    return Part(own, where, rank, count)


def saved(
    checkpoints: Checkpoints,
    of: Transformer,
    optimizer: Mapping[str, torch.Tensor],
    state: State,
    count: int = 1,
) -> list[GlassformerError | None]:
    """Save as one process does, or as several do, each its part; their errors."""

    def save(processes: Processes) -> None:
        parts = [part(one, processes.rank, count) for one in (tensors_to_save(of), optimizer)]
        own = Checkpoints(checkpoints.folder.parent, checkpoints.keep, processes)
        own.save(*parts, state)

    return together(count, save)


def moments(checkpoints: Checkpoints, step: int, name: str = "a:b") -> torch.Tensor:
    """What a checkpoint holds of an optimizer."""
    files = part_files(checkpoints.path(step), "optimizer")
    return torch.cat([load_tensors(file)[name] for file in files])


def saved_again(checkpoints: Checkpoints, step: int, count: int) -> None:
    """Let the checkpoint of one process be one that several have saved."""
    folder, state = checkpoints.path(step), checkpoints.state(step)
    of = [load_tensors(folder / f"{stem}.safetensors") for stem in ("model", "optimizer")]
    place = checkpoints.folder.with_name("again")

    def save(processes: Processes) -> None:
        parts = [part(tensors, processes.rank, count) for tensors in of]
        Checkpoints(place, processes=processes).save(*parts, state)

    assert not any(together(count, save))
    shutil.rmtree(folder)
    Checkpoints(place).path(step).rename(folder)
    shutil.rmtree(place)
