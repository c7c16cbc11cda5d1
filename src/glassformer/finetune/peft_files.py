"""Adapters as files in the layout of peft: `adapter_config.json` and `adapter_model.safetensors`.

base_model.model.model.layers.0.self_attn.q_proj.lora_A.weight    | A  [r, in]
base_model.model.model.layers.0.self_attn.q_proj.lora_B.weight    | B  [out, r]
base_model.model.score.weight                                     | a weight trained as a whole

Names are those of the published class that the model fits, as in an export of it; of a model that
fits none, our own. Both are read.
"""

import re
from collections import defaultdict
from contextlib import suppress
from pathlib import Path
from typing import Annotated, Literal

import torch
from pydantic import Field

from glassformer.core.axes import Tensors
from glassformer.core.errors import CheckpointError, ConfigError
from glassformer.core.files import read_json, write_json
from glassformer.core.record import Fraction, Record, Size
from glassformer.finetune.adapters import substitute
from glassformer.finetune.published_names import Adapter, Adapters, classes_of, read, write
from glassformer.layers.linear.linear import Linear
from glassformer.layers.lora import adapters, is_factor
from glassformer.models.transformer import Transformer
from glassformer.models.weights import load_tensors, save_tensors

CONFIG, WEIGHTS = "adapter_config.json", "adapter_model.safetensors"
PREFIX = "base_model.model."
FACTOR = re.compile(r"(.+)\.lora_([AB])\.weight")
UNKNOWN = (
    "use_dora",
    "lora_bias",
    "use_qalora",
    "layer_replication",
    "trainable_token_indices",
    "target_parameters",
)
"""Options with a meaning that is not known here."""


class PeftConfig(Record):
    """The values of `adapter_config.json` that are used here."""

    section = CONFIG

    peft_type: Literal["LORA"]
    lora_alpha: Size
    lora_dropout: Fraction = 0.0
    alpha_pattern: dict[Annotated[str, Field(pattern=r"^\w+(\.\w+)*$")], Size] = Field({})
    """Of modules by their names, which peft takes as expressions."""
    use_rslora: bool = False
    bias: Literal["none"] = "none"
    init_lora_weights: bool | Literal["gaussian", "orthogonal"] = True
    """Other initializations change the base too."""

    def alpha(self, module: str) -> float:
        """The alpha of a map, by its name in the file."""
        own = self.alpha_pattern
        found = (own[key] for key in own if f".{module}".endswith(f".{key}"))
        return next(found, self.lora_alpha)


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
    saved = _publish(model, alpha)
    tensors = dict(saved.whole)
    for name, one in saved.maps.items():
        tensors |= {f"{name}.lora_A.weight": one.a, f"{name}.lora_B.weight": one.b}
    folder.mkdir(parents=True, exist_ok=True)
    save_tensors({f"{PREFIX}{name}": one for name, one in tensors.items()}, folder / WEIGHTS)
    # joined maps have a larger rank and alpha
    joined = {name: one for name, one in saved.maps.items() if one.rank != rank}
    values = {
        "peft_type": "LORA",
        "base_model_name_or_path": base,
        "r": rank,
        "lora_alpha": alpha,
        "lora_dropout": dropout,
        "fan_in_fan_out": saved.transposed,
        "bias": "none",
        "inference_mode": True,
        "rank_pattern": {name: one.rank for name, one in joined.items()},
        "alpha_pattern": {name: one.alpha for name, one in joined.items()},
        "target_modules": sorted(saved.maps),
        "modules_to_save": _whole_modules(saved) or None,
    }
    write_json(folder / CONFIG, values)


def _publish(model: Transformer, alpha: float) -> Adapters:
    """Return the adapters and other trained weights by the names of a published class that fits, or
    else by our own."""
    maps = {
        name: Adapter(one.lora_a.detach(), one.lora_b.detach(), alpha)
        for name, one in adapters(model).items()
    }
    whole = {
        name: p.detach()
        for name, p in model.named_parameters()
        if p.requires_grad and not is_factor(name)
    }
    plain, ours = Transformer(model.config, seed=None, device="meta"), Adapters(maps, whole)
    fitting = (write(plain, ours, known) for known in classes_of(plain))
    return next((one for one in fitting if one is not None), ours)


