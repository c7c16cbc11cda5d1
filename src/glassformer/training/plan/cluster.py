"""Plan of a run on many machines, made on this one: memory and messages of each process, time of a
step, costs of failures.

The model is divided on "meta" by the functions that training uses, as the first process of a group
that sends nothing. Bytes are counted; times are a model of the stated figures of the hardware, not
a measurement.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from typing import Any

from pydantic import Field
from torch import distributed

from glassformer.core.errors import amount
from glassformer.core.progress import clock, size
from glassformer.core.record import Record
from glassformer.finetune.adapters import adapt
from glassformer.models.cost import hidden_numbers
from glassformer.models.transformer import Transformer
from glassformer.recipe.init_from import with_init_from
from glassformer.recipe.recipe import Recipe
from glassformer.training.loop.optimizer import is_block_matrix
from glassformer.training.loop.step import flops
from glassformer.training.parallel.sharding import AXES, build_mesh, bytes_here, divide
from glassformer.training.plan.collectives import (
    Collective,
    Part,
    collectives,
    gathered_together,
)
from glassformer.training.plan.failures import GPU_HOURS_PER_FAILURE, Losses, losses
from glassformer.training.plan.plan import sizes_without_data


class Hardware(Record):
    """Figures of a cluster, as stated by its makers or measured elsewhere; per GPU where nothing
    else is said."""

    section = "hardware"

    peak: float = Field(default=989e12, gt=0)
    """FLOP/s of matrix products (H100, bf16)."""
    mfu: float = Field(default=0.4, gt=0, le=1)
    """Share of the peak that computing reaches."""
    memory: float = Field(default=80e9, gt=0)
    """Bytes of memory."""
    intra: float = Field(default=450e9, gt=0)
    """Bytes/s to other GPUs of the machine (NVLink 4)."""
    inter: float = Field(default=50e9, gt=0)
    """Bytes/s to other machines (400 Gbit/s for each GPU)."""
    overlap: float = Field(default=0.8, ge=0, le=1)
    """Share of computing during which parameters and gradients can travel."""
    gpu_hours_per_failure: float = Field(default=GPU_HOURS_PER_FAILURE, gt=0)
    """Hours of one GPU between failures."""
    restart: float = Field(default=300.0, ge=0)
    """Seconds of a restart."""
    save: float = Field(default=30.0, gt=0)
    """Seconds of a save that training waits for."""
    stall: float = Field(default=2.0, gt=0)
    """Seconds that an asynchronous save is waited for."""


@dataclass(frozen=True)
class ClusterPlan:
    """Content of `glassformer plan --nodes`; bytes and seconds are those of one process and one
    step."""

    nodes: int
    gpus_per_node: int
    mesh: dict[str, int]
    parameters: int
    sequences: int
    length: int
    micro_batches: int
    memory: dict[str, int]
    collectives: list[Collective]
    checkpoint: dict[str, int]
    seconds: dict[str, float]
    steps: int
    failures: dict[str, Losses]
    hardware: dict[str, float]

    @property
    def step_seconds(self) -> float:
        """Seconds of a whole step."""
        return sum(self.seconds.values())

    def as_json(self) -> dict[str, Any]:
        """Return plain values."""
        return {**asdict(self), "step_seconds": self.step_seconds}

    def as_text(self) -> str:
        """Return lines for people."""
        processes = self.nodes * self.gpus_per_node
        tokens = self.sequences * self.length
        mesh = " x ".join(f"{axis} {size:,}" for axis, size in self.mesh.items())
        memory = ", ".join(f"{name} {size(value)}" for name, value in self.memory.items())
        time = ", ".join(f"{name} {value * 1e3:,.0f} ms" for name, value in self.seconds.items())
        total, room = sum(self.memory.values()), self.hardware["memory"]
        fits = "fits" if total <= room else "which is too much (raise train.distributed.shard)"
        lines = [
            f"processes   {amount(self.nodes, 'machine')} with {self.gpus_per_node} GPUs, "
            f"{processes:,} in all: {mesh}",
            f"model       {self.parameters:,} parameters",
            f"step        {self.sequences:,} sequences of {self.length:,}, {tokens:,} in all; "
            f"{amount(self.micro_batches, 'micro-batch').replace('batchs', 'batches')} a process",
            f"memory      {size(total)} a process, {fits} in {size(room)}: {memory}",
            f"checkpoint  {size(self.checkpoint['whole'])}; a process has "
            f"{size(self.checkpoint['process'])} of it",
            "",
            f"{'collectives of a step':24} {'among':>20} {'calls':>8} {'bytes':>10}",
        ]
        for one in self.collectives:
            among = f"{one.axis} {self.mesh[one.axis]:,}"
            what = f"{one.operation} {one.purpose}"
            lines.append(f"{what:34} {among:>16} {one.calls:>8,} {size(one.bytes):>10}")
        speed = f"{tokens / self.step_seconds:,.0f} elements/s"
        run = clock(self.step_seconds * self.steps)
        lines += [
            "",
            f"time        {self.step_seconds * 1e3:,.0f} ms a step ({speed}): {time}",
            f"            {run} for {self.steps:,} steps, without evaluations and failures",
        ]
        for how, one in self.failures.items():
            mtbf = f"{one.mean_time_between_failures / 3600:,.1f} h between failures"
            lines.append(
                f"failures    {mtbf}; {how} save: best every {one.interval:,.0f} s, which loses "
                f"{one.lost:.1%} of the time"
            )
        stated = ", ".join(f"{name}={value:g}" for name, value in self.hardware.items())
        return "\n".join([*lines, f"hardware    stated, not measured: {stated}"])


def plan_cluster(
    recipe: Recipe, nodes: int, gpus_per_node: int = 8, hardware: Hardware | None = None
) -> ClusterPlan:
    """Plan a recipe on `nodes` machines, divided by its `train.distributed`, without data.

    ConfigError: numbers that do not divide each other, or fewer sequences than readers.
    """
    hardware, processes = hardware or Hardware(), nodes * gpus_per_node
    recipe, length, sequences = sizes_without_data(with_init_from(recipe.for_processes(processes)))
    train = recipe.train
    muon = train.optimizer.kind == "muon"
    model = Transformer(recipe.model, None, "meta")
    parameters = model.n_parameters
    adapt(model, train.finetune, train.seed)
    whole = _memory_of_training(model, muon)
    with one_of(processes):
        mesh = build_mesh("cpu", processes, train.distributed.shard, train.distributed.tensor)
        divide(model, mesh)
        parts, part = _parts(recipe, length, sequences, mesh.size(0) * mesh.size(1))
        sizes = {axis: mesh[axis].size() for axis in AXES}
        sent = collectives(model, sizes, part, parts)
        memory = _memory_of_training(model, muon)
        memory |= _memory_of_a_step(model, recipe, part, sizes)
    computing = flops(recipe, length) * sequences * length / processes
    seconds = _seconds(sent, sizes, gpus_per_node, hardware, computing)
    mtbf = 3600 * hardware.gpu_hours_per_failure / processes
    stalls = {"blocking": hardware.save, "asynchronous": hardware.stall}
    saved = lambda memory: memory["parameters"] + memory["optimizer"]
    return ClusterPlan(
        *(nodes, gpus_per_node, sizes, parameters, sequences, length, parts, memory, sent),
        {"process": saved(memory), "whole": saved(whole)},
        seconds,
        train.steps,
        {how: losses(stall, mtbf, hardware.restart) for how, stall in stalls.items()},
        hardware.model_dump(),
    )


@contextmanager
def one_of(processes: int) -> Iterator[None]:
    """Make this process the first of a group of which no other exists: nothing is sent."""
    from torch.testing._internal.distributed.fake_pg import FakeStore

    distributed.init_process_group("fake", store=FakeStore(), rank=0, world_size=processes)
    try:
        yield
    finally:
        distributed.destroy_process_group()


def _parts(recipe: Recipe, length: int, sequences: int, readers: int) -> tuple[int, Part]:
    """Return the number of micro-batches of each process and one of them, for these readers of
    different rows."""
    config, parts = recipe.model, recipe.train.micro_batches // readers
    rows = -(-sequences // (parts * readers))
    number = 4 if recipe.train.precision == "float32" else 2
    share = 1 / length if config.one_output else recipe.predicted_fraction
    queries = max(rows, round(rows * (length + config.n_prefix) * share))
    part = Part(rows, length + config.n_prefix, length, queries, number)
    return parts, part


def _memory_of_training(model: Transformer, muon: bool) -> dict[str, int]:
    """Return bytes of parameters, gradients and optimizer that this process holds: for each number
    of a block's matrix, Muon has one more; AdamW two, and the number of its steps."""
    optimizer = gradients = 0
    for name, one in model.named_parameters():
        if one.requires_grad:
            held = bytes_here([one])
            gradients += held
            optimizer += held if muon and is_block_matrix(name, one) else 2 * held + 4
    return {
        "parameters": bytes_here(model.parameters()),
        "gradients": gradients,
        "optimizer": optimizer,
    }


