"""The tasks by their names; the task of a recipe, or of a model folder without a recipe."""

import json
from pathlib import Path

from glassformer.errors import CheckpointError, ConfigError
from glassformer.models.config import ModelConfig
from glassformer.processors.catalogue import PROCESSORS, processor_named
from glassformer.processors.processor import Processor
from glassformer.recipe.pipelines import PIPELINES
from glassformer.recipe.recipe import Recipe
from glassformer.recipe.train import TrainConfig
from glassformer.tasks.classification import Classification
from glassformer.tasks.feature_extraction import FeatureExtraction
from glassformer.tasks.fill_mask import FillMask
from glassformer.tasks.task import Task
from glassformer.tasks.text_generation import TextGeneration
from glassformer.tasks.text_to_image import TextToImage
from glassformer.tasks.text_to_text import PairsToText, PartsToText
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
OF_INPUT: dict[str, type[Task]] = {"pairs": PairsToText}
"""Inputs with a task of their own, whatever its name."""
KINDS = frozenset((*TASKS.values(), *OF_INPUT.values()))


def kinds_of(recipe: Recipe) -> tuple[type[Task], type[Processor]]:
    """The task and the processor of a recipe; ConfigError: they, or its options, do not fit."""
    if recipe.input not in (known := PIPELINES[recipe.task].inputs):
        raise ConfigError(
            f"task={recipe.task!r} does not read input={recipe.input!r}; use "
            f"{' or '.join(dict.fromkeys(known))}."
        )
    kind = OF_INPUT.get(recipe.input, TASKS[recipe.task])
    processor = processor_named(recipe.input)
    of_some = frozenset[str]().union(*(one.options for one in (*KINDS, *PROCESSORS.values())))
    for field in sorted(of_some - kind.options - processor.options):
        if getattr(recipe.train, field) != TrainConfig.model_fields[field].default:
            raise ConfigError(f"train.{field} has no use for task={recipe.task!r}; leave it out.")
    if recipe.train.best not in kind.metrics:
        raise ConfigError(
            f"train.best={recipe.train.best!r} is no score of task={recipe.task!r}; use "
            f"{' or '.join(kind.metrics)}."
        )
    for section in ("image", "audio", "palette"):
        known = section in (*processor.sections, *kind.sections)
        if getattr(recipe, section) is not None and not known:
            raise ConfigError(
                f"The section {section} has no use for task={recipe.task!r} with "
                f"input={recipe.input!r}; leave it out."
            )
    return kind, processor


def recipe_of_folder(model: ModelConfig, folder: Path) -> Recipe:
    """The recipe of a model folder without one: its task and input are in `config.json`.

    CheckpointError: they are not.
    """
    values = json.loads((folder / "config.json").read_text(encoding="utf-8"))
    task, given = values.get("task"), values.get("input")
    if task not in TASKS or given not in PROCESSORS:
        raise CheckpointError(
            f"{folder} has no recipe.yaml, and its config.json names task {task!r} and input "
            f'{given!r}; add them, for example "task": "text-generation", "input": '
            '"documents".'
        )
    return Recipe.of_model(task, given, model)
