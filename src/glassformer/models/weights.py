"""Weights as safetensors and configuration as JSON; loading is strict."""

import json
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file

from glassformer.core.axes import Shapes, Tensors
from glassformer.core.errors import CheckpointError, ConfigError
from glassformer.core.files import read_json, replacing
from glassformer.core.manifest import check_saved
from glassformer.layers.lora import plain_parameters
from glassformer.layers.position.interpolation import interpolate
from glassformer.models.config import ModelConfig
from glassformer.models.transformer import Transformer

WEIGHTS = "model.safetensors"
"""The file of a model in its folder."""
ABOUT_A_RUN = ("task", "input", "processor")
"""Keys of `config.json` beside the fields of the model."""
OF_TOKENS = {"embed.element.weight"} | {
    f"head.{name}" for name in ("weight", "bias", "unembed.weight", "unembed.bias")
}
"""Parameters with a row for each token."""
TRUNK = "its trunk is another one"
UNREADABLE = (ValueError, TypeError, LookupError, AttributeError, RuntimeError)
"""Errors of JSON that is no header; RecursionError is a RuntimeError."""
OF_A_GRID = ("learned", "sinusoidal_2d", "rotary_2d", "none")
"""Kinds of positions that are defined for another grid; the others count along the rows."""
LARGEST_CONFIG = 16 << 20
"""Bytes of a `config.json`; 50,000 names of classes have two million."""
LARGEST_HEADER = 16 << 20
"""Bytes of the names and shapes of a file's tensors; a block has about 2,000."""


def save_weights(model: Transformer, path: Path) -> None:
    """Write every parameter once (a tied head as the embedding), adapters merged, and replace
    `path` atomically."""
    save_tensors(dict(plain_parameters(model)), path)


def save_tensors(tensors: Tensors, path: Path, about: Mapping[str, str] | None = None) -> None:
    """Write tensors as safetensors, and replace `path` atomically. `about`: one entry about them,
    since safetensors writes several in any order."""
    with replacing(path) as temporary:
        temporary.touch()
        mode = temporary.stat().st_mode  # by umask; safetensors would let only the owner read
        try:
            save_file(
                {name: t.contiguous() for name, t in tensors.items()},
                temporary,
                metadata={**(about or {"format": "pt"})},
            )
        except SafetensorError as error:  # it reports a full disk by its own class
            raise CheckpointError(
                f"Cannot write {path}: {error}; free some space or choose another folder."
            ) from None
        temporary.chmod(mode)


def load_tensors(path: Path) -> Tensors:
    """Every tensor of a safetensors file; CheckpointError: missing, cut short, or not one."""
    with _reading(path), safe_open(path, framework="pt") as file:
        names = file.keys()  # `file` itself is no iterable of them
        return {name: file.get_tensor(name) for name in names}


def shapes_in(path: Path) -> Shapes:
    """Return the shape of every tensor of a safetensors file, from its header only: a length of 8
    bytes and JSON. CheckpointError: as `load_tensors`."""
    with _reading(path), path.open("rb") as file:
        size = int.from_bytes(file.read(8), "little")
        if size > LARGEST_HEADER:
            raise ValueError(f"its header has {size} bytes, more than {LARGEST_HEADER}")
        header = json.loads(file.read(size))
        shapes = {
            name: tuple(map(int, one["shape"]))
            for name, one in header.items()
            if name != "__metadata__"
        }
        if any(not 0 <= side < 1 << 63 for shape in shapes.values() for side in shape):
            raise ValueError("it has a tensor of an impossible shape")
        return shapes


@contextmanager
def _reading(path: Path) -> Iterator[None]:
    try:
        yield
    except FileNotFoundError:
        raise CheckpointError(
            f"{path} does not exist; train until the first checkpoint, or give another folder."
        ) from None
    except (SafetensorError, OSError, ArithmeticError, *UNREADABLE) as error:
        raise CheckpointError(
            f"{path} is not a readable safetensors file ({error}); it may be cut short."
        ) from None


def check_model(folder: Path, accept_changed: bool = False) -> None:
    """Raise CheckpointError unless a folder's model is whole and, without `accept_changed`, as it
    was saved.

    Sizes and shapes are compared first: nothing of a stranger's file is read or allocated by its
    own word.
    """
    config, path = read_config(folder), folder / WEIGHTS
    found = shapes_in(path)
    model = without_memory(config, len(found), path)
    _check_shapes(_shapes(dict(model.named_parameters())), found, path, "it is of another model")
    check_memory(model, path)
    if not accept_changed:
        check_saved(folder, (WEIGHTS, "config.json"))


def without_memory(config: ModelConfig, n_tensors: int, path: Path) -> Transformer:
    """The model of a configuration on "meta"; CheckpointError: it has more layers than its file has
    tensors."""
    for name, depth in ("n_layers", config.n_layers), ("n_encoder_layers", config.depth("encoder")):
        if depth > n_tensors:  # too many to be made even without memory
            raise CheckpointError(
                f"{path} has {n_tensors} tensors, too few for {name}={depth} of its config.json; "
                f"it is of another model."
            )
    return Transformer(config, seed=None, device="meta")


def check_memory(model: Transformer, path: Path) -> None:
    """Raise CheckpointError for weights that this machine has no memory for."""
    needed, memory = 4 * model.n_parameters, _memory()
    if needed > memory:
        raise CheckpointError(
            f"The weights of {path} need {needed / 1e9:,.0f} GB and this machine has "
            f"{memory / 1e9:,.0f} GB of memory; open it on a larger one."
        )