def _memory_of_a_step(
    model: Transformer, recipe: Recipe, part: Part, mesh: dict[str, int]
) -> dict[str, int]:
    """Estimate bytes of gathered parameters, activations and logits (see
    `models.cost.training_bytes`).

    Activations of an element in a block: 8 D numbers of the stream in float32; 3 F (5 F gated) and
    5 H d_head of `part.number` bytes, of which a process has a part.
    """
    config = model.config
    *blocks, rest = (bytes_here(group) * mesh["shard"] for group in gathered_together(model))
    gathered = 2 * rest + 3 * max(blocks)  # two blocks and the gradient of one
    hidden = part.number * hidden_numbers(config) // mesh["tensor"]
    element = len(blocks) * (4 * 8 * config.d_model + hidden)
    words = config.vocab_size if config.predicts_words else 0
    return {
        "gathered": gathered if mesh["shard"] > 1 else 0,
        "activations": part.rows * part.length * element,
        "logits": 3 * 4 * part.queries * words,
    }


def _seconds(
    sent: list[Collective], mesh: dict[str, int], gpus: int, hardware: Hardware, operations: float
) -> dict[str, float]:
    """Return the seconds of computing and of messages that it waits for: all activations, and the
    parameters and gradients that do not travel meanwhile."""
    computing = operations / (hardware.peak * hardware.mfu)
    stride = {"tensor": 1, "shard": mesh["tensor"], "replicate": mesh["tensor"] * mesh["shard"]}
    activations, others = 0.0, -hardware.overlap * computing
    for one in sent:
        n, together = mesh[one.axis], gpus // stride[one.axis]  # of a group, on one machine
        between = min(hardware.intra, hardware.inter * max(1, together))
        seconds = one.passing(n) / (hardware.intra if n <= together else between)
        if one.axis == "tensor":
            activations += seconds
        else:
            others += seconds
    return {
        "computing": computing,
        "sending activations": activations,
        "sending the rest": max(0.0, others),
    }
