"""Adapters as files in the layout of peft: `adapter_config.json` and `adapter_model.safetensors`.

base_model.model.decoder.blocks.0.attention.q_proj.lora_A.weight    A  [r, in]
base_model.model.decoder.blocks.0.attention.q_proj.lora_B.weight    B  [out, r]
base_model.model.head.proj.weight                                   a weight trained as a whole
"""

import math
import re
from pathlib import Path
from typing import Any, TypeGuard

import torch
from torch import Tensor

from glassformer.errors import CheckpointError, ConfigError
from glassformer.files import read_json, write_json
from glassformer.finetune.adapters import substitute
from glassformer.layers.linear import Linear
from glassformer.layers.lora import LoRALinear, adapters, is_factor
from glassformer.models.transformer import Transformer
from glassformer.models.weights import load_tensors, save_tensors

CONFIG, WEIGHTS = "adapter_config.json", "adapter_model.safetensors"
PREFIX = "base_model.model."
FACTOR = re.compile(r"(.+)\.lora_([AB])\.weight")
PLAIN = {"bias": ("none",), "init_lora_weights": (True, "gaussian", "orthogonal")}
UNKNOWN = (
    *("bias", "fan_in_fan_out", "use_dora", "lora_bias", "rank_pattern", "alpha_pattern"),
    *("layer_replication", "trainable_token_indices", "target_parameters", "use_qalora"),
    "init_lora_weights",
)
"""Fields with a meaning that is not known here, unless they are empty or `PLAIN`; other
initializations change the base too."""


def save_adapter(model: Transformer, folder: Path | str, base: str | None = None) -> None:
    """Write the adapters of a model, and every other weight that needs a gradient, as peft does.

    `base`: name of the model that they belong to. CheckpointError: there is none, or they differ in
    rank, alpha or dropout.
    """
    folder, own = Path(folder), adapters(model)
    kinds = {(one.rank, one.alpha, one.dropout.p) for one in own.values()}
    if len(kinds) != 1:
        found = "no adapters" if not own else "adapters of several kinds"
        raise CheckpointError(f"This model has {found}; a file has adapters of one kind.")
    ((rank, alpha, dropout),) = kinds
    whole = {
        name: p for name, p in model.named_parameters() if p.requires_grad and not is_factor(name)
    }
    modules = ("head" if name.startswith("head.") else name.rpartition(".")[0] for name in whole)
    tensors = {f"{PREFIX}{name}": p.detach() for name, p in whole.items()}
    for name, one in own.items():
        for letter, factor in zip("AB", one.factors, strict=True):
            tensors[f"{PREFIX}{name}.lora_{letter}.weight"] = factor.detach()
    folder.mkdir(parents=True, exist_ok=True)
    save_tensors(tensors, folder / WEIGHTS)
    values = {
        "peft_type": "LORA",
        "base_model_name_or_path": base,
        "r": rank,
        "lora_alpha": alpha,
        "lora_dropout": dropout,
        "target_modules": sorted(own),
        "modules_to_save": [one for one in dict.fromkeys(modules) if one not in own] or None,
        "bias": "none",
        "inference_mode": True,
    }
    write_json(folder / CONFIG, values)


def load_adapter(model: Transformer, folder: Path | str) -> None:
    """Put the adapters of a folder that peft or `save_adapter` wrote into a model, and its weights
    that were trained as a whole.

    CheckpointError: a file that is missing or damaged, an option that is not known here, or
    adapters of another model. ConfigError: the model has adapters. The model is unchanged then.
    """
    if adapters(model):
        raise ConfigError("This model has adapters already; merge them by `fold` first.")
    folder = Path(folder)
    values, path = _config(folder / CONFIG), folder / WEIGHTS
    factors: dict[str, dict[str, Tensor]] = {}
    whole: dict[str, Tensor] = {}
    for key, tensor in load_tensors(path).items():
        name = key.removeprefix(PREFIX)
        if not tensor.isfinite().all():
            raise CheckpointError(
                f"{path}: {name} holds values that are not finite; restore it from a backup."
            )
        if found := FACTOR.fullmatch(name):
            factors.setdefault(found[1], {})[found[2]] = tensor
        else:
            whole[name] = tensor
    _check(model, factors, whole, path)
    for name, own in factors.items():
        rank = len(own["A"])
        factor = values["lora_alpha"] / (rank**0.5 if values.get("use_rslora") else rank)
        adapted = substitute(model, name, rank, factor * rank, values.get("lora_dropout") or 0.0)
        _copy(adapted, own)
    named = dict(model.named_parameters(remove_duplicate=False))
    with torch.no_grad():
        for name, tensor in whole.items():
            named[name].copy_(tensor)


@torch.no_grad()
def _copy(adapted: LoRALinear, own: dict[str, Tensor]) -> None:
    for letter, factor in zip("AB", adapted.factors, strict=True):
        factor.copy_(own[letter])


def _config(path: Path) -> dict[str, Any]:
    """The values of `adapter_config.json`, those that are used here checked."""
    try:
        values = read_json(path)
    except FileNotFoundError:
        raise CheckpointError(
            f"{path} does not exist; give a folder with {CONFIG} and {WEIGHTS}."
        ) from None
    except (OSError, ValueError):
        raise CheckpointError(f"{path} is not readable JSON; restore it from a backup.") from None
    if not isinstance(values, dict) or values.get("peft_type") != "LORA":
        raise CheckpointError(f"{path} does not describe LoRA adapters; give a folder that does.")
    for name in UNKNOWN:
        if values.get(name) and values[name] not in PLAIN.get(name, ()):
            raise CheckpointError(
                f"{path}: {name}={values[name]!r} is not known here; merge the adapters with the "
                "program that made them."
            )
    alpha, dropout = values.get("lora_alpha"), values.get("lora_dropout") or 0.0
    if not _is_number(alpha) or not 0 < alpha < math.inf:
        raise CheckpointError(f"{path}: lora_alpha is {alpha!r}, not a number above 0.")
    if not _is_number(dropout) or not 0 <= dropout < 1:
        raise CheckpointError(f"{path}: lora_dropout is {dropout!r}, not a number from 0 to 1.")
    return values


def _is_number(value: object) -> TypeGuard[int | float]:
    return type(value) in (int, float)


def _check(
    model: Transformer,
    factors: dict[str, dict[str, Tensor]],
    whole: dict[str, Tensor],
    path: Path,
) -> None:
    """Raise CheckpointError unless the tensors of a file fit the model."""
    modules = dict(model.named_modules())
    named = dict(model.named_parameters(remove_duplicate=False))
    if not factors:
        raise CheckpointError(f"{path} holds no adapters; give a folder that does.")
    for name, own in factors.items():
        module = modules.get(name)
        if not isinstance(module, Linear):
            raise CheckpointError(
                f"{path} has an adapter of {name}, which is no linear map of this model; it is of "
                "another model."
            )
        shapes = {side: tuple(own[side].shape) for side in sorted(own)}
        rank = shapes.get("A", (0,))[0]
        wanted = {"A": (rank, module.in_features), "B": (module.out_features, rank)}
        if shapes != wanted or not rank:
            raise CheckpointError(
                f"{path}: the adapter of {name} has the shapes {shapes} and this model needs "
                f"{wanted}; it is of another model."
            )
    for name, tensor in whole.items():
        own = named.get(name)
        if own is None or own.shape != tensor.shape:
            raise CheckpointError(
                f"{path} holds {name} of shape {tuple(tensor.shape)}, which this model does not "
                "have; it is of another model."
            )
