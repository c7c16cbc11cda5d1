"""One float64 forward pass of a model on a batch: every tapped tensor, and the input of each step
of each block."""

from collections.abc import Iterator
from dataclasses import dataclass, fields, is_dataclass, replace
from typing import Any

import torch
from torch import Tensor

from glassformer.batch import Batch
from glassformer.layers.block import Block
from glassformer.layers.tap import Tape, recording
from glassformer.models.transformer import Output, Transformer
from glassformer.verify.cases import array, pair, sample_of
from glassformer.verify.reference_model import ReferenceModel, Sample, Source

Kept = dict[str, Tensor]
"""Tensors by tap point."""


@dataclass(frozen=True)
class Step:
    """One block in one forward pass: its tensors by local point name, and the inputs of its
    sub-layers and norms."""

    side: str
    layer: int
    block: Block
    kept: Kept
    fused_z: Kept
    branches: Kept
    norms: Kept

    @property
    def name(self) -> str:
        """The block's module path."""
        return f"{self.side}.blocks.{self.layer}"


@dataclass(frozen=True)
class Look:
    """A float64 copy of a model run on a batch, beside the reference with the same weights."""

    model: Transformer
    reference: ReferenceModel
    batch: Batch
    kept: Kept
    output: Output
    fused: Output
    steps: tuple[Step, ...]

    @property
    def rows(self) -> range:
        """The numbers of the batch's rows."""
        return range(len(self.batch.elements))

    def given(self, side: str) -> Batch:
        """The part of the batch that goes into that side."""
        source = self.batch.source
        return self.batch if source is None or side == "decoder" else source

    def sample(self, side: str, row: int) -> Sample:
        """Row `row` of that side as the reference reads it, with the stream's positions."""
        return self.reference.positions(sample_of(self.given(side), row))

    def source(self, side: str, row: int) -> Source | None:
        """What row `row` of that side's cross-attention sees; None if there is none."""
        if side == "encoder" or self.model.encoder is None:
            return None
        return Source(array(self.kept["encoder.out"][row]), self.sample("encoder", row))


def look(model: Transformer, batch: Batch) -> Look:
    """Run a float64 copy of `model` twice on `batch`: attention written out with every point kept,
    and fused."""
    # Gradients are needed later, whatever the caller's mode is.
    with torch.inference_mode(False), torch.enable_grad():
        twin, reference = pair(model)
        twin.requires_grad_(True)
        batch = replace(_plain(batch.to("cpu")), at=None)
        tape, light = Tape(twin, keep=("*",)), Tape(twin, keep=("*.z",))
        with recording(tape):
            output = twin(batch, all_positions=True)
        with torch.no_grad(), recording(light):
            fused = twin(batch, all_positions=True)
        steps = tuple(_steps(twin, tape.kept, light.kept))
        return Look(twin, reference, batch, tape.kept, output, fused, steps)


def _plain(value: Any) -> Any:
    """The batch in float64 and in new memory: tensors made in inference mode have no gradients."""
    if isinstance(value, Tensor):
        return value.clone().double() if value.is_floating_point() else value.clone()
    if isinstance(value, tuple):
        return tuple(map(_plain, value))
    if not is_dataclass(value) or isinstance(value, type):
        return value
    return replace(value, **{one.name: _plain(getattr(value, one.name)) for one in fields(value)})


def _steps(model: Transformer, kept: Kept, fused: Kept) -> Iterator[Step]:
    for side, stack in (("encoder", model.encoder), ("decoder", model.decoder)):
        for layer, block in enumerate([] if stack is None else stack.blocks):
            assert isinstance(block, Block)
            prefix = f"{side}.blocks.{layer}."
            own, z = (
                {key.removeprefix(prefix): t for key, t in taps.items() if key.startswith(prefix)}
                for taps in (kept, fused)
            )
            yield Step(side, layer, block, own, z, *_inputs(block, own))


def _inputs(block: Block, kept: Kept) -> tuple[Kept, Kept]:
    """The input of each branch and of each norm of the block, from production's own tensors."""
    start, middle = kept["resid_pre"], kept["resid_mid"]
    joined = block.join(start, kept["attention_out"])
    crossed = block.cross_norm is not None
    if block.pre_norm:
        norms = {"attention": start, "feedforward": middle} | ({"cross": joined} if crossed else {})
        return {name: getattr(block, f"{name}_norm")(x) for name, x in norms.items()}, norms
    branches = {"attention": start, "feedforward": middle}
    norms = {"attention": joined, "feedforward": block.join(middle, kept["feedforward_out"])}
    if crossed:
        branches["cross"] = block.attention_norm(joined)
        norms["cross"] = block.join(branches["cross"], kept["cross_out"])
    return branches, norms
