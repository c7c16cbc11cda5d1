"""The model that a run begins with, and the model of each of its checkpoints.

train.finetune.method   a checkpoint holds             beside it, in RUN/base.safetensors
full                    every weight                   -
frozen                  the head (and train_also)      the model before the first step
lora                    adapters, head (train_also)    the same, without adapters
"""

from pathlib import Path

import torch

from glassformer.core.errors import CheckpointError, ConfigError
from glassformer.core.manifest import digest
from glassformer.finetune.adapters import adapt, fold
from glassformer.models.config import ModelConfig
from glassformer.models.transformer import Transformer
from glassformer.models.weights import load_trunk, load_weights, save_weights
from glassformer.recipe.recipe import Recipe
from glassformer.tasks.task import Task
from glassformer.training.folder.checkpoints import Checkpoints
from glassformer.training.folder.model_files import BASE


def first_model(
    task: Task, run: Path | None, device: torch.device
) -> tuple[Transformer, str | None]:
    """The model before the first step, ready to be trained, and the SHA-256 of RUN/base.safetensors
    (None: every weight is trained, and there is none; or no run is given to write it in). On "meta"
    it has no weights.

    CheckpointError: a trunk that does not fit; ConfigError: see `adapt`, or new tokens that would
    not be trained.
    """
    train, own = task.recipe.train, task.recipe.processor.tokenizer.new_tokens
    seed = None if device.type == "meta" else train.seed
    model, base = Transformer(task.recipe.model, seed, device), None
    if train.init_from is not None:
        new = [task.processor.tokenizer.specials[symbol] for symbol in own]
        weights = Path(train.init_from) / "model.safetensors"
        load_trunk(model, weights, train.finetune.keep_head, min(new, default=None))
    if train.finetune.partial and run is not None:
        save_weights(model, run / BASE)
        base = digest(run / BASE)
    adapt(model, train.finetune, train.seed)
    if own and not model.embed.element.get_parameter("weight").requires_grad:
        raise ConfigError(
            f"processor.tokenizer.new_tokens {', '.join(own)} would stay at the mean of the other "
            "tokens, because the embedding is not trained; add train.finetune.train_also=[embed]."
        )
    return model, base


def model_to_fill(
    recipe: Recipe, run: Path, base: str | None, device: torch.device | str = "cpu"
) -> Transformer:
    """The model of a run for the weights of a checkpoint; CheckpointError: RUN/base.safetensors is
    not the one of SHA-256 `base`."""
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
    """The model of a run as it was at a step, adapters merged, in evaluation mode.

    ConfigError: there is no checkpoint of that step; CheckpointError: it is damaged.
    """
    checkpoints = Checkpoints(run)
    checkpoints.weights(step)
    if recipe is None or not recipe.train.finetune.partial:
        model = Transformer(config, seed=None, device=device)
        checkpoints.load(step, model)
    else:
        model = model_to_fill(recipe, run, checkpoints.state(step).base, device)
        checkpoints.load(step, model)
        fold(model)
        model.requires_grad_(True)
    return model.eval()
