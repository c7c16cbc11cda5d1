"""What processes that torchrun starts compute for tests/training/test_sharding.py, as a program:

    divided_checks.py CHECK ARGUMENTS FILE        the first process writes the result, JSON, to FILE

A check compares a model divided among the processes with the same model alone, in float64.
"""

import json
import sys
from collections.abc import Callable
from functools import partial
from itertools import accumulate
from pathlib import Path
from typing import Any, ClassVar

import torch
from torch import distributed
from torch.distributed.tensor import DTensor
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

import tiny
from glassformer.core.batch import IGNORE, Batch, Part, Positions
from glassformer.core.distributed.processes import ALONE, Processes
from glassformer.core.distributed.shards import local, own, put, whole
from glassformer.data.collate import Share
from glassformer.finetune.adapters import add_adapters
from glassformer.layers.losses import cross_entropy
from glassformer.models import Transformer
from glassformer.models.weights import load_tensors, save_tensors
from glassformer.recipe.train import DistributedConfig, OptimizerConfig, TrainConfig
from glassformer.training.folder.checkpoints import Checkpoints, State
from glassformer.training.folder.models import fill, fill_optimizer
from glassformer.training.loop.optimizer import Optimizer, clip_gradients
from glassformer.training.loop.step import TrainingStep
from glassformer.training.parallel import sharding
from glassformer.training.parallel.division import Division, division_of
from glassformer.training.parallel.tensor_parallel import copies

ROWS, LENGTH, CPU = 16, 8, torch.device("cpu")
SPLITS = {
    "1x16": [16],
    "4x4": [4] * 4,
    "16x1": [1] * 16,
    "ragged": [5, 5, 5, 1],
    "90 % masked": [4] * 4,
}
CASES: dict[str, dict[str, Any]] = {
    "decoder": {"position": "rotary", "gated": True, "norm": "rms", "qk_norm": True},
    "plain": {"position": "rotary", "gated": True, "norm": "rms"},
    "untied": {"position": "relative", "tied": False, "n_kv_heads": 2},
    "encoder": {"architecture": "encoder", "head": "masked_lm", "norm_placement": "post"},
    "encoder-decoder": {"architecture": "encoder_decoder", "position": "buckets"},
    "images": {
        "architecture": "encoder",
        "elements": "patches",
        "patch_width": 4,
        "grid": (2, 4),
        "patch": (2, 2),
        "stem": (4,),
        "max_length": LENGTH,
        "head": "classify",
        "n_classes": 3,
        "pool": "first",
        "tied": False,
    },
    "parts": {"parts": {"image": 5, "audio": 3}, "part_patches": {"image": 2}},
    "no parts": {"parts": {"image": 5}},  # of which no row has one
    "classes": {
        "architecture": "encoder",
        "head": "classify",
        "n_classes": 3,
        "pool": "mean",
        "pooler": True,
        "tied": False,
    },
    "tags": {"architecture": "encoder", "head": "tag", "n_classes": 3, "tied": False},
    "adapters": {"position": "rotary"},
}


def drawn(seed: int, *shape: int) -> torch.Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def data(case: str, begin: int, end: int, masked: float = 0.0) -> Batch:
    """Rows begin .. end-1 of sixteen, the same however they are divided."""
    rows = slice(begin, end)
    one_a_row = CASES[case].get("head") == "classify"
    shape = (ROWS,) if one_a_row else (ROWS, LENGTH)
    targets = tiny.tokens(*shape, seed=1) % (3 if "n_classes" in CASES[case] else tiny.VOCABULARY)
    if masked:
        hidden = torch.rand(shape, generator=torch.Generator().manual_seed(2)) < masked
        targets = targets.masked_fill(hidden, IGNORE)
    targets, tokens = targets[rows], tiny.tokens(ROWS, LENGTH)[rows]
    match case:
        case "images":
            return Batch(drawn(3, ROWS, LENGTH, 4)[rows], targets=targets)
        case "encoder":
            at = torch.arange(targets.numel()).view(-1, LENGTH)[:, ::2].flatten()
            return Batch(tokens, targets=targets.flatten()[at], at=at)
        case "encoder-decoder":
            lengths = [2 + row % (LENGTH - 1) for row in range(ROWS)][rows]
            source = tiny.tokens(ROWS, LENGTH, seed=4)[rows, : max(lengths)]
            return Batch(tokens, targets=targets, source=Batch(source, Positions.pad(lengths)))
        case "parts":
            return Batch(tokens, targets=targets, parts=tuple(patches(begin, end)))
        case _:
            return Batch(tokens, targets=targets)


