"""The parameters of a model from the tensors of a published one; every tensor is accounted for.

model.safetensors                  or  model-00001-of-00002.safetensors  model-00002-of-...
"""

import re
from collections.abc import Callable, Collection, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path

import torch
from torch import nn

from glassformer.core.axes import Shapes, Tensor
from glassformer.core.errors import CheckpointError
from glassformer.core.files import Values
from glassformer.families.family import Stored, rows_of
from glassformer.interop.configuration import Published, check_no_pickle
from glassformer.models.config import ModelConfig
from glassformer.models.transformer import Transformer
from glassformer.models.weights import (
    OF_TOKENS,
    check_memory,
    load_tensors,
    shapes_in,
    without_memory,
)

FILE, SHARD = "model.safetensors", re.compile(r"model-\d+-of-(\d+)\.safetensors")
COMPILED = "_orig_mod."
"""Before the names of a model that was saved compiled."""
OLD_NAMES = {".gamma": ".weight", ".beta": ".bias"}
"""Endings of names in files converted from TensorFlow."""


@dataclass
class Tensors:
    """Tensors by their names without the family's prefix; files are opened when they are read."""

    folder: Path
    places: Mapping[str, tuple[Path, str]]
    """The file of each tensor, and its name there."""
    shapes: Shapes
    _load: Callable[[Path], dict[str, Tensor]] = field(default_factory=lambda: cache(load_tensors))

    def read(self, name: str) -> Tensor:
        """A tensor, mapped from its file."""
        file, own = self.places[name]
        return self._load(file)[own]

    def numbers(self, name: str, dtype: torch.dtype) -> Tensor:
        """A copy of a tensor (its file may be replaced later); CheckpointError: no numbers."""
        raw = self.read(name)
        if not raw.dtype.is_floating_point:
            raise CheckpointError(f"{self.folder}: {name} holds {raw.dtype}, not numbers.")
        own = raw.to(dtype, copy=True)
        if not torch.stack(own.aminmax()).isfinite().all():
            raise CheckpointError(
                f"{self.folder}: {name} holds values that are not finite; download it again."
            )
        return own

    def equal(self, name: str, other: str) -> bool:
        """Whether two tensors have the same numbers."""
        return torch.equal(self.read(name), self.read(other))


def tensors_of(folder: Path, prefix: str) -> Tensors:
    """The tensors of a folder, known by name and shape; nothing else is read.

    CheckpointError: none, a damaged or missing file, a tensor in two places, or a pickle.
    """
    found = Tensors(folder, places := {}, shapes := {})
    for file in _files(folder):
        for name, shape in shapes_in(file).items():
            plain = _plain(name, prefix)
            if plain in places:
                other, own = places[plain]
                raise CheckpointError(
                    f"{file} holds {name}, and {other.name} holds the same tensor as {own}; keep "
                    "one."
                )
            places[plain], shapes[plain] = (file, name), shape
    return found


def _files(folder: Path) -> list[Path]:
    """Return the files of weights; CheckpointError: there is none, or one of several is missing."""
    if (folder / FILE).is_file():
        return [folder / FILE]
    shards = {
        path: int(found[1])
        for path in sorted(folder.iterdir())
        if (found := SHARD.fullmatch(path.name))
    }
    if not shards:
        check_no_pickle(folder)
        raise CheckpointError(f"{folder} holds no {FILE}; give the folder of a model.")
    if {*shards.values()} != {len(shards)}:
        raise CheckpointError(
            f"{folder} has {len(shards)} files of weights, and {max(shards).name} is one of "
            f"{max(shards.values())}; download the others, or remove those of another model."
        )
    return [*shards]


def _plain(name: str, prefix: str) -> str:
    name = name.removeprefix(COMPILED)
    for old, new in OLD_NAMES.items():
        name = name.removesuffix(old) + new if name.endswith(old) else name
    return name.removeprefix(f"{prefix}.") if prefix else name


