"""The tensors of a published model, in one safetensors file or in several.

model.safetensors                  or  model-00001-of-00002.safetensors  model-00002-of-...
"""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

import torch
from torch import Tensor

from glassformer.core.errors import CheckpointError
from glassformer.models.weights import load_tensors, shapes_in

FILE, SHARD = "model.safetensors", re.compile(r"model-\d+-of-(\d+)\.safetensors")
PICKLES = ("*.bin", "*.pt", "*.pth", "*.ckpt")
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
    shapes: Mapping[str, tuple[int, ...]]
    _load: Callable[[Path], dict[str, Tensor]] = field(default_factory=lambda: cache(load_tensors))

    def read(self, name: str) -> Tensor:
        """A tensor, mapped from its file."""
        file, own = self.places[name]
        return self._load(file)[own]

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
    names = {path: SHARD.fullmatch(path.name) for path in sorted(folder.iterdir())}
    shards = {path: int(found[1]) for path, found in names.items() if found}
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


def check_no_pickle(folder: Path) -> None:
    """CheckpointError: the weights of a folder are in a pickle."""
    found = (path for kind in PICKLES for path in folder.glob(kind))
    pickles = sorted(path.name for path in found if path.suffix != ".bin" or _is_pickle(path))
    if pickles:
        raise CheckpointError(
            f"{folder} has its weights in {pickles[0]}, which may run code when it is opened; "
            f"convert it to {FILE} where you trust it, or take the model's safetensors "
            "(docs/published-models.md shows how, also for nanoGPT)."
        )


def _is_pickle(path: Path) -> bool:
    """Return whether a .bin file may be one of torch; those of CTranslate2 hold numbers only."""
    with path.open("rb") as file:
        head = file.read(2)
    return path.name.startswith("pytorch_model") or head == b"PK" or head[:1] == b"\x80"
