"""One float64 forward pass of a model on a batch: every tapped tensor, and the input and output of
each module."""

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, fields, is_dataclass, replace
from typing import Any

import torch
from torch import Tensor, nn

from glassformer.batch import Batch
from glassformer.layers.tap import Tape, recording
from glassformer.models.transformer import Output, Transformer
from glassformer.verify.cases import array, pair, sample_of
from glassformer.verify.reference_model import ReferenceModel, Sample, Source

Kept = dict[str, Tensor]
"""Tensors by tap point, or by module path."""


@dataclass(frozen=True)
class Look:
    """A float64 copy of a model run on a batch, beside the reference with the same weights."""

    model: Transformer
    reference: ReferenceModel
    batch: Batch
    kept: Kept
    fused_z: Kept
    inputs: Kept
    """First argument of each module that takes a tensor."""
    outputs: Kept
    output: Output
    fused: Output

    @property
    def blocks(self) -> list[tuple[str, int]]:
        """Side and layer of each block."""
        sides = {"encoder": self.model.encoder, "decoder": self.model.decoder}
        return [
            (side, layer)
            for side, stack in sides.items()
            if stack
            for layer in range(self.model.config.depth(side))
        ]

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
        """Source of row `row` of that side's cross-attention; None: it has none."""
        if side == "encoder" or self.model.encoder is None:
            return None
        return Source(array(self.kept["encoder.out"][row]), self.sample("encoder", row))


def look(model: Transformer, batch: Batch) -> Look:
    """Run a float64 copy of `model` twice on `batch`: attention written out with every point kept,
    and fused."""
    # Later rows need gradients, also under a caller's inference mode.
    with torch.inference_mode(False), torch.enable_grad():
        twin, reference = pair(model)
        twin.requires_grad_(True)
        batch = replace(_plain(batch.to("cpu")), at=None)
        tape, light = Tape(twin, keep=("*",)), Tape(twin, keep=("*.z",))
        with recording(tape), _calls(twin) as (inputs, outputs):
            output = twin(batch, all_positions=True)
        with torch.no_grad(), recording(light):
            fused = twin(batch, all_positions=True)
    kept = tape.kept, light.kept, inputs, outputs
    return Look(twin, reference, batch, *kept, output, fused)


@contextmanager
def _calls(model: nn.Module) -> Iterator[tuple[Kept, Kept]]:
    """Record the first argument and the result of each module by its path."""
    paths = {module: path for path, module in model.named_modules()}
    inputs: Kept = {}
    outputs: Kept = {}

    def record(module: nn.Module, given: tuple[Any, ...], result: Any) -> None:
        if isinstance(given[0], Tensor):  # not the batch
            inputs[paths[module]], outputs[paths[module]] = given[0], result

    with ExitStack() as hooks:
        for module in paths:
            hooks.callback(module.register_forward_hook(record).remove)
        yield inputs, outputs


def _plain(value: Any) -> Any:
    """The batch in float64 and in new memory: tensors made in inference mode have no gradients."""
    if isinstance(value, Tensor):
        return value.clone().double() if value.is_floating_point() else value.clone()
    if isinstance(value, tuple):
        return tuple(map(_plain, value))
    if not is_dataclass(value) or isinstance(value, type):
        return value
    return replace(value, **{one.name: _plain(getattr(value, one.name)) for one in fields(value)})