def _whole_modules(saved: Adapters) -> list[str]:
    """Return the modules without adapters whose weights are saved whole."""
    owners = ("head" if one.startswith("head.") else one.rpartition(".")[0] for one in saved.whole)
    return [one for one in dict.fromkeys(owners) if one not in saved.maps]


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
    found = _by_our_names(model, _read(values, path))
    _check(model, found, path)
    with torch.no_grad():
        for name, own in found.maps.items():
            adapted = substitute(model, name, own.rank, own.alpha, values.lora_dropout)
            adapted.lora_a.copy_(own.a)
            adapted.lora_b.copy_(own.b)
        for name, tensor in found.whole.items():
            model.get_parameter(name).copy_(tensor)


def _read(values: PeftConfig, path: Path) -> Adapters:
    """Read the tensors of a file, by the names there."""
    factors = defaultdict[str, Tensors](dict)
    whole: Tensors = {}
    for key, tensor in load_tensors(path).items():
        name = key.removeprefix(PREFIX)
        if not tensor.isfinite().all():
            raise CheckpointError(
                f"{path}: {name} holds values that are not finite; restore it from a backup."
            )
        if found := FACTOR.fullmatch(name):
            factors[found[1]][found[2]] = tensor
        else:
            whole[name] = tensor
    maps: dict[str, Adapter] = {}
    for name, own in factors.items():
        shapes = {side: tuple(own[side].shape) for side in sorted(own)}
        rank = shapes.get("A", (0,))[0]
        if len(own) < 2 or not rank or {*map(len, shapes.values())} != {2}:
            raise CheckpointError(
                f"{path}: the adapter of {name} has the shapes {shapes}, not those of two factors; "
                "restore it from a backup."
            )
        scale = rank**0.5 if values.use_rslora else 1
        maps[name] = Adapter(own["A"], own["B"], values.alpha(name) * scale)
    return Adapters(maps, whole)


def _by_our_names(model: Transformer, found: Adapters) -> Adapters:
    """Return adapters by our names, from those of a published class if they are in its names."""
    if found.maps.keys() <= dict(model.named_modules()).keys():
        return found
    plain = Transformer(model.config, seed=None, device="meta")
    for known in classes_of(plain):
        with suppress(RuntimeError, ValueError):  # of other shapes, as is said below
            if (ours := read(plain, found, known)) is not None:
                return ours
    return found


def _config(path: Path) -> PeftConfig:
    """The values of `adapter_config.json`."""
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
        if value := values.get(name):
            raise CheckpointError(
                f"{path}: {name}={value!r:.100} is not known here; merge the adapters with the "
                "program that made them."
            )
    known = {key: values[key] for key in PeftConfig.model_fields if values.get(key) is not None}
    try:
        return PeftConfig.parse(known)
    except ConfigError as error:
        raise CheckpointError(f"{path.parent / str(error)}") from None


def _check(model: Transformer, found: Adapters, path: Path) -> None:
    """Raise CheckpointError unless the tensors of a file fit the model."""
    modules = dict(model.named_modules())
    weights = dict(model.named_parameters(remove_duplicate=False))
    if not found.maps:
        raise CheckpointError(f"{path} holds no adapters; give a folder that does.")
    for name, one in found.maps.items():
        module = modules.get(name)
        if not isinstance(module, Linear):
            raise CheckpointError(
                f"{path} has an adapter of {name}, which is no linear map of this model; it is of "
                "another model."
            )
        shapes = tuple(one.a.shape), tuple(one.b.shape)
        wanted = (one.rank, module.in_features), (module.out_features, one.rank)
        if shapes != wanted:
            raise CheckpointError(
                f"{path}: the adapter of {name} has factors of the shapes {shapes} and this model "
                f"needs {wanted}; it is of another model."
            )
    for name, tensor in found.whole.items():
        if name not in weights or weights[name].shape != tensor.shape:
            raise CheckpointError(
                f"{path} holds {name} of shape {tuple(tensor.shape)}, which this model does not "
                "have; it is of another model."
            )
