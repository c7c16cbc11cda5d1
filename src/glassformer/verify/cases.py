"""Small fixed cases: numbers drawn from a name, bricks and whole models in float64 with such
numbers as weights."""

import copy
import zlib
from typing import Any, TypeVar

import torch
from torch import Tensor, nn

from glassformer.batch import Batch, Part, Positions
from glassformer.models.config import ModelConfig
from glassformer.models.transformer import Transformer
from glassformer.verify.reference import Array
from glassformer.verify.reference_model import Patches, ReferenceModel, Sample

Brick = TypeVar("Brick", bound=nn.Module)
IDS = [3, 1, 4, 1, 5, 9, 2, 6]
"""Token ids of the small cases, one of them twice."""
SOURCE_IDS = [2, 7, 1, 8, 2]
"""Source ids of the small encoder-decoder cases."""


def draw(name: str, *shape: int, spread: float = 1.0) -> Tensor:
    """Normal float64 numbers that depend on nothing but the name and the shape."""
    generator = torch.Generator().manual_seed(zlib.crc32(name.encode()))
    return torch.randn(*shape, generator=generator, dtype=torch.float64) * spread


def filled(brick: Brick, spread: float = 0.4) -> Brick:
    """The brick in float64, evaluating, every parameter drawn by its name; norms' weights stand
    around 1."""
    brick = brick.double().eval()
    with torch.no_grad():
        for name, parameter in brick.named_parameters():
            around = (
                1.0 if "norm.weight" in name or (name == "weight" and parameter.dim() == 1) else 0.0
            )
            parameter.copy_(around + draw(name, *parameter.shape, spread=spread))
    return brick


def array(tensor: Tensor | None) -> Array:
    """The float64 array of a tensor."""
    assert tensor is not None
    return tensor.detach().cpu().double().numpy()


def arrays(model: nn.Module) -> dict[str, Array]:
    """Every parameter as a float64 array, by its name."""
    return {name: array(value) for name, value in model.state_dict().items()}


def pair(model: Transformer) -> tuple[Transformer, ReferenceModel]:
    """A float64 copy of the model, evaluating, on the CPU, and the reference with the same
    weights."""
    twin = copy.deepcopy(model).cpu().double().eval()
    return twin, ReferenceModel(arrays(twin), model.config.model_dump())


def tiny(**choices: Any) -> tuple[Transformer, ReferenceModel]:
    """A model of two blocks, 16 wide, under the given choices, and its reference."""
    values = {
        "vocab_size": 11,
        "max_length": 12,
        "d_model": 16,
        "n_layers": 2,
        "n_heads": 2,
        "d_ff": 24,
    }
    return pair(filled(Transformer(ModelConfig.parse(values | choices)), spread=0.3))


def batch_of(ids: list[int], source: list[int] | None = None) -> Batch:
    """One row of ids, with a row of source ids if given."""
    return Batch(
        torch.tensor([ids]), source=None if source is None else Batch(torch.tensor([source]))
    )


def sample_of(batch: Batch, index: int) -> Sample:
    """Row `index` of a batch as the reference reads it."""
    positions: Positions = batch.where()
    at = index if len(positions.position) > 1 else 0

    def listed(values: Tensor | None) -> list[Any] | None:
        return None if values is None else values[index if len(values) > 1 else 0].tolist()

    elements = batch.elements[index].detach().cpu()
    return Sample(
        elements.double().numpy() if elements.is_floating_point() else elements.numpy(),
        positions.position[at].tolist(),
        listed(positions.document),
        listed(positions.valid),
        None if batch.token_type_ids is None else batch.token_type_ids[index].cpu().numpy(),
        tuple(_patches_of(part, index, batch.elements.shape[1]) for part in batch.parts),
    )


def _patches_of(part: Part, index: int, length: int) -> Patches:
    """What of a part stands in row `index`."""
    here = part.at // length == index
    return Patches(
        part.name,
        (part.at[here] % length).tolist(),
        array(part.values[here]),
        part.index[here].tolist(),
    )


def reference_logits(model: ReferenceModel, batch: Batch) -> list[Array]:
    """The reference's logits for each row."""
    count = len(batch.elements)
    sources = [
        None if batch.source is None else sample_of(batch.source, row) for row in range(count)
    ]
    return [model.logits(sample_of(batch, row), sources[row]) for row in range(count)]
