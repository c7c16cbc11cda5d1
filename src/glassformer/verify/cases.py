"""Small fixed cases: numbers drawn from a name, and modules and models in float64 with such numbers
as weights, beside a reference with the same weights."""

import copy
import zlib
from typing import Any, TypeVar

import torch
from torch import Tensor, nn

from glassformer.batch import Batch, Part, Positions
from glassformer.layers.attention import AttentionContext
from glassformer.layers.mask import Mask, allowed
from glassformer.models.config import ModelConfig
from glassformer.models.transformer import Transformer
from glassformer.verify.reference import Array
from glassformer.verify.reference_model import Patches, ReferenceModel, Sample

Module = TypeVar("Module", bound=nn.Module)
IDS = [3, 1, 4, 1, 5, 9, 2, 6]
"""Token ids of the small cases, one of them twice."""
SOURCE_IDS = [2, 7, 1, 8, 2]
"""Source ids of the small encoder-decoder cases."""
TINY = {"vocab_size": 11, "max_length": 12, "d_model": 16, "n_layers": 2, "n_heads": 2, "d_ff": 24}
"""Configuration of the small models."""


def draw(name: str, *shape: int, spread: float = 1.0) -> Tensor:
    """Normal float64 numbers that depend on the name and the shape alone."""
    generator = torch.Generator().manual_seed(zlib.crc32(name.encode()))
    return torch.randn(*shape, generator=generator, dtype=torch.float64) * spread


def filled(module: Module, spread: float = 0.4) -> Module:
    """The module in float64 for evaluation, its parameters drawn by name; weights of norms around
    1."""
    module = module.double().eval()
    with torch.no_grad():
        for name, parameter in module.named_parameters():
            norm = "norm.weight" in name or (name == "weight" and parameter.dim() == 1)
            parameter.copy_(float(norm) + draw(name, *parameter.shape, spread=spread))
    return module


def array(tensor: Tensor | None) -> Array:
    """The float64 array of a tensor."""
    assert tensor is not None
    return tensor.detach().cpu().double().numpy()


def flat(tensor: Tensor) -> Array:
    """The float64 matrix of a tensor with one row and one head: leading axes of size 1 dropped."""
    return array(tensor.flatten(0, -3).squeeze(0) if tensor.dim() > 2 else tensor)


def reference_of(module: nn.Module, name: str = "it", **choices: Any) -> ReferenceModel:
    """A reference whose weights of that name are the module's, under the small configuration."""
    weights = {f"{name}.{key}": array(value) for key, value in module.state_dict().items()}
    return ReferenceModel(weights, ModelConfig.parse(TINY | choices).model_dump())


def pair(model: Transformer) -> tuple[Transformer, ReferenceModel]:
    """A float64 copy of the model for evaluation on the CPU, and a reference with its weights."""
    twin = copy.deepcopy(model).cpu().double().eval()
    weights = {name: array(value) for name, value in twin.state_dict().items()}
    return twin, ReferenceModel(weights, model.config.model_dump())


def tiny(**choices: Any) -> tuple[Transformer, ReferenceModel]:
    """A model of two blocks, 16 wide, under the given choices, and its reference."""
    return pair(filled(Transformer(ModelConfig.parse(TINY | choices)), spread=0.3))


def context(mask: Mask, queries: int, keys: Positions | None = None) -> AttentionContext:
    """Attention context of a mask over `queries` positions and `keys` (None: the same)."""
    place = Positions.arange(queries)
    return AttentionContext(allowed(mask, place, place if keys is None else keys))


def batch_of(ids: list[int], source: list[int] | None = None) -> Batch:
    """One row of ids, with a row of source ids if given."""
    return Batch(torch.tensor([ids]), source=None if source is None else batch_of(source))


def sample_of(batch: Batch, index: int) -> Sample:
    """Row `index` of a batch as the reference reads it."""
    positions: Positions = batch.where()

    def listed(values: Tensor | None) -> Any:
        return None if values is None else values[index if len(values) > 1 else 0].tolist()

    elements, types = batch.elements[index].detach().cpu(), batch.token_type_ids
    return Sample(
        array(elements) if elements.is_floating_point() else elements.numpy(),
        listed(positions.position),
        listed(positions.document),
        listed(positions.valid),
        None if types is None else types[index].cpu().numpy(),
        tuple(_patches_of(part, index, batch.elements.shape[1]) for part in batch.parts),
    )


def _patches_of(part: Part, index: int, length: int) -> Patches:
    """The patches of a part in row `index`."""
    here = part.at // length == index
    at, index_in = (part.at[here] % length).tolist(), part.index[here].tolist()
    return Patches(part.name, at, array(part.values[here]), index_in)


def reference_logits(model: ReferenceModel, batch: Batch) -> list[Array]:
    """The reference's logits for each row."""
    sources = batch.source
    return [
        model.logits(sample_of(batch, row), None if sources is None else sample_of(sources, row))
        for row in range(len(batch.elements))
    ]
