"""Start from another run: its trunk's configuration and its processor, and its head on request."""

from dataclasses import replace
from pathlib import Path
from typing import Any

from glassformer.core.errors import ConfigError
from glassformer.models.config import HEAD_FIELDS, ModelConfig
from glassformer.models.weights import check_model, read_config
from glassformer.processors.init_from import vocabulary
from glassformer.recipe.pipelines import PIPELINES
from glassformer.recipe.recipe import Recipe

OWN = {*HEAD_FIELDS, "dropout", "attention_dropout"}
"""Fields of a model that the recipe keeps: those of the head, and dropout."""
OF_TIED = {"tied", "head_bias", "head_scale"}
"""Fields of a head whose matrix is the embedding, which belongs to the trunk."""


def with_init_from(recipe: Recipe, begun: Recipe | None = None) -> Recipe:
    """Return the recipe with trunk and processor of `train.init_from`, by its absolute path.

    The image size may differ where the model reads only images. A run that has `begun`, with that
    recipe, keeps what it took over then, also if that folder has changed. CheckpointError: the
    folder holds no model, or one that was changed. ConfigError: another architecture, other inputs
    or other readers; a head to keep of another task or with other classes.
    """
    started = begun and begun.processor
    if recipe.train.init_from is None:
        return replace(recipe, processor=recipe.inputs.completed(recipe.processor, started))
    folder = Path(recipe.train.init_from).expanduser().absolute()
    if begun is None:
        check_model(folder)
    trunk = read_config(folder) if begun is None else begun.model
    for name in ("architecture", "elements"):
        if (theirs := getattr(trunk, name)) != (ours := getattr(recipe.model, name)):
            raise ConfigError(
                f"train.init_from={folder} has model.{name}={theirs!r} and the recipe has "
                f"{ours!r}; make them alike."
            )
    taken = recipe.inputs.take_over(recipe.processor, trunk, folder, started)
    recipe = replace(recipe, processor=recipe.inputs.completed(taken, started))
    recipe = recipe.with_model(_taken_fields(recipe, trunk, folder, begun))
    return recipe.change("train", {"init_from": str(folder)})


def _taken_fields(
    recipe: Recipe, trunk: ModelConfig, folder: Path, begun: Recipe | None
) -> dict[str, Any]:
    """The fields of the folder's model that the recipe's model has too."""
    own = OWN
    if recipe.train.finetune.keep_head:
        _check_head(recipe, trunk, folder)
        own = OWN - {*HEAD_FIELDS}
    elif trunk.tied and trunk.head == recipe.model.head:
        own = OWN - OF_TIED
    taken = trunk.model_dump(exclude=own)
    if begun is None and (new := recipe.processor.tokenizer.new_tokens):
        if recipe.processor.palette is not None:
            raise ConfigError(
                "processor.tokenizer.new_tokens would move the ids of colours, which follow those "
                "of the tokenizer; leave them out."
            )
        taken["vocab_size"] = max(trunk.vocab_size, vocabulary(folder) + len(new))
    return taken


def _check_head(recipe: Recipe, trunk: ModelConfig, folder: Path) -> None:
    """Raise ConfigError unless the head of a folder's model is one for the recipe."""
    heads = PIPELINES[recipe.task].heads
    if trunk.head not in heads:
        raise ConfigError(
            f"train.finetune.keep_head keeps the head of {folder}, which is {trunk.head!r}, and "
            f"task={recipe.task!r} has {' or '.join(map(repr, heads))}; leave it out."
        )
    for name in ("classes", "n_classes"):
        value, own = getattr(recipe.model, name), getattr(trunk, name)
        if value and value != own:
            raise ConfigError(
                f"model.{name} is {value}, and train.finetune.keep_head keeps the head of "
                f"{folder}, which has {own}; leave out one of the two."
            )
