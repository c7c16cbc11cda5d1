"""The parameters of a model from the tensors of a published one; every tensor is accounted for."""

import re
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor, nn

from glassformer.errors import CheckpointError
from glassformer.families.family import Row, rows_of
from glassformer.interop.configuration import Published
from glassformer.interop.tensors import Tensors
from glassformer.models.config import ModelConfig
from glassformer.models.transformer import Transformer
from glassformer.models.weights import OF_TOKENS, check_memory, without_memory


def filled(
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
    sources = dict(_sources(of, model, tensors))
    _check_rest(of, tensors, {name for _, name in sources.values() if name})
    with torch.no_grad():
        for name, parameter in [*model.named_parameters()]:
            row, theirs = sources[name]
            value = _value(row, theirs, parameter, tensors, of.model, dtype)
            _set(model, name, value.to(device))
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
    """Without what the file lacks (a pooler), and with a head of its own where the file has another
    matrix than the embedding: transformers reads it so, whatever config.json says."""
    changed: dict[str, Any] = {}
    for name, fields in of.head.without.items():
        changed |= fields if name not in tensors.shapes else {}
    for name, first in of.family.tied.items():
        first = _name_in_file(of, first, tensors)
        matrix = all(len(tensors.shapes.get(one, ())) == 2 for one in (name, first))
        if matrix and of.model.tied and _is_head(of, name) and not tensors.equal(name, first):
            changed["tied"] = False
    return replace(of, model=of.model.model_copy(update=changed))


def _name_in_file(of: Published, first: str, tensors: Tensors) -> str:
    """Return the name under which a file has a tensor of several names."""
    names = (first, *(name for name, one in of.family.tied.items() if one == first))
    return next((name for name in names if name in tensors.shapes), first)


def _is_head(of: Published, name: str) -> bool:
    heads = [row.theirs for row in rows_of(of.head.tensors)]
    return name in heads or name.removesuffix(".weight") in heads


def _sources(
    of: Published, model: Transformer, tensors: Tensors
) -> Iterator[tuple[str, tuple[Row, str]]]:
    """The line and the tensor of each parameter; no tensor: it is 0."""
    for name, parameter in model.named_parameters():
        row, theirs = of.family.row_of(of.head, name, of.model, tensors.shapes)
        theirs = _name_in_file(of, theirs, tensors) if of.model.tied else theirs
        if theirs not in tensors.shapes:
            if row.how.zero and name.endswith("bias"):
                theirs = ""
            else:
                raise CheckpointError(
                    f"{tensors.folder} lacks the tensor {theirs}, from which {name} is taken; it "
                    "is of another model than its config.json says."
                )
        else:
            _check_shape(row, theirs, name, parameter, tensors, of.model)
        yield name, (row, theirs)


def _check_shape(
    row: Row, theirs: str, name: str, parameter: Tensor, tensors: Tensors, of: ModelConfig
) -> None:
    """Compare shapes by the change of a tensor without memory."""
    try:
        own = torch.empty(tensors.shapes[theirs], device="meta")
        got = tuple(row.how.read(own, tuple(parameter.shape), of).shape)
    except (RuntimeError, IndexError, TypeError):
        got = None
    if got != tuple(parameter.shape):
        raise CheckpointError(
            f"{tensors.folder}: {theirs} has shape {tensors.shapes[theirs]}, from which {name} of "
            f"shape {tuple(parameter.shape)} cannot be taken; it is of another model than its "
            "config.json says."
        )


def _check_rest(of: Published, tensors: Tensors, used: set[str]) -> None:
    """CheckpointError: a tensor that nothing reads and that is no second name of another."""
    unused = "|".join(f"(?:{one})" for one in (of.family.unused, of.head.unused) if one)
    for name in sorted(tensors.shapes.keys() - used):
        if unused and re.fullmatch(unused, name):
            continue
        first = of.family.tied.get(name)
        matrix = len(tensors.shapes[name]) == 2
        if first is not None and (
            not matrix or tensors.equal(name, _name_in_file(of, first, tensors))
        ):
            continue
        raise CheckpointError(
            f"{tensors.folder} holds the tensor {tensors.names[name]}, which models of type "
            f"{of.family.model_type} do not have here beside the others; it would be lost."
        )


def _value(
    row: Row,
    theirs: str,
    parameter: Tensor,
    tensors: Tensors,
    of: ModelConfig,
    dtype: torch.dtype,
) -> Tensor:
    if not theirs:
        return torch.zeros(parameter.shape, dtype=dtype)
    raw = tensors.read(theirs)
    if not raw.dtype.is_floating_point:
        raise CheckpointError(f"{tensors.folder}: {theirs} holds {raw.dtype}, not numbers.")
    value = row.how.read(raw.to(dtype), tuple(parameter.shape), of).contiguous()
    low, high = value.aminmax()
    if not (low.isfinite() and high.isfinite()):
        raise CheckpointError(
            f"{tensors.folder}: {theirs} holds values that are not finite; download it again."
        )
    mapped = value.untyped_storage().data_ptr() == raw.untyped_storage().data_ptr()
    return value.clone() if mapped else value  # the file may be replaced later


def _set(model: nn.Module, name: str, value: Tensor) -> None:
    """A tensor as the parameter of that name."""
    owner, _, last = name.rpartition(".")
    setattr(model.get_submodule(owner), last, nn.Parameter(value))
