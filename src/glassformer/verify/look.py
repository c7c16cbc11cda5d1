"""One float64 look at a model on a batch: every tapped tensor, and what each step of each block was
given."""

from collections.abc import Iterator
from dataclasses import dataclass

import torch
from torch import Tensor

from glassformer.batch import Batch, Part, Positions
from glassformer.layers.block import Block, PreNormBlock
from glassformer.layers.stack import Stack
from glassformer.layers.tap import Tape, recording
from glassformer.models.transformer import Output, Transformer, after_class_token
from glassformer.verify.cases import array, pair, sample_of
from glassformer.verify.reference_model import ReferenceModel, Sample, Source


@dataclass(frozen=True)
class Step:
    """One block in one look: its tensors by local point name, and what its sub-layers and norms
    were given."""

    side: str
    layer: int
    block: Block
    kept: dict[str, Tensor]
    fused_z: dict[str, Tensor]
    branches: dict[str, Tensor]
    norms: dict[str, Tensor]

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
    kept: dict[str, Tensor]
    output: Output
    fused: Output
    steps: tuple[Step, ...]

    def stack(self, side: str) -> Stack:
        """The production stack of that side."""
        stack = self.model.encoder if side == "encoder" else self.model.decoder
        assert stack is not None
        return stack

    def given(self, side: str) -> Batch:
        """The part of the batch that goes into that side."""
        crossed = self.model.config.architecture == "encoder_decoder" and side == "encoder"
        batch = self.batch.source if crossed else self.batch
        assert batch is not None
        return batch

    def positions(self, side: str) -> Positions:
        """Where the stream's elements stand in that side."""
        positions, token = (
            self.given(side).where(),
            "embed.element.class_token" in self.reference.weights,
        )
        return after_class_token(positions) if token else positions

    def sample(self, side: str, row: int) -> Sample:
        """Row `row` of that side as the reference reads it, with the stream's positions."""
        return self.reference.positions(sample_of(self.given(side), row))

    def source(self, side: str, row: int) -> Source | None:
        """What row `row` of that side's cross-attention sees; None if there is none."""
        if side == "encoder" or self.model.encoder is None:
            return None
        return Source(array(self.kept["encoder.out"][row]), self.sample("encoder", row))

    def rows(self) -> range:
        """The numbers of the batch's rows."""
        return range(len(self.batch.elements))


def look(model: Transformer, batch: Batch) -> Look:
    """Run a float64 copy of `model` twice on `batch`: attention written out with every point kept,
    and fused."""
    # Gradients are wanted later, whatever mode the caller is in and whatever it has frozen.
    with torch.inference_mode(False), torch.enable_grad():
        twin, reference = pair(model)
        twin.requires_grad_(True)
        batch = _plain(batch.to("cpu"))
        tape = Tape(twin, keep=("*",))
        with recording(tape):
            output = twin(batch, all_positions=True)
        light = Tape(twin, keep=("*.z",))
        with torch.no_grad(), recording(light):
            fused = twin(batch, all_positions=True)
        steps = tuple(_steps(twin, tape.kept, light.kept))
        return Look(twin, reference, batch, tape.kept, output, fused, steps)


def _plain(batch: Batch) -> Batch:
    """The batch in float64 and in new memory: tensors made in inference mode can have no
    gradients."""
    new = lambda t: None if t is None else t.clone()  # noqa: E731
    p = batch.positions
    return Batch(
        batch.elements.double() if batch.elements.is_floating_point() else batch.elements.clone(),
        None
        if p is None
        else Positions(p.position.clone(), new(p.document), new(p.valid), p.start),
        new(batch.targets),
        new(batch.token_type_ids),
        None if batch.source is None else _plain(batch.source),
        parts=tuple(
            Part(p.name, p.at.clone(), p.values.double(), p.index.clone()) for p in batch.parts
        ),
    )


def _steps(model: Transformer, kept: dict[str, Tensor], fused: dict[str, Tensor]) -> Iterator[Step]:
    for side, stack in (("encoder", model.encoder), ("decoder", model.decoder)):
        for layer, block in enumerate([] if stack is None else stack.blocks):
            assert isinstance(block, Block)
            prefix = f"{side}.blocks.{layer}."
            own = {
                point.removeprefix(prefix): t
                for point, t in kept.items()
                if point.startswith(prefix)
            }
            z = {
                point.removeprefix(prefix): t
                for point, t in fused.items()
                if point.startswith(prefix)
            }
            branches, norms = _inputs(block, own)
            yield Step(side, layer, block, own, z, branches, norms)


def _inputs(block: Block, kept: dict[str, Tensor]) -> tuple[dict[str, Tensor], dict[str, Tensor]]:
    """What each branch and each norm of the block was given, from production's own tensors."""
    start, own, middle = kept["resid_pre"], kept["attention_out"], kept["resid_mid"]
    joined = start + own
    if isinstance(block, PreNormBlock):
        norms = {"attention_norm": start, "cross_norm": joined, "feedforward_norm": middle}
        norms = (
            norms
            if block.cross_norm is not None
            else {k: v for k, v in norms.items() if k != "cross_norm"}
        )
        branches = {
            name.removesuffix("_norm"): getattr(block, name)(x) for name, x in norms.items()
        }
        return branches, norms
    norms = {"attention_norm": joined, "feedforward_norm": middle + kept["feedforward_out"]}
    branches = {"attention": start, "feedforward": middle}
    if block.cross_norm is not None:
        branches["cross"] = block.attention_norm(joined)
        norms["cross_norm"] = branches["cross"] + kept["cross_out"]
    return branches, norms
