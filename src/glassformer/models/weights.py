"""Weights as safetensors and configuration as JSON; loading is strict."""

import json
from collections.abc import Mapping
from pathlib import Path

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor

from glassformer.errors import CheckpointError, ConfigError
from glassformer.files import replacing
from glassformer.layers.position import interpolated
from glassformer.models.config import ModelConfig
from glassformer.models.resolution import OF_A_GRID
from glassformer.models.transformer import Transformer


def save_weights(model: Transformer, path: Path) -> None:
    """Write every parameter once (a tied head as the embedding) and replace `path` atomically."""
    save_tensors({name: p.detach() for name, p in model.named_parameters()}, path)


def save_tensors(tensors: dict[str, Tensor], path: Path) -> None:
    """Write tensors as safetensors and replace `path` atomically."""
    with replacing(path) as temporary:
        temporary.touch()
        mode = temporary.stat().st_mode  # by umask; safetensors would let only the owner read
        try:
            save_file(
                {name: t.contiguous() for name, t in tensors.items()},
                temporary,
                metadata={"format": "pt"},
            )
        except SafetensorError as error:  # it reports a full disk by its own class
            raise CheckpointError(
                f"Cannot write {path}: {error}; free some space or choose another folder."
            ) from None
        temporary.chmod(mode)


def load_tensors(path: Path) -> dict[str, Tensor]:
    """Every tensor of a safetensors file; CheckpointError: missing, cut short, or not one."""
    try:
        with safe_open(path, framework="pt") as file:
            names = file.keys()  # `file` itself is no iterable of them
            return {name: file.get_tensor(name) for name in names}
    except FileNotFoundError:
        raise CheckpointError(
            f"{path} does not exist; give a folder with a trained model."
        ) from None
    except (SafetensorError, OSError, ValueError, TypeError, RuntimeError) as error:
        raise CheckpointError(
            f"{path} is not a readable safetensors file ({error}); it may be cut short."
        ) from None


def load_weights(model: Transformer, path: Path) -> None:
    """Fill every parameter from the file; CheckpointError: names or shapes differ from the
    model's."""
    _fill(dict(model.named_parameters()), load_tensors(path), path, "it is of another model")


def load_trunk(model: Transformer, path: Path) -> None:
    """Fill every parameter except the head's from another model's file; CheckpointError: a trunk
    that does not fit.

    Learned positions of another grid of patches (by the `config.json` beside it) are interpolated.
    """
    wanted, tensors = (
        {name: one for name, one in named if not name.startswith("head.")}
        for named in (model.named_parameters(), load_tensors(path).items())
    )
    if model.config.grid is not None:
        _regrid(tensors, path, model.config)
    _fill(wanted, tensors, path, "its trunk is another one")


def _fill(
    wanted: Mapping[str, Tensor], tensors: Mapping[str, Tensor], path: Path, otherwise: str
) -> None:
    """Copy the tensors of a file to the parameters of these names, which must be the same."""
    for name in sorted(wanted.keys() - tensors.keys()):
        raise CheckpointError(f"{path} lacks the parameter {name}; {otherwise}.")
    for name in sorted(tensors.keys() - wanted.keys()):
        raise CheckpointError(f"{path} holds {name}, which this model does not have; {otherwise}.")
    for name, parameter in wanted.items():
        shape, dtype = tuple(tensors[name].shape), tensors[name].dtype
        if shape != parameter.shape:
            raise CheckpointError(
                f"{path}: {name} has shape {shape} and this model needs {tuple(parameter.shape)}; "
                f"{otherwise}."
            )
        if not dtype.is_floating_point:
            raise CheckpointError(f"{path}: {name} holds {dtype}, no weights; {otherwise}.")
    with torch.no_grad():
        for name, parameter in wanted.items():
            parameter.copy_(tensors[name])


def _regrid(tensors: dict[str, Tensor], path: Path, config: ModelConfig) -> None:
    old, new, name = read_config(path.parent).grid, config.grid, "embed.position.weight"
    if old is None or new is None or old == new:
        return
    if config.position not in OF_A_GRID:
        raise CheckpointError(
            f"{path} is of {old[0]} x {old[1]} patches and this model of {new[0]} x {new[1]}, "
            f"which positions of kind {config.position!r} do not reach; use the size of its images."
        )
    if name in tensors:
        tensors[name] = interpolated(tensors[name], old, new)


def config_json(config: ModelConfig) -> dict[str, object]:
    """Content of `config.json`."""
    return {"model_type": "glassformer", "format": 1, **config.model_dump()}


def read_config(folder: Path) -> ModelConfig:
    """Configuration in a folder's `config.json`; CheckpointError: missing or of another kind."""
    path = folder / "config.json"
    try:
        values = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise CheckpointError(
            f"{folder} holds no config.json; give the folder of a trained model."
        ) from None
    except (OSError, ValueError, RecursionError):
        raise CheckpointError(f"{path} is not readable JSON; restore it from a backup.") from None
    if not isinstance(values, dict) or values.pop("model_type", None) != "glassformer":
        raise CheckpointError(f"{path} does not describe a glassformer model; give a run folder.")
    if values.pop("format", None) != 1:
        raise CheckpointError(
            f"{path} has an unknown format; use the version of glassformer that wrote it."
        )
    try:  # a run's task and input stand beside the fields of its model
        return ModelConfig.parse({k: v for k, v in values.items() if k not in ("task", "input")})
    except ConfigError as error:
        raise CheckpointError(f"{path}: {error}") from None


def load_model(folder: Path, device: torch.device | str = "cpu") -> Transformer:
    """Model of a folder with `config.json` and `model.safetensors`, in evaluation mode."""
    path = folder / "model.safetensors"
    if not path.is_file():
        raise CheckpointError(
            f"{path} does not exist; train until the first checkpoint, or give another folder."
        )
    model = Transformer(read_config(folder), seed=None, device=device)
    load_weights(model, path)
    return model.eval()