def _memory() -> float:
    """Bytes of memory of this machine; infinity: the system does not report it."""
    with suppress(AttributeError, ValueError, OSError):  # Windows
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return float("inf")


def load_weights(model: Transformer, path: Path) -> None:
    """Fill every parameter from the file; CheckpointError: names or shapes differ from the
    model's."""
    _fill(dict(model.named_parameters()), load_tensors(path), path, "it is of another model")


def load_trunk(
    model: Transformer, path: Path, keep_head: bool = False, first_new: int | None = None
) -> None:
    """Fill every parameter except the head's from another model's file, or with `keep_head` all;
    CheckpointError: a trunk that does not fit.

    Learned positions of another grid of patches (by the `config.json` beside it) are interpolated.
    The rows of tokens from `first_new` on are the mean of those before it (Hewitt 2021).
    """
    wanted, tensors = (
        {name: one for name, one in named if keep_head or not name.startswith("head.")}
        for named in (model.named_parameters(), load_tensors(path).items())
    )
    if model.config.grid is not None:
        _regrid(tensors, path, model.config)
    if first_new is not None:
        for name in tensors.keys() & OF_TOKENS:
            old = tensors[name][:first_new]
            mean = old.double().mean(0, keepdim=True).to(old.dtype)
            new = mean.expand(model.config.vocab_size - first_new, *old.shape[1:])
            tensors[name] = torch.cat([old, new])
    _fill(wanted, tensors, path, "its head or trunk is another one" if keep_head else TRUNK)


@torch.no_grad()
def _fill(wanted: Tensors, tensors: Tensors, path: Path, otherwise: str) -> None:
    """Copy the tensors of a file to the parameters of these names, which must be the same."""
    _check_shapes(_shapes(wanted), _shapes(tensors), path, otherwise)
    for name, tensor in tensors.items():
        if tensor.dtype != wanted[name].dtype:
            raise CheckpointError(
                f"{path}: {name} holds {tensor.dtype} and this model needs {wanted[name].dtype}; "
                f"{otherwise}."
            )
        if not tensor.isfinite().all():
            raise CheckpointError(
                f"{path}: {name} holds values that are not finite; restore it from a backup."
            )
    for name, parameter in wanted.items():
        parameter.copy_(tensors[name])


def _shapes(tensors: Tensors) -> Shapes:
    return {name: tuple(one.shape) for name, one in tensors.items()}


def _check_shapes(
    wanted: Shapes,
    found: Shapes,
    path: Path,
    otherwise: str,
) -> None:
    for name in sorted(wanted.keys() - found.keys()):
        raise CheckpointError(f"{path} lacks the parameter {name}; {otherwise}.")
    for name in sorted(found.keys() - wanted.keys()):
        raise CheckpointError(f"{path} holds {name}, which this model does not have; {otherwise}.")
    for name, shape in wanted.items():
        if found[name] != shape:
            raise CheckpointError(
                f"{path}: {name} has shape {found[name]} and this model needs {shape}; {otherwise}."
            )


def _regrid(tensors: Tensors, path: Path, config: ModelConfig) -> None:
    old, new, name = read_config(path.parent).grid, config.grid, "embed.position.weight"
    if old is None or new is None or old == new:
        return
    if config.position not in OF_A_GRID:
        raise CheckpointError(
            f"{path} is of {old[0]} x {old[1]} patches and this model of {new[0]} x {new[1]}, "
            f"which positions of kind {config.position!r} do not reach; use the size of its images."
        )
    if name in tensors:
        tensors[name] = interpolate(tensors[name], old, new)


def config_json(config: ModelConfig) -> dict[str, object]:
    """Content of `config.json`."""
    return {"model_type": "glassformer", "format": 1, **config.model_dump()}


def config_values(folder: Path) -> dict[str, Any]:
    """Return the object of a folder's `config.json`; CheckpointError: missing, or no object."""
    path = folder / "config.json"
    try:
        values = read_json(path, LARGEST_CONFIG)
    except FileNotFoundError:
        raise CheckpointError(
            f"{folder} holds no config.json; give the folder of a trained model."
        ) from None
    except OSError as error:
        raise CheckpointError(f"{path} cannot be read: {error.strerror or error}.") from None
    except ValueError:
        raise CheckpointError(f"{path} is not readable JSON; restore it from a backup.") from None
    if not isinstance(values, dict):
        raise CheckpointError(f"{path} does not describe a glassformer model; give a run folder.")
    return values


def read_config(folder: Path) -> ModelConfig:
    """Configuration in a folder's `config.json`; CheckpointError: missing or of another kind."""
    path, values = folder / "config.json", config_values(folder)
    if values.pop("model_type", None) != "glassformer":
        raise CheckpointError(
            f"{path} does not describe a glassformer model; give a run folder, and make one of a "
            "published model by `glassformer import`."
        )
    if values.pop("format", None) != 1:
        raise CheckpointError(
            f"{path} has an unknown format; use the version of glassformer that wrote it."
        )
    try:
        return ModelConfig.parse({k: v for k, v in values.items() if k not in ABOUT_A_RUN})
    except ConfigError as error:
        raise CheckpointError(f"{path}: {error}") from None


def load_model(folder: Path, device: torch.device | str = "cpu") -> Transformer:
    """Model of a folder with `config.json` and `model.safetensors`, in evaluation mode."""
    model = Transformer(read_config(folder), seed=None, device=device)
    load_weights(model, folder / WEIGHTS)
    return model.eval()