def fill(
    of: Published,
    tensors: Tensors,
    device: torch.device | str = "cpu",
    dtype: torch.dtype = torch.float32,
) -> Transformer:
    """The model with its parameters, in evaluation mode.

    The names and shapes of all are compared before anything is allocated. CheckpointError: a
    tensor is missing, of another shape, not finite, or not known.
    """
    of = as_stored(of, tensors)
    model = without_memory(of.model, len(tensors.shapes), tensors.folder)
    check_memory(model, tensors.folder)
    shapes = {name: tuple(one.shape) for name, one in model.named_parameters()}
    names = of.family.layout(of.head, shapes, of.model, tensors.shapes)
    sources = {
        _name_in_file(of, theirs, tensors) if of.model.tied else theirs: stored
        for theirs, stored in names.items()
    }
    for theirs, stored in sources.items():
        _check_source(of.model, theirs, stored, shapes, tensors)
    _check_rest(of, tensors, sources.keys())
    for theirs, stored in sources.items():
        values = {name: torch.zeros(shapes[name], dtype=dtype) for name in stored.ours}
        if theirs in tensors.shapes:
            own = tensors.numbers(theirs, dtype)
            values = stored.read(own, shapes[stored.ours[0]], of.model)
        for name, value in values.items():
            _set(model, name, value.contiguous().to(device))
    model.tie()
    return model.eval()


def with_first_tokens(model: Transformer, count: int) -> Transformer:
    """Return the model with the rows of its first tokens; the other parameters are shared."""
    config = model.config.model_copy(update={"vocab_size": count})
    made = Transformer(config, seed=None, device="meta")
    for name, parameter in [*model.named_parameters()]:
        _set(made, name, parameter.detach()[:count] if name in OF_TOKENS else parameter.detach())
    made.tie()
    return made.eval()


def as_stored(of: Published, tensors: Tensors) -> Published:
    """Leave out what the file lacks (a pooler), and untie a head for which it has another matrix
    than the embedding, as transformers does against config.json."""
    changed: Values = {}
    for name in of.head.without.keys() - tensors.shapes.keys():
        changed |= of.head.without[name]
    heads = {row.theirs for row in rows_of(of.head.tensors)}
    for name, first in of.family.tied.items() if of.model.tied else ():
        first = _name_in_file(of, first, tensors)
        matrix = all(len(tensors.shapes.get(one, ())) == 2 for one in (name, first))
        own = heads & {name, name.removesuffix(".weight")}
        if matrix and own and not tensors.equal(name, first):
            changed["tied"] = False
    return replace(of, model=of.model.model_copy(update=changed))


def _name_in_file(of: Published, first: str, tensors: Tensors) -> str:
    """Return the name under which a file has a tensor of several names."""
    names = (first, *(name for name, one in of.family.tied.items() if one == first))
    return next((name for name in names if name in tensors.shapes), first)


def _check_source(
    model: ModelConfig, theirs: str, stored: Stored, shapes: Shapes, tensors: Tensors
) -> None:
    """Raise CheckpointError unless the file has a tensor for these parameters, of their shapes."""
    name = stored.ours[0]
    if theirs not in tensors.shapes:
        if stored.how.zero and name.endswith("bias"):
            return
        raise CheckpointError(
            f"{tensors.folder} lacks the tensor {theirs}, from which {name} is taken; it "
            "is of another model than its config.json says."
        )
    found: dict[str, Tensor] = {}
    with suppress(RuntimeError, IndexError, TypeError, ValueError):
        own = torch.empty(tensors.shapes[theirs], device="meta")
        found = stored.read(own, shapes[name], model)
    for name in stored.ours:
        if name not in found or found[name].shape != shapes[name]:
            raise CheckpointError(
                f"{tensors.folder}: {theirs} has shape {tensors.shapes[theirs]}, from which {name} "
                f"of shape {shapes[name]} cannot be taken; it is of another model than its "
                "config.json says."
            )


def _check_rest(of: Published, tensors: Tensors, used: Collection[str]) -> None:
    """CheckpointError: a tensor that nothing reads and that is no second name of another."""
    for name in sorted(tensors.shapes.keys() - {*used}):
        if any(re.fullmatch(unused, name) for unused in (of.family.unused, of.head.unused)):
            continue
        first = of.family.tied.get(name)
        if first is not None and (
            len(tensors.shapes[name]) != 2 or tensors.equal(name, _name_in_file(of, first, tensors))
        ):
            continue
        raise CheckpointError(
            f"{tensors.folder} holds the tensor {tensors.places[name][1]}, which models of type "
            f"{of.family.model_type} do not have here beside the others; it would be lost. Another "
            "class may have it: see `architectures` of config.json."
        )


def _set(model: nn.Module, name: str, value: Tensor) -> None:
    """A tensor as the parameter of that name."""
    owner, _, last = name.rpartition(".")
    setattr(model.get_submodule(owner), last, nn.Parameter(value))
