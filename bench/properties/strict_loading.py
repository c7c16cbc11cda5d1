"""Every tensor of every architecture dropped, renamed, of another type or shape, or not finite."""

import math
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save_file

from glassformer.core.errors import CheckpointError
from glassformer.models.weights import load_tensors, load_weights, save_weights
from variants import made


def strict_loading(variants: Iterable[str], place: Path, every: int = 1) -> tuple[int, list[str]]:
    """The number of files with a change of every k-th tensor, and what was read, or refused without
    its name."""
    cases, problems = 0, list[str]()
    for variant in variants:
        model, _ = made(variant)
        file = place / "model.safetensors"
        save_weights(model, file)
        tensors = load_tensors(file)
        if not _filled(model, tensors, place):
            problems.append(f"{variant}: a parameter is not from the file")
        for name, how, changed in _changes(tensors, model, every):
            cases += 1
            said = _refusal(model, changed, place)
            if said is None or name not in said:
                problems.append(f"{variant}, {name} {how}: {said}")
    return cases, problems


def _changes(
    tensors: dict[str, Any], model: Any, every: int
) -> Iterator[tuple[str, str, dict[str, Any]]]:
    """Files with one wrong tensor: its name, the change, and all tensors."""
    for name in [*tensors][::every]:
        tensor = tensors[name]
        others = {other: one for other, one in tensors.items() if other != name}
        yield name, "dropped", others
        yield name, "renamed", others | {f"{name}2": tensor}
        for kind in (torch.float16, torch.bfloat16, torch.float64, torch.int32, torch.bool):
            yield name, f"as {kind}", others | {name: tensor.to(kind)}
        yield name, "with an axis more", others | {name: tensor[None]}
        yield name, "a row longer", others | {name: torch.cat([tensor, tensor[-1:]])}
        wrong = tensor.clone().flatten()
        wrong[-1] = math.nan
        yield name, "not finite", others | {name: wrong.view_as(tensor)}
    for name in {*model.state_dict()} - tensors.keys():  # a tied matrix is there once
        yield name, "twice", tensors | {name: model.state_dict()[name].clone()}


def _refusal(model: Any, tensors: dict[str, Any], place: Path) -> str | None:
    """What loading says; None: nothing."""
    try:
        load_weights(model, _saved(tensors, place))
    except CheckpointError as error:
        return str(error)
    return None


def _filled(model: Any, tensors: dict[str, Any], place: Path) -> bool:
    """Whether the parameters are those of a file, whatever they were before."""
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.fill_(math.nan)
    load_weights(model, _saved(tensors, place))
    return all(torch.equal(one, tensors[name]) for name, one in model.named_parameters())


def _saved(tensors: dict[str, Any], place: Path) -> Path:
    save_file(tensors, place / "changed.safetensors")
    return place / "changed.safetensors"
