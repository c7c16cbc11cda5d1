"""One float64 forward pass of a model on a batch: the value of each step by its name, beside a
reference with the same weights."""

import copy
from dataclasses import replace
from functools import partial

import torch
from torch import Tensor

from glassformer.core.batch import Batch
from glassformer.inspect.look import run
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
        with torch.inference_mode(False):  # which a caller may have on, and has no derivatives
            self.model, self.reference = pair(model)
            batch, x = copy.deepcopy(batch.to("cpu")), batch.elements.cpu().clone()
            x = x.double() if x.is_floating_point() else x
            self.batch = replace(batch, elements=x, at=None)
            norms = {path: one for path, one in self.model.named_modules() if path.endswith("norm")}
            found: dict[str, Tensor] = {}
            keep = lambda path, _, inputs, result: found.update(
                {path: result, f"{path}.input": inputs[0]}
            )
            hooks = [one.register_forward_hook(partial(keep, path)) for path, one in norms.items()]
            output, tape = run(self.model, self.batch, ["*"], gradients=True)
            for hook in hooks:
                hook.remove()
            self.fused, light = run(self.model, self.batch, ["*.z"])
        self.values = {**tape.kept, **found, "logits": output.logits}
        self.fused_z = light.kept
        self.sides = [side for side in ("encoder", "decoder") if getattr(self.model, side)]
        for side in self.sides:
            own = self.model.source_embed if side == "encoder" else None
            if (position := (own or self.model.embed).position) is not None:
                vectors = position(self.model.positions(self.batch_of(side)))
                self.values[f"{side}.positions"] = vectors.expand(len(self.batch.elements), -1, -1)

    def batch_of(self, side: str) -> Batch:
        """The part of the batch that goes into that side."""
        source = self.batch.source
        return self.batch if source is None or side == "decoder" else source
