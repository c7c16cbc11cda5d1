"""The models of a run's checkpoints.

train.finetune.method   a checkpoint holds             beside it, in RUN/base.safetensors
full                    every weight                   -
frozen                  the head (and train_also)      the model before the first step
lora                    adapters, head (train_also)    the same, without adapters
"""

from collections.abc import Callable, Iterable, Mapping
from pathlib import Path

import torch
from torch import Tensor

from glassformer.core.distributed.shards import local
from glassformer.core.errors import CheckpointError
from glassformer.core.manifest import digest
from glassformer.finetune.adapters import adapt, fold
from glassformer.models.config import ModelConfig
from glassformer.models.transformer import Transformer
from glassformer.models.weights import load_weights
from glassformer.recipe.recipe import Recipe
from glassformer.training.folder.checkpoints import OPTIMIZER, WEIGHTS, Checkpoints
from glassformer.training.folder.model_files import BASE
from glassformer.training.folder.part_files import load_parts, names_in, part_files


def tensors_to_save(model: Transformer) -> dict[str, Tensor]:
    """Return what a checkpoint holds of a model."""
    return {name: p for name, p in model.named_parameters() if p.requires_grad}


def fill(checkpoints: Checkpoints, step: int, model: Transformer) -> None:
    """Fill this process's part of what is trained of a model from the checkpoint of a step;
    CheckpointError: it is of another one."""
    _fill(model, part_files(checkpoints.path(step), WEIGHTS))


def fill_optimizer(
    checkpoints: Checkpoints,
    step: int,
    blank: Callable[[Iterable[str]], Mapping[str, Tensor]],
) -> None:
    """Fill the state of an optimizer, which `blank` begins for its keys (see `Optimizer.blank`),
    from the checkpoint of a step; CheckpointError: it is of another one."""
    files = part_files(checkpoints.path(step), OPTIMIZER)
    load_parts(blank(names_in(files)), files)


def fill_mean(checkpoints: Checkpoints, steps: list[int], model: Transformer) -> None:
    """Fill what is trained of a model with the mean of several steps, added up in float64;
    CheckpointError: one of them is damaged."""
    totals: dict[str, Tensor] = {}
    for step in steps:
        _fill(model, checkpoints.weights(step))
        for name, parameter in tensors_to_save(model).items():
            value = parameter.detach().cpu().double()
            totals[name] = totals[name].add_(value) if name in totals else value.clone()
    with torch.no_grad():
        for name, parameter in tensors_to_save(model).items():
            parameter.copy_((totals[name] / len(steps)).to(parameter.dtype))


def _fill(model: Transformer, files: list[Path]) -> None:
    load_parts(tensors_to_save(model), files)
    for name, parameter in tensors_to_save(model).items():
        if not local(parameter).isfinite().all():
            raise CheckpointError(
                f"{files[0].parent}: {name} holds values that are not finite; restore it from a "
                "backup."
            )


def model_to_fill(
    recipe: Recipe, run: Path, base: str | None, device: torch.device | str = "cpu"
) -> Transformer:
    """Return the model of a run for the weights of a checkpoint; CheckpointError:
    RUN/base.safetensors is not the one of SHA-256 `base`."""
    model = Transformer(recipe.model, None, device)
    if recipe.train.finetune.partial:
        path = run / BASE
        if not path.is_file() or digest(path) != base:
            what = "is not as it was written" if path.is_file() else "is missing"
            raise CheckpointError(
                f"{path}, to which the trained weights of {run} belong, {what}; restore it from a "
                "backup."
            )
        load_weights(model, path)
    adapt(model, recipe.train.finetune, recipe.train.seed)
    return model


def model_at(
    run: Path, step: int, recipe: Recipe | None, config: ModelConfig, device: torch.device
) -> Transformer:
    """Return the model of a run at a step, adapters merged, in evaluation mode.

    ConfigError: there is no checkpoint of that step; CheckpointError: it is damaged.
    """
    checkpoints = Checkpoints(run)
    checkpoints.weights(step)
    if recipe is not None and recipe.train.finetune.partial:
        model = model_to_fill(recipe, run, checkpoints.state(step).base, device)
    else:
        model = Transformer(config, seed=None, device=device)
    fill(checkpoints, step, model)
    fold(model)
    return model.requires_grad_(True).eval()
