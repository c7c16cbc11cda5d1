"""Adapters by the names of a published class that the model fits, and back.

decoder.blocks.0.attention.q_proj   model.layers.0.self_attn.q_proj     Llama: as it is
decoder.blocks.0.attention.q_proj   transformer.h.0.attn.c_attn         GPT-2: a third of the rows

A map that the class joins with others has one adapter there: its A is that of all, one upon the
other, and its B has theirs on the diagonal.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Self

import torch
from torch import Tensor

from glassformer.errors import ConfigError
from glassformer.families import FAMILIES
from glassformer.families.family import Row
from glassformer.families.fit import Fit, fits
from glassformer.families.transforms import Transform
from glassformer.models.config import ModelConfig
from glassformer.models.transformer import Transformer

WEIGHT = ".weight"


@dataclass(frozen=True)
class Adapters:
    """Adapters by the names of their maps, and weights that were trained as a whole."""

    factors: Mapping[str, Mapping[str, Tensor]]
    """A and B of each map."""
    whole: Mapping[str, Tensor]
    names: Mapping[str, str] = field(default_factory=dict)
    """Each map's name before they were translated."""

    def name_of(self, module: str) -> str:
        """The name of a map in the file."""
        return self.names.get(module, module)


@dataclass(frozen=True)
class PublishedNames:
    """The parameters of a model by their names in a published class."""

    config: ModelConfig
    shapes: Mapping[str, tuple[int, ...]]
    """Of our parameters, by our names."""
    rows: Mapping[str, Row]
    """Of the table of the family, by our names."""
    parts: Mapping[str, Sequence[str]]
    """Our names by theirs; of a joined one those of all parts, in order."""

    @classmethod
    def all_of(cls, config: ModelConfig) -> Iterator[Self]:
        """Every class that a model fits; with the names of its modules before those of files."""
        model = Transformer(config, seed=None, device="meta")
        shapes = {name: tuple(one.shape) for name, one in model.named_parameters()}
        tasks = {head.task for family in FAMILIES.values() for head in family.heads.values()}
        for fit in (fit for task in sorted(tasks) for fit in fits(config, task)):
            if not fit.differences:
                names = cls._of(fit, config, shapes)
                if fit.family.renamed:
                    parts = {fit.family.module_name(one): own for one, own in names.parts.items()}
                    yield replace(names, parts=parts)
                yield names

    @classmethod
    def _of(cls, fit: Fit, config: ModelConfig, shapes: Mapping[str, tuple[int, ...]]) -> Self:
        rows: dict[str, Row] = {}
        parts: dict[str, list[str]] = {}
        for name in shapes:
            try:
                row, theirs = fit.family.row_of(fit.head, name, config)
            except ConfigError:  # a bias that is 0 there
                continue
            rows[name] = row
            parts.setdefault(fit.family.whole_name(fit.head, row, theirs), []).append(name)
        for own in parts.values():
            own.sort(key=lambda name: rows[name].how.part)
        return cls(config, shapes, rows, parts)

    def read(self, theirs: Adapters) -> Adapters | None:
        """Return adapters by our names; None: the class has none of some name."""
        maps = {f"{name}{WEIGHT}": own for name, own in theirs.factors.items()}
        if not (maps.keys() | theirs.whole.keys()) <= self.parts.keys():
            return None
        factors: dict[str, Mapping[str, Tensor]] = {}
        names: dict[str, str] = {}
        for place, own in maps.items():
            for name in self.parts[place]:
                module, how = name.removesuffix(WEIGHT), self.rows[name].how
                shape = (self.shapes[name][0], own["A"].shape[0])
                rows = how.read(_turn(own["B"], how), shape, self.config)
                factors[module] = {"A": own["A"], "B": rows}
                names[module] = place.removesuffix(WEIGHT)
        whole = {
            name: self.rows[name].how.read(tensor, self.shapes[name], self.config)
            for place, tensor in theirs.whole.items()
            for name in self.parts[place]
        }
        return Adapters(factors, whole, names)

    def write(self, ours: Adapters) -> Adapters | None:
        """Return adapters by the names of the class; None: it has no such weight, or joins it with
        one that was not trained."""
        maps = {f"{name}{WEIGHT}": own for name, own in ours.factors.items()}
        if not (maps.keys() | ours.whole.keys()) <= self.rows.keys():
            return None
        factors: dict[str, Mapping[str, Tensor]] = {}
        whole: dict[str, Tensor] = {}
        for place, parts in self.parts.items():
            how, module = self.rows[parts[0]].how, place.removesuffix(WEIGHT)
            trained = [ours.whole[name] for name in parts if name in ours.whole]
            if trained and len(trained) < len(parts):
                return None
            if trained:
                whole[place] = how.write(trained, self.config)
            elif any(name in maps for name in parts):
                sizes = [self.shapes[name][0] for name in parts]
                a, b = _join([maps.get(name) for name in parts], sizes)
                factors[module] = {"A": a, "B": _turn(how.write(b, self.config), how)}
        return Adapters(factors, whole)

    def transposes(self, module: str) -> bool:
        """Whether the class has the matrix of a map, by its name there, as x W."""
        return self.rows[self.parts[f"{module}{WEIGHT}"][0]].how.transposed


def _turn(b: Tensor, how: Transform) -> Tensor:
    """B as a part of their matrix, and back; in files it is [out, r] of every map."""
    return b.T if how.transposed else b


def _join(
    parts: Sequence[Mapping[str, Tensor] | None], sizes: Sequence[int]
) -> tuple[Tensor, list[Tensor]]:
    """A of all parts, and B of each: 0 but for its own columns."""
    own = [one for one in parts if one is not None]
    a = torch.cat([one["A"] for one in own])
    rows, at = [], 0
    for one, size in zip(parts, sizes, strict=True):
        b = a.new_zeros(size, len(a))
        if one is not None:
            b[:, at : at + len(one["A"])] = one["B"]
            at += len(one["A"])
        rows.append(b)
    return a, rows
