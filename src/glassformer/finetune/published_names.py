"""Adapters by the names of a published class that the model fits, and back.

decoder.blocks.0.attention.q_proj -> model.layers.0.self_attn.q_proj    Llama: unchanged
decoder.blocks.0.attention.q_proj -> transformer.h.0.attn.c_attn        GPT-2: a third of the rows

A map that the class joins with others has one adapter there: its A is that of all, one upon the
other, and its B has theirs on the diagonal.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import torch

from glassformer.core.axes import Tensor, Tensors
from glassformer.families import FAMILIES
from glassformer.families.family import Stored
from glassformer.families.fit import fits
from glassformer.models.transformer import Transformer

WEIGHT = ".weight"


@dataclass(frozen=True)
class Adapter:
    """The factors of one map, whose product is added times alpha/rank."""

    a: Tensor
    b: Tensor
    alpha: float

    @property
    def rank(self) -> int:
        """Rows of A."""
        return len(self.a)


@dataclass(frozen=True)
class Adapters:
    """Adapters by the names of their maps, and weights that were trained as a whole."""

    maps: Mapping[str, Adapter]
    whole: Tensors
    transposed: bool = False
    """Whether the matrices of the maps are x W, not x Wᵀ."""


def classes_of(model: Transformer) -> Iterator[dict[str, Stored]]:
    """The tensors of every class that a plain model fits, by the names of its modules (for some
    others than in files since transformers 5), then by those of files."""
    names, config = dict(model.named_parameters()), model.config
    tasks = {head.task for family in FAMILIES.values() for head in family.heads.values()}
    for fit in (fit for task in sorted(tasks) for fit in fits(config, task)):
        if not fit.differences:
            known = {one.name: one for one in fit.family.layout(fit.head, names, config).values()}
            yield {fit.family.module_name(name): one for name, one in known.items()}
            yield known


def read(model: Transformer, theirs: Adapters, known: Mapping[str, Stored]) -> Adapters | None:
    """Return adapters by our names; None: the class has none of some name."""
    places = {f"{name}{WEIGHT}": one for name, one in theirs.maps.items()}
    if not places.keys() | theirs.whole.keys() <= known.keys():
        return None
    maps = {
        name.removesuffix(WEIGHT): Adapter(one.a, b, one.alpha)
        for place, one in places.items()
        for name, b in zip(known[place].ours, one.b.chunk(known[place].how.parts), strict=True)
    }
    whole: Tensors = {}
    for place, tensor in theirs.whole.items():
        shape = model.get_parameter(known[place].ours[0]).shape
        whole |= known[place].read(tensor, shape, model.config)
    return Adapters(maps, whole)


def write(model: Transformer, ours: Adapters, known: Mapping[str, Stored]) -> Adapters | None:
    """Return adapters by the names of the class; None: it has no such weight, or joins it with one
    that was not trained."""
    maps: dict[str, Adapter] = {}
    whole: Tensors = {}
    transposed, left = False, ours.maps.keys() | ours.whole.keys()
    for place, stored in known.items():
        modules = [name.removesuffix(WEIGHT) for name in stored.ours]
        if ours.whole.keys() >= {*stored.ours}:
            whole[place] = stored.write(ours.whole, model.config)
        elif ours.maps.keys() & modules:
            maps[place.removesuffix(WEIGHT)] = _join(model, modules, ours.maps)
            transposed |= stored.how.transposed
        else:
            continue
        left -= {*stored.ours, *modules}
    return None if left else Adapters(maps, whole, transposed)


def _join(model: Transformer, modules: list[str], maps: Mapping[str, Adapter]) -> Adapter:
    """One adapter of several maps, of which some may have none."""
    own = [maps[module] for module in modules if module in maps]
    blocks = [
        maps[module].b
        if module in maps
        else own[0].b.new_zeros(len(model.get_parameter(f"{module}{WEIGHT}")), 0)
        for module in modules
    ]
    a = torch.cat([one.a for one in own])
    return Adapter(a, torch.block_diag(*blocks), own[0].alpha * len(own))
