"""The plan of a run on many machines, made on this one: what each process holds, what they send
each other, how long a step takes, what failures cost.

The model is divided on "meta" by the functions that training uses, as the first of as many
processes as there shall be, in a group that sends nothing. Bytes are counted; times are a model of
the stated figures of the hardware, not a measurement.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from typing import Any

from pydantic import Field
from torch import distributed

from glassformer.errors import ConfigError, counted
from glassformer.finetune.adapters import adapt
from glassformer.models.config import ModelConfig
from glassformer.models.transformer import Transformer
from glassformer.recipe.recipe import Recipe
from glassformer.record import Record
from glassformer.training.cluster.collectives import (
    Collective,
    Part,
    collectives,
    gathered_together,
    orthogonalizing_flops,
    ring_seconds,
)
from glassformer.training.cluster.failures import (
    GPU_HOURS_PER_FAILURE,
    Losses,
    Saving,
    losses,
    mean_time_between_failures,
)
from glassformer.training.init_from import with_init_from
from glassformer.training.optimizer import is_block_matrix
from glassformer.training.progress import clock
from glassformer.training.sharding import build_mesh, bytes_here, divide
from glassformer.training.step import flops

SHARED = ("shard", "tensor", "replicate")
"""Axes of the mesh: processes along the first of more than one share Muon's work."""


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
    intra_latency: float = Field(default=2e-6, ge=0)
    """Seconds of a turn of a ring within a machine."""
    inter_latency: float = Field(default=8e-6, ge=0)
    """Seconds of a turn of a ring between machines."""
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
    """What `glassformer plan --nodes` prints; bytes and seconds are those of one process and one
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
        """Of a whole step."""
        return sum(self.seconds.values())

    def as_json(self) -> dict[str, Any]:
        """Plain values."""
        return {**asdict(self), "step_seconds": self.step_seconds}

    def as_text(self) -> str:
        """The same for people."""
        processes = self.nodes * self.gpus_per_node
        tokens = self.sequences * self.length
        mesh = " x ".join(f"{axis} {size:,}" for axis, size in self.mesh.items())
        memory = ", ".join(f"{name} {size(value)}" for name, value in self.memory.items())
        time = ", ".join(f"{name} {value * 1e3:,.0f} ms" for name, value in self.seconds.items())
        total, room = sum(self.memory.values()), self.hardware["memory"]
        fits = "fits" if total <= room else "which is too much (raise train.distributed.shard)"
        lines = [
            f"processes   {counted(self.nodes, 'machine')} with {self.gpus_per_node} GPUs, "
            f"{processes:,} in all: {mesh}",
            f"model       {self.parameters:,} parameters",
            f"step        {self.sequences:,} sequences of {self.length:,}, {tokens:,} in all; "
            f"{counted(self.micro_batches, 'micro-batch').replace('batchs', 'batches')} a process",
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
                f"{one.lost:.1%} of the time ({one.simulated:.1%} simulated)"
            )
        stated = ", ".join(f"{name}={value:g}" for name, value in self.hardware.items())
        return "\n".join([*lines, f"hardware    stated, not measured: {stated}"])


def size(n: float) -> str:
    """Bytes for people."""
    for unit in ("B", "KB", "MB", "GB", "TB"):
        if n < 1000 or unit == "TB":
            break
        n /= 1000
    return f"{n:,.0f} {unit}" if unit in ("B", "KB") else f"{n:,.1f} {unit}"


def plan_cluster(
    recipe: Recipe, nodes: int, gpus_per_node: int = 8, hardware: Hardware | None = None
) -> ClusterPlan:
    """The plan of a recipe on `nodes` machines, divided by its `train.distributed`, without data.

    ConfigError: numbers that do not divide each other, or fewer sequences than readers.
    """
    hardware, recipe = hardware or Hardware(), with_init_from(recipe)
    if recipe.model.predicts_words and not recipe.model.vocab_size:
        recipe = recipe.with_vocabulary(recipe.processor.tokenizer.vocab_size or 8192)
    train, config, processes = recipe.train, recipe.model, nodes * gpus_per_node
    model = Transformer(config, None, "meta")
    whole = model.n_parameters
    adapt(model, train.finetune, train.seed)
    with one_of(processes):
        mesh = build_mesh("cpu", processes, train.distributed.shard, train.distributed.tensor)
        divide(model, mesh)
        sequences, parts, part = _parts(recipe, mesh.size(0) * mesh.size(1))
        muon = train.optimizer.kind == "muon"
        sent = collectives(model, mesh, part, parts, muon)
        sizes = {axis: mesh[axis].size() for axis in ("replicate", "shard", "tensor")}
        memory = _memory(model, recipe, part, sizes)
        matrices = [
            tuple(one.shape)
            for name, one in model.named_parameters()
            if muon and one.requires_grad and is_block_matrix(name, one)
        ]
    length = train.length or config.max_length
    computing = flops(recipe, length) * sequences * length / processes
    seconds = _seconds(sent, sizes, gpus_per_node, hardware, computing)
    if matrices:
        reached = hardware.peak * hardware.mfu
        share = next((sizes[axis] for axis in SHARED if sizes[axis] > 1), 1)
        seconds["orthogonalizing"] = orthogonalizing_flops(matrices, share) / reached
    mtbf = mean_time_between_failures(processes, hardware.gpu_hours_per_failure)
    savings = {"blocking": Saving(hardware.save), "asynchronous": Saving(hardware.stall)}
    saved = memory["parameters"] + memory["optimizer"]
    return ClusterPlan(
        *(nodes, gpus_per_node, sizes, whole, sequences, length, parts, memory, sent),
        {"process": saved, "whole": _whole_checkpoint(model, muon)},
        seconds,
        train.steps,
        {how: losses(saving, mtbf, hardware.restart) for how, saving in savings.items()},
        hardware.model_dump(),
    )


@contextmanager
def one_of(processes: int) -> Iterator[None]:
    """This process as the first of so many, none of which exists: nothing is sent."""
    from torch.testing._internal.distributed.fake_pg import FakeStore

    distributed.init_process_group("fake", store=FakeStore(), rank=0, world_size=processes)
    try:
        yield
    finally:
        distributed.destroy_process_group()


def _parts(recipe: Recipe, readers: int) -> tuple[int, int, Part]:
    """Sequences in a step, micro-batches in each process, and one of them, for so many readers of
    different rows."""
    train, config = recipe.train, recipe.model
    length, tokens = train.length or config.max_length, train.batch_tokens
    sequences = train.batch_size if tokens is None else max(1, tokens // length)
    parts = -(-train.micro_batches // readers)
    if sequences < parts * readers:
        raise ConfigError(
            f"A step of {counted(sequences, 'sequence')} has fewer than the {parts * readers:,} "
            f"micro-batches of {counted(readers, 'reader')}; set train.batch_size or "
            "train.batch_tokens higher, or use fewer processes."
        )
    rows = -(-sequences // (parts * readers))
    number = 4 if train.precision == "float32" else 2
    share = 1 / length if config.one_output else recipe.predicted_fraction
    queries = max(rows, round(rows * (length + config.n_prefix) * share))
    part = Part(rows, length + config.n_prefix, length, queries, number)
    return sequences, parts, part


def _memory(model: Transformer, recipe: Recipe, part: Part, mesh: dict[str, int]) -> dict[str, int]:
    """Bytes of one process: the first three are exact; what is gathered for a while, activations
    and logits are estimates (see `models.cost.training_bytes`)."""
    trained = {name: one for name, one in model.named_parameters() if one.requires_grad}
    held = bytes_here(model.parameters())
    gathered = 0
    if mesh["shard"] > 1:
        *blocks, rest = (bytes_here(group) * mesh["shard"] for group in gathered_together(model))
        gathered = 2 * rest + 3 * max(blocks)  # two blocks and the gradient of one
    elements = part.rows * part.length
    words = model.config.vocab_size if model.config.predicts_words else 0
    return {
        "parameters": held,
        "gradients": bytes_here(trained.values()),
        "optimizer": optimizer_bytes(model, recipe.train.optimizer.kind == "muon"),
        "gathered": gathered,
        "activations": elements * activation_bytes(model.config, part.number, mesh["tensor"]),
        "logits": 3 * 4 * part.queries * words,
    }


def activation_bytes(config: ModelConfig, number: int, tensor: int) -> int:
    """Of one element, in all blocks: 8 D numbers of the stream in float32; 3 F (5 F gated) and
    5 H d_head of `number` bytes, of which a process has a part."""
    hidden = (5 if config.gated else 3) * config.ff_width
    hidden += 5 * config.n_heads * config.head_width
    both = config.architecture == "encoder_decoder"
    blocks = config.n_layers + (config.depth("encoder") if both else 0)
    return blocks * (4 * 8 * config.d_model + number * hidden // tensor)


def optimizer_bytes(model: Transformer, muon: bool, whole: bool = False) -> int:
    """Of the state of one process, or of all: Muon has one number for each of a matrix of a block,
    AdamW two for each other, and the number of its steps."""
    total = 0
    for name, one in model.named_parameters():
        if one.requires_grad:
            numbers = one.numel() * one.element_size() if whole else bytes_here([one])
            total += numbers if muon and is_block_matrix(name, one) else 2 * numbers + 4
    return total


def _whole_checkpoint(model: Transformer, muon: bool) -> int:
    """Bytes of what is trained and of the optimizer's state."""
    trained = [one for one in model.parameters() if one.requires_grad]
    weights = sum(one.numel() * one.element_size() for one in trained)
    return weights + optimizer_bytes(model, muon, whole=True)


def _seconds(
    sent: list[Collective], mesh: dict[str, int], gpus: int, hardware: Hardware, operations: float
) -> dict[str, float]:
    """Computing, and what it waits for: all activations, and of parameters and gradients what does
    not fit behind it."""
    computing = operations / (hardware.peak * hardware.mfu)
    stride = {"tensor": 1, "shard": mesh["tensor"], "replicate": mesh["tensor"] * mesh["shard"]}
    waiting = {"activations": 0.0, "others": 0.0}
    for one in sent:
        n = mesh[one.axis]
        near = n * stride[one.axis] <= gpus
        together = max(1, min(n, gpus // stride[one.axis]))  # of a group, on one machine
        bandwidth = hardware.intra if near else min(hardware.intra, hardware.inter * together)
        latency = hardware.intra_latency if near else hardware.inter_latency
        kind = "activations" if one.axis == "tensor" else "others"
        waiting[kind] += ring_seconds(one.operation, one.calls, one.bytes, n, bandwidth, latency)
    return {
        "computing": computing,
        "sending activations": waiting["activations"],
        "sending the rest": max(0.0, waiting["others"] - hardware.overlap * computing),
    }
