"""Tensors in one safetensors file, or in one for each process of a copy of a divided model; any
division reads either.

    model.safetensors                     whole tensors
    model-00002-of-00004.safetensors      the parts of one process, each under its tensor's name
        metadata "parts": {"name": [[shape of the whole tensor], [where the part begins]]}

No process gathers a tensor to save it. What several processes have alike, one of them writes. The
files need no other description: a reader joins one tensor at a time and keeps its own part.
"""

import json
import re
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import torch
from safetensors import SafetensorError, safe_open
from torch import Tensor

from glassformer.core.distributed.shards import box, cut_names, local, put
from glassformer.core.errors import CheckpointError
from glassformer.core.files import writing
from glassformer.models.weights import save_tensors

NAME = re.compile(r"(.+?)(?:-(\d{5,})-of-(\d{5,}))?\.safetensors")
Where = tuple[list[int], list[int]]
"""The shape of a whole tensor, and where a part of it begins."""


@dataclass(frozen=True)
class Part:
    """Parts of tensors that a process writes, as file `number` of `count`; one file has whole
    tensors."""

    tensors: Mapping[str, Tensor]
    where: Mapping[str, Where] = field(default_factory=dict)
    number: int = 0
    count: int = 1

    def save(self, folder: Path, stem: str) -> Path:
        """Write its file, which is not there yet; CheckpointError: it cannot be written."""
        path = part_path(folder, stem, self.number, self.count)
        with writing(path):
            path.touch(exist_ok=False)  # two processes never write one file
        about = {"parts": json.dumps(self.where, sort_keys=True)} if self.count > 1 else None
        save_tensors({name: one.detach() for name, one in self.tensors.items()}, path, about)
        return path


class Piece(NamedTuple):
    """A part of a tensor in an open file: the shape of the whole tensor, where the part begins, and
    its numbers."""

    shape: list[int]
    begins: list[int]
    numbers: Tensor


def part_of(tensors: Mapping[str, Tensor], mesh: Any) -> Part | None:
    """Return the parts that this process of a mesh writes: those of which it is the first along
    every axis that does not cut the tensor; None: it is a copy of another process."""
    at = {name: mesh.get_local_rank(name) for name in mesh.mesh_dim_names}
    if any(rank for name, rank in at.items() if name not in ("shard", "tensor")):
        return None
    behind = {name for name, rank in at.items() if rank}
    own: dict[str, Tensor] = {}
    where: dict[str, Where] = {}
    for name, tensor in tensors.items():
        if not behind - cut_names(tensor):
            begins, lengths = box(tensor)
            if 0 not in lengths:
                own[name], where[name] = local(tensor), ([*tensor.shape], begins)
    shard, tensor = mesh["shard"].size(), mesh["tensor"].size()
    return Part(own, where, at["shard"] * tensor + at["tensor"], shard * tensor)


def part_path(folder: Path, stem: str, number: int, count: int) -> Path:
    """Return the file of one of `count` processes."""
    name = stem if count == 1 else f"{stem}-{number + 1:05d}-of-{count:05d}"
    return folder / f"{name}.safetensors"


def part_files(folder: Path, stem: str) -> list[Path]:
    """Return the files of all processes; CheckpointError: one is missing, or there are files of two
    saves."""
    found = {
        path: int(match[3] or 1)
        for path in (folder.iterdir() if folder.is_dir() else ())
        if (match := NAME.fullmatch(path.name)) and match[1] == stem
    }
    count = max(found.values(), default=1)
    all_of_one = {part_path(folder, stem, number, count) for number in range(count)}
    for path in sorted(all_of_one - found.keys()):
        raise CheckpointError(f"{path} is missing; the checkpoint is damaged.")
    for path in sorted(found.keys() - all_of_one):
        raise CheckpointError(f"{path} is of another save; the checkpoint is damaged.")
    return sorted(found)


def names_in(files: Iterable[Path]) -> list[str]:
    """Return the names of all tensors in these files."""
    return sorted(_pieces(files))


def load_parts(targets: Mapping[str, Tensor], files: Sequence[Path]) -> None:
    """Fill this process's part of every target, however the files are divided.

    CheckpointError: a file that cannot be read, or tensors of other names, shapes or types, or with
    numbers that no file has.
    """
    folder, pieces = files[0].parent, _pieces(files)
    for name in sorted(targets.keys() - pieces.keys()):
        raise CheckpointError(f"{folder} lacks {name}; it is of another model.")
    for name in sorted(pieces.keys() - targets.keys()):
        raise CheckpointError(
            f"{folder} holds {name}, which this model does not have; it is of another model."
        )
    for name, target in targets.items():
        put(target, _join(name, target, pieces[name], folder))


def _pieces(files: Iterable[Path]) -> dict[str, list[Piece]]:
    """Return the pieces of each tensor, mapped from the files."""
    pieces: dict[str, list[Piece]] = defaultdict(list)
    for path in files:
        try:
            with safe_open(path, framework="pt") as file:
                where = json.loads((file.metadata() or {}).get("parts", "null"))
                names = file.keys()  # `file` itself is no iterable of them
                for name in names:
                    numbers = file.get_tensor(name)
                    lengths = [*numbers.shape]
                    whole = lengths, [0] * len(lengths)
                    shape, begins = whole if where is None else where[name]
                    places = zip(begins, lengths, shape, strict=True)
                    if not all(0 <= begin <= of - length for begin, length, of in places):
                        raise ValueError(f"{name}: {lengths} numbers from {begins} on, of {shape}")
                    pieces[name].append(Piece(shape, begins, numbers))
        except (
            *(SafetensorError, OSError, ValueError, TypeError),
            *(RuntimeError, KeyError, AttributeError, OverflowError),
        ) as error:
            raise CheckpointError(
                f"{path} is not a readable file of parts ({error}); it may be cut short."
            ) from None
    return pieces


def _join(name: str, target: Tensor, pieces: Sequence[Piece], folder: Path) -> Tensor:
    """Return the whole tensor of these pieces; CheckpointError: it does not fit the target."""
    for piece in pieces:
        if piece.shape != [*target.shape]:
            raise CheckpointError(
                f"{name} has the shape {tuple(piece.shape)} in {folder} and "
                f"{tuple(target.shape)} in this model; it is of another model."
            )
        if piece.numbers.dtype != target.dtype:
            raise CheckpointError(
                f"{name} holds {piece.numbers.dtype} in {folder} and {target.dtype} in this "
                "model; it is of another model."
            )
    found = sum(piece.numbers.numel() for piece in pieces)
    if found != target.numel():
        raise CheckpointError(
            f"{folder} has {found:,} of the {target.numel():,} numbers of {name}; a file is of "
            "another save."
        )
    if len(pieces) == 1:
        return pieces[0].numbers
    full = torch.empty(target.shape, dtype=target.dtype)
    for piece in pieces:
        ends = zip(piece.begins, piece.numbers.shape, strict=True)
        full[tuple(slice(begin, begin + length) for begin, length in ends)] = piece.numbers
    return full
