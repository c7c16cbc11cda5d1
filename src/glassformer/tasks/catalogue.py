"""The tasks by their names; the task of a recipe, or of a model folder without a recipe."""

from dataclasses import replace
from pathlib import Path

from glassformer.core.errors import CheckpointError, ConfigError
from glassformer.core.files import read_json
from glassformer.models.config import ModelConfig
from glassformer.processors.catalogue import PROCESSORS
from glassformer.processors.processor import Processor
from glassformer.recipe.pipelines import PIPELINES
from glassformer.recipe.recipe import Recipe
from glassformer.runtime.config import GenerateConfig
from glassformer.tasks.classification import Classification
from glassformer.tasks.conversations import Conversations
from glassformer.tasks.feature_extraction import FeatureExtraction
from glassformer.tasks.fill_mask import FillMask
from glassformer.tasks.parts_to_text import PartsToText
from glassformer.tasks.task import Task
from glassformer.tasks.text_generation import TextGeneration
from glassformer.tasks.text_to_image import TextToImage
from glassformer.tasks.text_to_text import PairsToText
from glassformer.tasks.token_classification import TokenClassification

TASKS: dict[str, type[Task]] = {
    "text-generation": TextGeneration,
    "fill-mask": FillMask,
    "text-to-text": PartsToText,
    "image-text-to-text": PartsToText,
    "audio-text-to-text": PartsToText,
    "token-classification": TokenClassification,
    "text-classification": Classification,
    "image-classification": Classification,
    "audio-classification": Classification,
    "image-text-classification": Classification,
    "text-to-image": TextToImage,
    "feature-extraction": FeatureExtraction,
}
OF_INPUT: dict[str, type[Task]] = {"pairs": PairsToText, "messages": Conversations}
"""Inputs with a task of their own, whatever its name."""


def kinds_of(recipe: Recipe) -> tuple[type[Task], type[Processor]]:
    """The task and the processor of a recipe; ConfigError: they, or its options, do not fit."""
    given, best = recipe.processor.input, recipe.train.evaluate.best
    if given not in (known := PIPELINES[recipe.task].inputs):
        raise ConfigError(
            f"task={recipe.task!r} does not read input={given!r}; use "
            f"{' or '.join(dict.fromkeys(known))}."
        )
    kind = OF_INPUT.get(given, TASKS[recipe.task])
    if best not in kind.metrics:
        raise ConfigError(
            f"train.evaluate.best={best!r} is no score of task={recipe.task!r}; use "
            f"{' or '.join(kind.metrics)}."
        )
    return kind, recipe.inputs


def recipe_of_folder(model: ModelConfig, folder: Path) -> Recipe:
    """The recipe of a model folder without one: task and input are in `config.json`, the section
    `generate` in `generation_config.json` if that is there.

    CheckpointError: no task or input, or a file that cannot be read.
    """
    values = read_json(folder / "config.json")
    task, given = values.get("task"), values.get("input")
    if task not in TASKS or given not in PROCESSORS:
        raise CheckpointError(
            f"{folder} has no recipe.yaml, and its config.json names task {task!r} and input "
            f'{given!r}; add them, for example "task": "text-generation", "input": '
            '"documents".'
        )
    own = values.get("processor", {})
    if not isinstance(own, dict):
        raise CheckpointError(f"{folder}/config.json: processor holds {own!r:.80}, no fields.")
    recipe = Recipe.of_model(task, {**own, "input": given}, model)
    path = folder / "generation_config.json"
    if not path.is_file():
        return recipe
    try:
        generate = GenerateConfig.parse(read_json(path))
    except (OSError, ValueError, TypeError):
        raise CheckpointError(f"{path} is not readable JSON; restore it from a backup.") from None
    except ConfigError as error:
        raise CheckpointError(f"{path}: {error}") from None
    return replace(recipe, generate=generate)
