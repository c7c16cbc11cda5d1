"""The tensors of a published model, in one safetensors file or in several with an index.

model.safetensors                  or  model.safetensors.index.json  {"weight_map": {NAME: FILE}}
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from torch import Tensor

from glassformer.errors import CheckpointError
from glassformer.files import read_json
from glassformer.models.weights import load_tensors, shapes_in

FILE, INDEX = "model.safetensors", "model.safetensors.index.json"
PICKLES = ("*.bin", "*.pt", "*.pth", "*.ckpt")
COMPILED = "_orig_mod."
"""Before the names of a model that was saved compiled."""
OLD_NAMES = {".gamma": ".weight", ".beta": ".bias"}
"""Endings of names in files converted from TensorFlow."""


@dataclass
class Tensors:
    """Tensors by their names without the family's prefix; files are opened when they are read."""

    folder: Path
    files: Mapping[str, str]
    """The file of each tensor, by its name there."""
    names: Mapping[str, str]
    """The name there of each name without the prefix."""
    shapes: Mapping[str, tuple[int, ...]]
    """By names without the prefix."""
    _open: dict[str, dict[str, Tensor]] = field(default_factory=dict)

    def read(self, name: str) -> Tensor:
        """A tensor, mapped from its file."""
        own = self.names[name]
        file = self.files[own]
        if file not in self._open:
            self._open[file] = load_tensors(self.folder / file)
        return self._open[file][own]

    def equal(self, name: str, other: str) -> bool:
        """Whether two tensors have the same numbers."""
        return self.shapes[name] == self.shapes[other] and bool(
            (self.read(name) == self.read(other)).all()
        )


def tensors_of(folder: Path, prefix: str) -> Tensors:
    """The tensors of a folder, known by name and shape; nothing else is read.

    CheckpointError: none, a damaged file, an index that names files elsewhere, or a pickle.
    """
    indexed = _indexed(folder)
    stored = {FILE} if indexed is None else {*indexed.values()}
    found = {file: shapes_in(folder / file) for file in sorted(stored)}
    files = dict.fromkeys(found[FILE], FILE) if indexed is None else indexed
    for name, file in files.items():
        if name not in found[file]:
            raise CheckpointError(
                f"{folder / INDEX} says that {file} holds {name!r:.100}, which it does not; "
                "download it again."
            )
    for file, own in found.items():
        for name in own:  # also those that the index does not list
            if files.setdefault(name, file) != file:
                raise CheckpointError(
                    f"{folder / file} holds {name}, which {INDEX} takes from {files[name]}; "
                    "download both again."
                )
    names = {_plain(name, prefix): name for name in files}
    if len(names) != len(files):
        raise CheckpointError(f"{folder} has a tensor with and without {prefix!r}; keep one.")
    shapes = {plain: found[files[name]][name] for plain, name in names.items()}
    return Tensors(folder, files, names, shapes)


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


def _indexed(folder: Path) -> dict[str, str] | None:
    """The file of each tensor by the index; None: there is a single file."""
    if (folder / FILE).is_file():
        return None
    index = folder / INDEX
    if not index.is_file():
        check_no_pickle(folder)
        raise CheckpointError(f"{folder} holds no {FILE}; give the folder of a model.")
    try:
        named = read_json(index, 64 << 20)["weight_map"]
        files = {str(name): str(file) for name, file in named.items()}
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise CheckpointError(
            f"{index} is no index of tensors ({str(error)[:100]}); download it again."
        ) from None
    for file in set(files.values()):
        if not re.fullmatch(r"[A-Za-z0-9_][A-Za-z0-9._-]*\.safetensors", file):
            raise CheckpointError(
                f"{index} names the file {file!r:.100}, which is no safetensors file beside it."
            )
        if not (folder / file).is_file():
            raise CheckpointError(f"{folder} lacks {file}, which its index names; download it.")
    return files
