"""One float64 forward pass of a model on a batch: the value of each step by its name, beside a
reference with the same weights."""

import copy
from dataclasses import fields, is_dataclass, replace
from functools import partial
from typing import Any

import torch
from torch import Tensor

from glassformer.batch import Batch
from glassformer.layers.tap import Tape, recording
from glassformer.models.transformer import Transformer
from glassformer.verify.reference import Array
from glassformer.verify.reference_model import Patches, ReferenceModel, Sample


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


class Production:
    """A float64 copy of a model, run twice on a batch: with attention written out, and fused.

    `values`: all points of the first pass, norms and positions, by the names of the reference's
    steps.
    """

    def __init__(self, model: Transformer, batch: Batch):
        # The derivatives need gradients, also under a caller's inference mode.
        with torch.inference_mode(False), torch.enable_grad():
            self.model, self.reference = pair(model)
            self.model.requires_grad_(True)
            self.batch = replace(_plain(batch.to("cpu")), at=None)
            tape, light = Tape(self.model, keep=("*",)), Tape(self.model, keep=("*.z",))
            self.values, self.fused_z = tape.kept, light.kept
            norms = {path: one for path, one in self.model.named_modules() if path.endswith("norm")}
            keep = lambda path, _, given, result: self.values.update(
                {path: result, f"{path}.input": given[0]}
            )
            hooks = [one.register_forward_hook(partial(keep, path)) for path, one in norms.items()]
            with recording(tape):
                self.values["logits"] = self.model(self.batch, all_positions=True).logits
            for hook in hooks:
                hook.remove()
            with torch.no_grad(), recording(light):
                self.fused = self.model(self.batch, all_positions=True)
        stacks = {"encoder": self.model.encoder, "decoder": self.model.decoder}
        self.sides = [side for side, stack in stacks.items() if stack]
        for side in self.sides:
            own = self.model.source_embed if side == "encoder" else None
            if (position := (own or self.model.embed).position) is not None:
                vectors = position(self.model.positions(self.given(side)))
                self.values[f"{side}.positions"] = vectors.expand(len(self.batch.elements), -1, -1)

    def given(self, side: str) -> Batch:
        """The part of the batch that goes into that side."""
        source = self.batch.source
        return self.batch if source is None or side == "decoder" else source


def _plain(value: Any) -> Any:
    """The batch in float64 and in new memory: tensors made in inference mode have no gradients."""
    if isinstance(value, Tensor):
        return value.clone().double() if value.is_floating_point() else value.clone()
    if isinstance(value, tuple):
        return tuple(map(_plain, value))
    if not is_dataclass(value) or isinstance(value, type):
        return value
    return replace(value, **{one.name: _plain(getattr(value, one.name)) for one in fields(value)})
