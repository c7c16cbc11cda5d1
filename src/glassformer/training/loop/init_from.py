"""Start from another run: its trunk's configuration and its processor, and its head if asked."""

from dataclasses import replace
from pathlib import Path
from typing import Any

from glassformer.core.errors import ConfigError
from glassformer.core.record import Record
from glassformer.media import palette
from glassformer.media.audio import AudioReader
from glassformer.media.image import ImageConfig, ImageReader
from glassformer.media.palette import Palette
from glassformer.models.config import HEAD_FIELDS, ModelConfig
from glassformer.models.weights import read_config
from glassformer.processors.catalogue import processor_named
from glassformer.processors.config import ProcessorConfig
from glassformer.recipe.pipelines import PIPELINES
from glassformer.recipe.recipe import Recipe
from glassformer.tokenizers.text import Tokenizer
from glassformer.training.folder.model_files import check_model

READERS = {"image": ImageReader, "audio": AudioReader, "palette": Palette}
"""The reader of a run folder for each section of `processor` on which weights depend."""

OWN = {*HEAD_FIELDS, "dropout", "attention_dropout"}
"""Fields of a model that the recipe keeps: those of the head, and dropout."""
OF_TIED = {"tied", "head_bias", "head_scale"}
"""Fields of a head whose matrix is the embedding, which belongs to the trunk."""


def with_init_from(recipe: Recipe, begun: Recipe | None = None) -> Recipe:
    """The recipe with the trunk and the processor of `train.init_from`, by its absolute path.

    The image size may differ where the model reads nothing but images. A run that has `begun`, with
    that recipe, keeps what it took over then, whatever became of that folder. CheckpointError: the
    folder holds no model, or one that was changed. ConfigError: another architecture, other inputs
    or other readers; a head to keep of another task or with other classes.
    """
    own, started = processor_named(recipe.processor.input), begun and begun.processor
    if recipe.train.init_from is None:
        return replace(recipe, processor=own.completed(recipe.processor, started))
    folder = Path(recipe.train.init_from).expanduser().absolute()
    if begun is None:
        check_model(folder)
        trunk, source = read_config(folder), folder / "source_tokenizer.json"
        there = source.is_file()
        sides = {"shared": not there, "source_path": str(source) if there else None}
    else:
        trunk, tokenizer = begun.model, begun.processor.tokenizer
        sides = tokenizer.model_dump(include={"shared", "source_path"})
    for name in ("architecture", "elements"):
        if (theirs := getattr(trunk, name)) != (ours := getattr(recipe.model, name)):
            raise ConfigError(
                f"train.init_from={folder} has model.{name}={theirs!r} and the recipe has "
                f"{ours!r}; make them alike."
            )
    processor = recipe.processor
    changed: dict[str, Any] = _readers(processor, trunk, folder, begun)
    if not trunk.reads_patches:
        update = {"path": str(folder), **sides}
        changed["tokenizer"] = processor.tokenizer.model_copy(update=update)
    processor = own.completed(processor.model_copy(update=changed), started)
    recipe = replace(recipe, processor=processor)
    recipe = recipe.with_model(_taken_fields(recipe, trunk, folder, begun))
    train = recipe.train.model_copy(update={"init_from": str(folder)})
    return replace(recipe, train=train)


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
    taken = {k: v for k, v in trunk.model_dump().items() if k not in own}
    if begun is None and (new := recipe.processor.tokenizer.new_tokens):
        if recipe.processor.palette is not None:
            raise ConfigError(
                "processor.tokenizer.new_tokens would move the ids of colours, which follow those "
                "of the tokenizer; leave them out."
            )
        size = Tokenizer.load(folder).vocab_size + len(new)
        taken["vocab_size"] = max(trunk.vocab_size, size)
    return taken


def _check_head(recipe: Recipe, trunk: ModelConfig, folder: Path) -> None:
    """Raise ConfigError unless the head of a folder's model is one for the recipe."""
    heads, asked = PIPELINES[recipe.task].heads, recipe.model
    if trunk.head not in heads:
        raise ConfigError(
            f"train.finetune.keep_head keeps the head of {folder}, which is {trunk.head!r}, and "
            f"task={recipe.task!r} has {' or '.join(map(repr, heads))}; leave it out."
        )
    for name, value in (("classes", asked.classes), ("n_classes", asked.n_classes)):
        if value and value != getattr(trunk, name):
            raise ConfigError(
                f"model.{name} is {value}, and train.finetune.keep_head keeps the head of "
                f"{folder}, which has {getattr(trunk, name)}; leave out one of the two."
            )


def _readers(
    asked: ProcessorConfig, trunk: ModelConfig, folder: Path, begun: Recipe | None
) -> dict[str, Record]:
    """The sections of `READERS` that the recipe has, with the values of the folder."""
    own = {name: section for name in READERS if (section := getattr(asked, name)) is not None}
    if begun is not None:
        return {name: getattr(begun.processor, name) for name in own}
    patches, draws = trunk.reads_patches, (folder / palette.FILE).is_file()
    theirs = own.keys() if patches else {*trunk.parts, *(["palette"] if draws else [])}
    for name in sorted(theirs ^ own.keys()):
        asks, has = ("a", "none") if name in own else ("no", "one")
        raise ConfigError(
            f"The recipe has {asks} section processor.{name} and the model of "
            f"train.init_from={folder} has {has}; make them alike."
        )
    return {
        name: _taken_over(section, READERS[name].load(folder).config, folder, resized=patches)
        for name, section in own.items()
    }


def _taken_over(own: Record, theirs: Record, folder: Path, resized: bool) -> Record:
    """The folder's section with the fields that the recipe may change; ConfigError: the recipe
    contradicts another one."""
    values = theirs.model_dump()
    if isinstance(theirs, ImageConfig) and isinstance(own, ImageConfig):
        if resized and own.size is not None:
            values["size"] = own.size
        if theirs.channels is None and own.channels == theirs.found_channels:
            values["channels"] = own.channels
    for name in own.model_fields_set:
        asked = getattr(own, name)
        if asked is not None and _whole(asked) != _whole(values[name]):
            raise ConfigError(
                f"{own.section}.{name} is {asked!r}, and train.init_from={folder} has "
                f"{values[name]!r}, with which its weights were trained; leave it out."
            )
    return theirs.parse(values)


def _whole(value: Any) -> Any:
    """A square as its two sides."""
    return (value, value) if isinstance(value, int) else value