def patches(begin: int, end: int) -> list[Part]:
    """Two patches of an image in every third row, and one of audio in every fifth."""
    found = []
    for name, width, count, every in (("image", 5, 2, 3), ("audio", 3, 1, 5)):
        own = [row for row in range(begin, end) if row % every == 0]
        if own:
            at = [(row - begin) * LENGTH + slot for row in own for slot in range(count)]
            values = torch.cat([drawn(row, count, width) for row in own])
            index = torch.arange(count).repeat(len(own))
            found.append(Part(name, torch.tensor(at), values, index))
    return found


def model_of(case: str, device: str = "cpu") -> Transformer:
    model = Transformer(tiny.config(**CASES[case]), None, device)
    if case == "adapters" and device == "cpu":
        tiny.stir(model)
        add_adapters(model, rank=3, targets=["q_proj", "up_proj"])
    return model if device == "meta" else tiny.stir(model)  # pyright: ignore


def loss_of(model: Transformer, batch: Batch) -> torch.Tensor:
    assert batch.targets is not None
    return cross_entropy(model(batch).logits, batch.targets).total


def like(full: torch.Tensor, target: Any) -> Any:
    """A copy of `full`, divided as `target` is."""
    part, where = own(full, target).contiguous(), (target.device_mesh, target.placements)
    return DTensor.from_local(part, *where, shape=target.shape, stride=target.stride())


