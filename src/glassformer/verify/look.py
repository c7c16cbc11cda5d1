"""One float64 forward pass of a model on a batch: every tapped tensor, and the input and output of
each module, beside a reference with the same weights."""

import copy
from dataclasses import fields, is_dataclass, replace
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

from glassformer.batch import Batch
from glassformer.layers.tap import Tape, recording
from glassformer.models.transformer import Transformer
from glassformer.verify.reference import Array
from glassformer.verify.reference_model import Patches, ReferenceModel, Sample, Source


def array(tensor: Tensor) -> Array:
    """Float64 array of a tensor."""
    return tensor.detach().cpu().double().numpy()


def pair(model: Transformer) -> tuple[Transformer, ReferenceModel]:
    """A float64 copy of the model for evaluation on the CPU, and a reference with its weights."""
    twin = copy.deepcopy(model).cpu().double().eval()
    weights = {name: array(value) for name, value in twin.state_dict().items()}
    return twin, ReferenceModel(weights, model.config)


def sample_of(batch: Batch, row: int) -> Sample:
    """Row `row` of a batch as the reference reads it."""
    elements, p = batch.elements, batch.where()
    rows, length = elements.shape[:2]

    def for_elements(values: Tensor | None, default: int = 0) -> Array:
        values = torch.tensor([[default]]) if values is None else values
        return values.expand(rows, length)[row].numpy()

    parts = []
    for part in batch.parts:
        here = part.at // length == row
        at, values, index = (t[here].numpy() for t in (part.at % length, part.values, part.index))
        parts.append(Patches(part.name, at, values, index))
    of_elements = (
        for_elements(p.position),
        for_elements(p.document),
        for_elements(p.valid, 1).astype(bool),
    )
    kinds = for_elements(batch.token_type_ids)
    return Sample(elements[row].numpy(), *of_elements, kinds, tuple(parts))


def reference_logits(model: ReferenceModel, batch: Batch) -> list[Array]:
    """The reference's logits for each row."""
    sources = batch.source
    return [
        model.logits(sample_of(batch, row), sources and sample_of(sources, row))
        for row in range(len(batch.elements))
    ]


class Look:
    """A float64 copy of a model, run twice on a batch: with attention written out, all points kept
    and the first argument and result of each module, and fused."""

    def __init__(self, model: Transformer, batch: Batch):
        self.calls: dict[str, tuple[Tensor, Tensor]] = {}
        # The derivatives need gradients, also under a caller's inference mode.
        with torch.inference_mode(False), torch.enable_grad():
            self.model, self.reference = pair(model)
            self.model.requires_grad_(True)
            self.batch = replace(_plain(batch.to("cpu")), at=None)
            for path, module in self.model.named_modules():
                module.register_forward_hook(partial(self._record, path))
            tape, light = Tape(self.model, keep=("*",)), Tape(self.model, keep=("*.z",))
            with recording(tape):
                self.logits = self.model(self.batch, all_positions=True).logits
            with torch.no_grad(), recording(light):
                self.fused = self.model(self.batch, all_positions=True)
        self.kept, self.fused_z = tape.kept, light.kept
        stacks = {"encoder": self.model.encoder, "decoder": self.model.decoder}
        self.sides = [side for side, stack in stacks.items() if stack]
        self.blocks = [
            f"{side}.blocks.{layer}"
            for side in self.sides
            for layer in range(model.config.depth(side))
        ]
        self.rows = range(len(self.batch.elements))

    def _record(self, path: str, module: nn.Module, given: tuple[Any, ...], result: Any) -> None:
        """Keep the first call of each module that takes a tensor (the model takes the batch)."""
        if isinstance(given[0], Tensor):
            self.calls.setdefault(path, (given[0], result))

    def given(self, side: str) -> Batch:
        """The part of the batch that goes into that side."""
        source = self.batch.source
        return self.batch if source is None or side == "decoder" else source

    def sample(self, name: str, row: int) -> Sample:
        """Row `row` of the side in which that module is, with the stream's positions."""
        return self.reference.positions(sample_of(self.given(name.split(".")[0]), row))

    def source(self, name: str, row: int) -> Source | None:
        """Source of row `row` of the cross-attention of that module's side; None: it has none."""
        if name.startswith("encoder") or self.model.encoder is None:
            return None
        return array(self.kept["encoder.out"][row]), self.sample("encoder", row)


def _plain(value: Any) -> Any:
    """The batch in float64 and in new memory: tensors made in inference mode have no gradients."""
    if isinstance(value, Tensor):
        return value.clone().double() if value.is_floating_point() else value.clone()
    if isinstance(value, tuple):
        return tuple(map(_plain, value))
    if not is_dataclass(value) or isinstance(value, type):
        return value
    return replace(value, **{one.name: _plain(getattr(value, one.name)) for one in fields(value)})
