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
from glassformer.tasks.objectives.answers import Answers
from glassformer.tasks.objectives.classes import InputClasses
from glassformer.tasks.objectives.masked import MaskedTokens
from glassformer.tasks.objectives.next_token import NextToken
from glassformer.tasks.objectives.objective import Vectors
from glassformer.tasks.objectives.pixels import Pixels
from glassformer.tasks.objectives.words import WordClasses
from glassformer.tasks.predictors.answer import Answer, Translate
from glassformer.tasks.predictors.chat import Chat, Reply
from glassformer.tasks.predictors.choose import Choose
from glassformer.tasks.predictors.classify import Classify
from glassformer.tasks.predictors.draw import Draw
from glassformer.tasks.predictors.embed import Embed
from glassformer.tasks.predictors.fill import Fill
from glassformer.tasks.predictors.generate import Generate
from glassformer.tasks.predictors.score import Score, ScoreTargets
from glassformer.tasks.predictors.tag import Tag
from glassformer.tasks.task import Kind

GENERATES = ("generates",)
CLASSES = Kind(InputClasses, (Classify, Embed), ("classes",), "classifies {inputs}")
ANSWERS = Kind(
    Answers,
    (Translate, Answer, ScoreTargets, Choose, Embed),
    GENERATES,
    "maps a text to another text",
)
KINDS = {
    "text-generation": Kind(
        NextToken, (Generate, Chat, Reply, Score, Choose, Embed), GENERATES, "continues a text"
    ),
    "fill-mask": Kind(
        MaskedTokens,
        (Fill, Embed),
        ("masked",),
        "predicts the masked tokens of a text",
    ),
    "text-to-text": ANSWERS,
    "image-text-to-text": ANSWERS,
    "audio-text-to-text": ANSWERS,
    "token-classification": Kind(
        WordClasses, (Tag, Embed), ("tags",), "assigns a tag to each word of a text"
    ),
    "text-classification": CLASSES,
    "image-classification": CLASSES,
    "audio-classification": CLASSES,
    "image-text-classification": CLASSES,
    "text-to-image": Kind(
        Pixels,
        (Draw, Embed),
        ("generates", "draws"),
        "draws an image of a text, pixel by pixel",
    ),
    "feature-extraction": Kind(Vectors, (Embed,), ("vectors",), "computes vectors"),
}


def kinds_of(recipe: Recipe) -> tuple[Kind, type[Processor]]:
    """Return the kind of task and the processor of a recipe.

    ConfigError: they, or its options, do not fit.
    """
    given, best = recipe.processor.input, recipe.train.evaluate.best
    if given not in (known := PIPELINES[recipe.task].inputs):
        raise ConfigError(
            f"task={recipe.task!r} does not read input={given!r}; use "
            f"{' or '.join(dict.fromkeys(known))}."
        )
    kind = KINDS[recipe.task]
    if best not in (metrics := kind.metrics(given)):
        raise ConfigError(
            f"train.evaluate.best={best!r} is no score of task={recipe.task!r}; use "
            f"{' or '.join(metrics)}."
        )
    return kind, recipe.inputs


def recipe_of_folder(model: ModelConfig, folder: Path) -> Recipe:
    """The recipe of a model folder without one: task and input are in `config.json`, the section
    `generate` in `generation_config.json` if that is there.

    CheckpointError: no task or input, or a file that cannot be read.
    """
    values = read_json(folder / "config.json")
    task, given = values.get("task"), values.get("input")
    if task not in KINDS or given not in PROCESSORS:
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