class Parts:
    """A task whose steps are one batch, cut into parts of these numbers of rows."""

    def __init__(self, case: str, sizes: list[int], masked: float, count: int):
        ends = list(accumulate(sizes))
        self._parts = [
            data(case, end - size, end, masked) for end, size in zip(ends, sizes, strict=True)
        ]
        self._own = -(-len(sizes) // count)

    def share(self, rank: int, count: int) -> Share:
        first = min(rank * self._own, len(self._parts))
        own = self._parts[first : first + self._own]
        idle = self._own - len(own) if count > 1 else 0
        return Share(own + (own or self._parts)[:1] * idle, first, idle)


class Unlearning(Optimizer):
    """An optimizer that leaves everything as it is, gradients too."""

    def step(self, factor: float) -> None:
        pass


def everyone() -> Processes:
    return Processes(distributed.get_rank(), distributed.get_world_size())


def division_by(shard: int, tensor: int) -> Division:
    """All processes, divided as a recipe asks."""
    of = DistributedConfig(shard=shard, tensor=tensor)
    return division_of(everyone(), TrainConfig(distributed=of), CPU)


def on_device(case: str, device: torch.device) -> Transformer:
    return model_of(case, device.type)


def built(case: str, division: Division) -> Transformer:
    """Return this process's part of a model."""
    return division.build(lambda device: model_of(case), None, CPU)


def divided(alone: Transformer, case: str, division: Division) -> Transformer:
    """The same model, divided."""
    model = built(case, division)
    for (name, parameter), one in zip(model.named_parameters(), alone.parameters(), strict=True):
        put(parameter, one.detach())
        assert torch.equal(whole(parameter), one), name
    return model


def step_of(
    model: Transformer,
    optimizer: Optimizer,
    case: str,
    split: str,
    division: Division,
    max_grad_norm: float = 1.0,
) -> None:
    """A training step, as the loop takes it; `split`: of SPLITS."""
    masked = 0.9 if "masked" in split else 0.0
    own = division.readers
    share = Parts(case, SPLITS[split], masked, own.count).share(own.rank, own.count)
    called = division.for_steps(model)
    compute = TrainingStep(called, optimizer, max_grad_norm=max_grad_norm, division=division)
    compute(share, 0, 1.0)


def error(alone: Transformer, model: Transformer) -> tuple[float, str]:
    """The largest difference of gradients, relative to the largest gradient of the same module: the
    bias of a key has none, because a softmax does not see it."""
    scale: dict[str, float] = {}
    for name, parameter in alone.named_parameters():
        if parameter.grad is not None:
            owner = name.rpartition(".")[0]
            scale[owner] = max(scale.get(owner, 0.0), float(parameter.grad.abs().max()))
    worst = 0.0, ""
    for (name, one), other in zip(alone.named_parameters(), model.parameters(), strict=True):
        if one.grad is None:
            assert other.grad is None or not whole(other.grad).any(), name
            continue
        assert other.grad is not None, name
        apart = float((whole(other.grad) - one.grad).abs().max()) / scale[name.rpartition(".")[0]]
        worst = max(worst, (apart, name))
    return worst


def gradients(cases: list[str], meshes: list[list[int]], splits: list[str]) -> dict[str, Any]:
    """The largest relative error of the gradient of each split, by case and mesh."""
    found = {}
    for case in cases:
        for shard, tensor in meshes:
            if case == "adapters" and tensor > 1:
                continue
            division = division_by(shard, tensor)
            for split in splits:
                masked = 0.9 if "masked" in split else 0.0
                alone = model_of(case)
                one = data(case, 0, ROWS, masked)
                (loss_of(alone, one) / one.n_targets).backward()
                model = divided(alone, case, division)
                optimizer = Unlearning(model, OptimizerConfig(), division.copies)
                step_of(model, optimizer, case, split, division, max_grad_norm=0)
                found[f"{case} {shard}x{tensor} {split}"] = error(alone, model)
    return found


def trained(
    model: Transformer, case: str, kind: str, steps: int, division: Division | None
) -> Optimizer:
    """Train by steps of four parts; with `division` None, alone, by the mean loss of all rows."""
    copies = ALONE if division is None else division.copies
    optimizer = Optimizer(model, OptimizerConfig(kind=kind), copies)  # pyright: ignore
    for _ in range(steps):
        if division is None:
            one = data(case, 0, ROWS)
            (loss_of(model, one) / one.n_targets).backward()
            clip_gradients(optimizer.parameters, 1.0)
            optimizer.step(1.0)
        else:
            step_of(model, optimizer, case, "4x4", division)
    return optimizer


def losses(cases: list[str], meshes: list[list[int]]) -> dict[str, Any]:
    """Relative difference of the loss after five steps from the same of one process, in training
    and in evaluation."""
    found = {}
    for case in cases:
        for kind in ("adamw", "muon"):
            alone = model_of(case)
            start = {name: p.detach().clone() for name, p in alone.named_parameters()}
            optimizer = trained(alone, case, kind, 5, None)
            one = data(case, 0, ROWS)
            wanted = float(loss_of(alone, one).detach())
            for shard, tensor in meshes:
                if case == "adapters" and tensor > 1:
                    continue
                division = division_by(shard, tensor)
                model = built(case, division)
                for name, parameter in model.named_parameters():
                    put(parameter, start[name])
                there = trained(model, case, kind, 5, division).state()
                assert there.keys() == optimizer.state().keys()  # what nobody reads is not trained
                here = float(loss_of(model, one).detach())
                with torch.inference_mode():
                    again = float(loss_of(model.eval(), one))
                name = f"{case} {kind} {shard}x{tensor}"
                found[name] = max(abs(here - wanted), abs(again - wanted)) / wanted
    return found


def initial(cases: list[str], meshes: list[list[int]]) -> dict[str, Any]:
    """Whether a model that is divided on "meta" begins with the same bits as one alone."""
    found = {}
    for case in cases:
        alone = Transformer(tiny.config(**CASES[case]), 3, "cpu")
        for shard, tensor in meshes:
            if shard * tensor == 1:
                continue
            mesh = sharding.build_mesh("cpu", distributed.get_world_size(), shard, tensor)
            model = model_of(case, "meta")
            sharding.divide(model, mesh)
            sharding.materialize(model, 3, "cpu")
            pairs = zip(model.parameters(), alone.parameters(), strict=True)
            same = [torch.equal(whole(one), other) for one, other in pairs]
            found[f"{case} {shard}x{tensor}"] = all(same)
    return found


def save(case: str, mesh: list[int], kind: str, run: str) -> dict[str, Any]:
    """Train three steps on a mesh, and save a checkpoint; all tensors whole are beside it."""
    division = division_by(*mesh)
    model = built(case, division)
    optimizer = trained(model, case, kind, 3, division)
    weights, state = dict(model.named_parameters()), optimizer.state()
    together = everyone()
    checkpoints = Checkpoints(Path(run), processes=together)
    checkpoints.save(division.part(weights), division.part(state), State(3, "d"))
    tensors = {name: whole(one).detach().clone() for name, one in (weights | state).items()}
    if together.first:
        save_tensors(tensors, Path(run) / "whole.safetensors")
    distributed.barrier()
    return {"tensors": len(tensors)}


def load(case: str, mesh: list[int], kind: str, runs: list[str]) -> dict[str, Any]:
    """Load the checkpoint of each run on a mesh; whether every tensor comes back in the same bits,
    and the loss of the step after it."""
    division, found = division_by(*mesh), {}
    for run in runs:
        tensors = load_tensors(Path(run) / "whole.safetensors")
        model = division.build(partial(on_device, case), None, CPU)
        optimizer = Optimizer(model, OptimizerConfig(kind=kind), division.copies)  # pyright: ignore
        Checkpoints(Path(run)).check(3)
        fill(Checkpoints(Path(run)), 3, model)
        fill_optimizer(Checkpoints(Path(run)), 3, optimizer.blank)
        everything = dict(model.named_parameters()) | optimizer.state()
        back = {name: whole(one) for name, one in everything.items()}
        same = back.keys() == tensors.keys()
        same = same and all(torch.equal(back[name], tensors[name]) for name in back)
        step_of(model, optimizer, case, "4x4", division)
        found[run] = [same, float(loss_of(model, data(case, 0, ROWS)).detach())]
    return found


class Sent(TorchDispatchMode):
    """Calls and bytes of collectives, by operation."""

    OPERATIONS: ClassVar = {
        "c10d._allgather_base_": ("all-gather", 0),
        "c10d.allgather_": ("all-gather", 0),
        "c10d._reduce_scatter_base_": ("reduce-scatter", 1),
        "c10d.reduce_scatter_": ("reduce-scatter", 1),
        "c10d.allreduce_": ("all-reduce", 0),
        "c10d.broadcast_": ("broadcast", 0),
        "_c10d_functional.all_reduce": ("all-reduce", 0),
        "_c10d_functional.all_gather_into_tensor": ("all-gather", None),
    }

    def __init__(self):
        super().__init__()
        self.found: dict[str, list[int]] = {}

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        if DTensor in types:
            return NotImplemented  # first into operations on the parts
        result = func(*args, **(kwargs or {}))
        name = str(func).rpartition(".")[0]
        if (
            name.startswith(("c10d.", "_c10d_functional."))
            and "wait_" not in name
            and "wrap_" not in name
        ):
            operation, at = self.OPERATIONS[name]
            tensors = tree_leaves(result if at is None else args[at])
            total = self.found.setdefault(operation, [0, 0])
            total[0] += 1
            total[1] += sum(one.numel() * one.element_size() for one in tensors)
        return result


def plain(case: str) -> Batch:
    """Rows of one length, without padding."""
    tokens = tiny.tokens(ROWS // 4, LENGTH)
    source = Batch(tokens) if case == "encoder-decoder" else None
    return Batch(tokens, targets=tokens % 3, source=source)


def backward(model: Transformer, batches: list[Batch], division: Division) -> None:
    """The backward passes of a step."""
    called: Any = division.for_steps(model)
    for at, batch in enumerate(batches, 1):
        with division.backward(last=at == len(batches)):
            loss_of(called, batch).backward()


def counted(cases: list[str], meshes: list[list[int]], kind: str) -> dict[str, Any]:
    """What a step of two micro-batches in each process holds and sends, by the first process."""
    found = {}
    for case in cases:
        for shard, tensor in meshes:
            division = division_by(shard, tensor)
            model = built(case, division)
            batch = plain(case)
            optimizer = Optimizer(model, OptimizerConfig(kind=kind), division.copies)  # pyright: ignore
            with Sent() as sent:
                backward(model, [batch] * 2, division)
                division.add_up(optimizer.parameters)
            gradients = sharding.bytes_here(one.grad for one in optimizer.parameters)
            with sent:
                optimizer.step(1.0)
            held = sharding.bytes_here(model.parameters())
            state = sharding.bytes_here(optimizer.state().values())
            found[f"{case} {shard}x{tensor}"] = [held, gradients, state, sent.found]
    return found


def ordered(shapes: list[list[int]]) -> dict[str, bool]:
    """Whether gradients become their sums in the order of a tree, bit for bit. Each process has
    others, in any layout, some of them none; nobody has the last."""
    together, found = everyone(), {}
    parameters = [torch.nn.Parameter(torch.zeros(shape)) for shape in shapes]

    def gradient(at: int, rank: int) -> torch.Tensor | None:
        nothing = (at + rank) % 3 == 0 or at == len(shapes) - 1
        return None if nothing else drawn(100 * rank + at, *reversed(shapes[at])).mT

    for at, one in enumerate(parameters):
        one.grad = gradient(at, together.rank)
    Division(together, in_order=True).add_up(parameters)
    for at, one in enumerate(parameters):
        every = [gradient(at, rank) for rank in range(together.count)]
        sums = [torch.zeros(shapes[at]) if own is None else own for own in every]
        while len(sums) > 1:
            sums = [a + b for a, b in zip(sums[::2], sums[1::2], strict=True)]
        nobody = all(own is None for own in every)
        found[str(at)] = one.grad is None if nobody else torch.equal(one.grad, sums[0])
    return found


def disturbed(cases: list[str], meshes: list[list[int]]) -> dict[str, tuple[bool, bool]]:
    """Whether all processes of "tensor" end a step with the gradients of the first one, where each
    has a copy of a parameter; those of the others were disturbed before. And whether the first one's gradients stayed as they were."""
    found = {}
    for case in cases:
        for shard, tensor in meshes:
            division = division_by(shard, tensor)
            model = built(case, division)
            batch = data(case, 0, ROWS)
            backward(model, [batch] * 2, division)
            parameters = [*model.parameters()]
            own = [one for one in copies(parameters) if one.grad is not None]
            assert any(one.ndim == 1 for one in own)  # norms
            before = [local(one.grad).clone() for one in own]
            if place := distributed.get_rank() % tensor:
                for one in own:
                    local(one.grad).mul_(1 + 1e-9 * place)
            division.add_up(parameters)
            after = [None if one.grad is None else local(one.grad).tolist() for one in own]
            every = everyone().gather(after)
            same = all(one == every[rank - rank % tensor] for rank, one in enumerate(every))
            kept = after == [one.tolist() if one.any() else None for one in before]
            found[f"{case} {shard}x{tensor}"] = same, kept
    return found


CHECKS: dict[str, Callable[..., dict[str, Any]]] = {
    one.__name__: one
    for one in (gradients, losses, initial, save, load, counted, ordered, disturbed)
}


def main() -> None:
    asked, file = json.loads(sys.argv[1]), Path(sys.argv[2])
    torch.set_default_dtype(torch.float64)
    distributed.init_process_group("gloo")
    found = [CHECKS[check](**arguments) for check, arguments in asked]
    if distributed.get_rank() == 0:
        file.write_text(json.dumps(found), encoding="utf-8")
    distributed.barrier()
    distributed.destroy_process_group()


if __name__ == "__main__":
    main()
