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


def drawn(names: str, *shape: int) -> list[Tensor]:
    """Numbers of one shape for each letter of `names`: queries, keys and values."""
    return [draw(name, *shape) for name in names]


def batch_of(ids: list[int], source: list[int] | None = None) -> Batch:
    """One row of ids, with a row of source ids if given."""
    return Batch(torch.tensor([ids]), source=None if source is None else batch_of(source))


def sample_of(batch: Batch, index: int) -> Sample:
    """Row `index` of a batch as the reference reads it."""
    elements, p = batch.elements, batch.where()
    rows, length = elements.shape[:2]
    zeros = torch.zeros(1, length, dtype=torch.long)

    def listed(values: Tensor | None, default: Tensor) -> Any:
        return (default if values is None else values).expand(rows, -1)[index].tolist()

    def patches(part: Part) -> Patches:
        here = part.at // length == index
        at, number = (part.at[here] % length).tolist(), part.index[here].tolist()
        return Patches(part.name, at, array(part.values[here]), number)

    return Sample(
        array(elements[index]) if elements.is_floating_point() else elements[index].cpu().numpy(),
        listed(p.position, zeros),
        listed(p.document, zeros),
        listed(p.valid, zeros == 0),
        listed(batch.token_type_ids, zeros),
        tuple(map(patches, batch.parts)),
    )


def reference_logits(model: ReferenceModel, batch: Batch) -> list[Array]:
    """The reference's logits for each row."""
    sources = batch.source
    return [
        model.logits(sample_of(batch, row), sources and sample_of(sources, row))
        for row in range(len(batch.elements))
    ]
