"""The tasks by their names; which task a recipe, or a model without a recipe, has."""

from pathlib import Path

from glassformer.errors import ConfigError
from glassformer.media.palette import FILE as PALETTE
from glassformer.models.config import ModelConfig
from glassformer.processors.catalogue import processor_named
from glassformer.processors.processor import Processor
from glassformer.recipe.pipelines import PIPELINES
from glassformer.recipe.recipe import Recipe
from glassformer.tasks.classification import Classification
from glassformer.tasks.feature_extraction import FeatureExtraction
from glassformer.tasks.fill_mask import FillMask
from glassformer.tasks.task import Task
from glassformer.tasks.text_generation import TextGeneration
from glassformer.tasks.text_to_image import TextToImage
from glassformer.tasks.text_to_text import TextToText
from glassformer.tasks.token_classification import TokenClassification

KINDS: tuple[type[Task], ...] = (
    TextGeneration,
    FillMask,
    TextToText,
    TokenClassification,
    Classification,
    TextToImage,
    FeatureExtraction,
)
TASKS = {name: kind for kind in KINDS for name in kind.pipelines}


def kinds_of(recipe: Recipe) -> tuple[type[Task], type[Processor]]:
    """The task and the processor of a recipe; ConfigError: they, or its options, do not fit."""
    kind = TASKS[recipe.task]
    given = recipe.processor.input
    if given not in kind.inputs:
        raise ConfigError(
            f"task={recipe.task!r} does not read input={given!r}; use {' or '.join(kind.inputs)}."
        )
    best = recipe.train.evaluate.best
    if best not in kind.metrics:
        raise ConfigError(
            f"train.evaluate.best={best!r} is no score of task={recipe.task!r}; use "
            f"{' or '.join(kind.metrics)}."
        )
    return kind, processor_named(given)


def recipe_of_model(model: ModelConfig, folder: Path) -> Recipe:
    """The recipe of a folder with a model and no recipe: its task follows from what is there."""
    if (folder / PALETTE).is_file():
        task, given = "text-to-image", "parts"
    else:
        given = _input_of(model, folder)
        task = next(
            (
                name
                for name, of in PIPELINES.items()
                if model.head in of.heads
                and model.architecture in (*of.architectures, "encoder_decoder")
                and given in (of.input, *TASKS[name].inputs)
                and (of.input == given or model.head not in ("lm", "classify"))
            ),
            "feature-extraction",
        )
    return Recipe.of_model(task, given, model)


def _input_of(model: ModelConfig, folder: Path) -> str:
    if model.elements == "patches":
        heard = (folder / "audio.json").is_file() and not (folder / "image.json").is_file()
        return "audio" if heard else "image"
    if model.parts:
        return "parts"
    if model.architecture == "encoder_decoder":
        return "pairs"
    return {"lm": "documents", "masked_lm": "documents", "tag": "words"}.get(model.head, "text")
