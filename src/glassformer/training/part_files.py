"""Tensors of a divided model in one safetensors file for each process of a copy, which any other
division reads.

    model-00002-of-00004.safetensors      the parts of one process, each under its tensor's name
        metadata "parts": {"name": [[shape of the whole tensor], [where the part begins]]}

No process gathers a tensor. What several processes have alike, one of them writes. The files say
all by themselves: a reader looks at the headers of all of them, then reads from each the numbers
that its own part shares with the file's.
"""

import json
import re
from collections import defaultdict
from collections.abc import Iterable, Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Any, NamedTuple

import torch
from safetensors import SafetensorError, safe_open
from torch import Tensor
from torch.distributed.device_mesh import DeviceMesh

from glassformer.errors import CheckpointError, counted
from glassformer.models.weights import save_tensors
from glassformer.shards import box, cut_names, local

NAME = re.compile(r"(.+)-(\d{5,})-of-(\d{5,})\.safetensors")


class Piece(NamedTuple):
    """A part of a tensor in an open file: where it begins in the whole tensor, and its lengths."""

    file: Any
    begins: list[int]
    lengths: list[int]


def part_path(folder: Path, stem: str, number: int, count: int) -> Path:
    """The file of one of `count` processes."""
    return folder / f"{stem}-{number + 1:05d}-of-{count:05d}.safetensors"


def save_parts(
    tensors: Mapping[str, Tensor], mesh: DeviceMesh, folder: Path, stem: str
) -> Path | None:
    """Write the parts that this process answers for, those of which it is the first along every
    axis of the mesh that does not cut the tensor; None: it is a copy of another process."""
    names = mesh.mesh_dim_names or ()
    at = {name: mesh.get_local_rank(name) for name in names}
    if at["replicate"]:
        return None
    behind = {name for name in names if at[name]}
    own: dict[str, Tensor] = {}
    where: dict[str, tuple[list[int], list[int]]] = {}
    for name, tensor in tensors.items():
        if not behind - cut_names(tensor):
            begins, lengths = box(tensor)
            if 0 not in lengths:
                own[name], where[name] = local(tensor).detach(), ([*tensor.shape], begins)
    shard, tensor = mesh["shard"].size(), mesh["tensor"].size()
    path = part_path(folder, stem, at["shard"] * tensor + at["tensor"], shard * tensor)
    save_tensors(own, path, {"parts": json.dumps(where)})
    return path


def part_files(folder: Path, stem: str) -> list[Path]:
    """The files of all processes; CheckpointError: one is missing, or there are of two saves."""
    found = [path for path in folder.iterdir() if (m := NAME.fullmatch(path.name)) and m[1] == stem]
    counts = {int(path.stem.rpartition("-")[2]) for path in found}
    if len(counts) != 1 or {*found} != {
        part_path(folder, stem, number, count) for count in counts for number in range(count)
    }:
        raise CheckpointError(
            f"{folder} has {counted(len(found), 'file')} {stem}-*-of-*.safetensors, which are not "
            "all of one save; restore the others, or load another checkpoint."
        )
    return sorted(found)


def names_in(files: Iterable[Path]) -> list[str]:
    """The names of all tensors in these files."""
    with ExitStack() as opened:
        return sorted(_pieces(files, opened)[0])


@torch.no_grad()
def load_parts(targets: Mapping[str, Tensor], files: Iterable[Path]) -> None:
    """Fill this process's part of every target, however the files are divided.

    CheckpointError: a file that cannot be read, or tensors of other names, shapes or types, or with
    numbers that no file has.
    """
    with ExitStack() as opened:
        pieces, shapes = _pieces(files, opened)
        _check_names(targets.keys(), pieces.keys())
        for name, target in targets.items():
            if shapes[name] != [*target.shape]:
                raise CheckpointError(
                    f"{name} has the shape {tuple(shapes[name])} in the checkpoint and "
                    f"{tuple(target.shape)} in this model; it is of another model."
                )
            _fill(name, target, pieces[name])


def _pieces(
    files: Iterable[Path], opened: ExitStack
) -> tuple[dict[str, list[Piece]], dict[str, list[int]]]:
    """The pieces and the whole shape of each tensor, from the files' headers."""
    pieces: dict[str, list[Piece]] = defaultdict(list)
    shapes: dict[str, list[int]] = {}
    for path in files:
        try:
            file = opened.enter_context(safe_open(path, framework="pt"))
            for name, (shape, begins) in json.loads(file.metadata()["parts"]).items():
                shapes[name] = shape
                pieces[name].append(Piece(file, begins, file.get_slice(name).get_shape()))
        except (SafetensorError, OSError, ValueError, TypeError, KeyError) as error:
            raise CheckpointError(
                f"{path} is not a readable file of parts ({error}); it may be cut short."
            ) from None
    return pieces, shapes


def _check_names(wanted: Iterable[str], there: Iterable[str]) -> None:
    lacking, more = {*wanted} - {*there}, {*there} - {*wanted}
    for name in sorted(lacking):
        raise CheckpointError(f"The checkpoint lacks {name}; it is of another model.")
    for name in sorted(more):
        raise CheckpointError(
            f"The checkpoint holds {name}, which this model does not have; it is of another model."
        )


def _fill(name: str, target: Tensor, pieces: Iterable[Piece]) -> None:
    """Copy to a part what it shares with each piece; each number is in one of them."""
    begins, lengths = box(target)
    part, copied = local(target), 0
    for piece in pieces:
        first = [max(pair) for pair in zip(begins, piece.begins, strict=True)]
        ends = zip(begins, lengths, piece.begins, piece.lengths, strict=True)
        last = [min(a + m, b + n) for a, m, b, n in ends]
        if any(a >= b for a, b in zip(first, last, strict=True)):
            continue
        spans = [*zip(first, last, strict=True)]
        there = tuple(slice(a - o, b - o) for (a, b), o in zip(spans, piece.begins, strict=True))
        here = tuple(slice(a - o, b - o) for (a, b), o in zip(spans, begins, strict=True))
        found = piece.file.get_slice(name)[there] if there else piece.file.get_tensor(name)
        if found.dtype != target.dtype:
            raise CheckpointError(
                f"{name} holds {found.dtype} in the checkpoint and {target.dtype} in this model; "
                "it is of another model."
            )
        part[here] = found.to(part.device)
        copied += found.numel()
    if copied != part.numel():
        raise CheckpointError(
            f"The checkpoint has {copied:,} of the {part.numel():,} numbers of {name} that this "
            "process needs; a file is of another save."
        )
