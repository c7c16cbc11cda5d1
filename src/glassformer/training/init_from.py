"""What a run takes over from another one: its trunk's form and how it reads its data; a head is
always new."""

from dataclasses import replace
from pathlib import Path
from typing import Any

from glassformer.errors import ConfigError
from glassformer.media import palette
from glassformer.media.audio import AudioReader
from glassformer.media.image import ImageConfig, ImageReader
from glassformer.media.palette import Palette
from glassformer.models.config import HEAD_FIELDS, ModelConfig
from glassformer.models.weights import read_config
from glassformer.recipe.recipe import Recipe, Section

READERS = {"image": ImageReader, "audio": AudioReader, "palette": Palette}
"""What finds in a run folder how it reads, or draws, by the section of a recipe that says so."""

OWN = {*HEAD_FIELDS, "dropout", "attention_dropout"}
"""Fields of a model that the recipe keeps: those of its head, and how much is dropped while
training."""


def with_start(recipe: Recipe, begun: Recipe | None = None) -> Recipe:
    """The recipe with the trunk and the tokenizers of `train.init_from`, by its absolute path.

    Of pictures and recordings, with the way in which it reads and draws them; where the model reads
    nothing else, the size of pictures may be another one.

    A run that has `begun`, by that recipe, goes on with what it took over then, whatever became of
    that folder. CheckpointError: it holds no model. ConfigError: the architecture is another one,
    or what it reads, or how.
    """
    if recipe.train.init_from is None:
        return recipe
    folder = Path(recipe.train.init_from).expanduser().absolute()
    if begun is None:
        trunk, own = read_config(folder), folder / "source_tokenizer.json"
        sides = {"shared": not own.is_file(), "source_path": str(own) if own.is_file() else None}
    else:
        trunk, sides = (
            begun.model,
            {"shared": begun.tokenizer.shared, "source_path": begun.tokenizer.source_path},
        )
    if trunk.architecture != recipe.model.architecture:
        raise ConfigError(
            f"train.init_from={folder} has architecture={trunk.architecture!r} and the "
            f"recipe's model.architecture is "
            f"{recipe.model.architecture!r}; make them alike."
        )
    if trunk.elements != recipe.model.elements:
        raise ConfigError(
            f"train.init_from={folder} reads {trunk.elements} and the recipe's model "
            f"{recipe.model.elements}; make them "
            "alike."
        )
    model = recipe.model.model_copy(
        update={k: v for k, v in trunk.model_dump().items() if k not in OWN}
    )
    train = recipe.train.model_copy(update={"init_from": str(folder)})
    sections = _sections(recipe, trunk, folder, begun) | {"max_length_open": False}
    if trunk.reads_patches:
        return replace(recipe, model=model, train=train, **sections)
    tokenizer = recipe.tokenizer.model_copy(update={"path": str(folder), **sides})
    return replace(recipe, model=model, tokenizer=tokenizer, train=train, **sections)


def _sections(
    recipe: Recipe, trunk: ModelConfig, folder: Path, begun: Recipe | None
) -> dict[str, Any]:
    """The sections of how pictures and recordings are read, or drawn."""
    own = {name: section for name in READERS if (section := getattr(recipe, name)) is not None}
    if begun is not None:
        return {name: getattr(begun, name) for name in own}
    patches, draws = trunk.reads_patches, (folder / palette.FILE).is_file()
    theirs = own.keys() if patches else {*trunk.parts, *(["palette"] if draws else [])}
    for name in sorted(theirs ^ own.keys()):
        asks, has = ("a", "none") if name in own else ("no", "one")
        raise ConfigError(
            f"The recipe has {asks} section {name} and the model of train.init_from={folder} "
            f"has {has}; make them alike."
        )
    return {
        name: _taken_over(section, READERS[name].load(folder).config, folder, resized=patches)
        for name, section in own.items()
    }


def _taken_over(own: Section, theirs: Section, folder: Path, resized: bool) -> Section:
    """Their section, on which weights depend, with what the recipe may change; ConfigError: it says
    otherwise."""
    values = theirs.model_dump()
    if isinstance(theirs, ImageConfig) and isinstance(own, ImageConfig):
        changed = {"size": own.size} if resized and own.size is not None else {}
        if (
            own.channels is not None
            and theirs.channels is None
            and own.channels == theirs.found_channels
        ):
            changed["channels"] = own.channels
        values |= changed
    for name in own.model_fields_set:
        asked = getattr(own, name)
        if asked is not None and _whole(asked) != _whole(values[name]):
            raise ConfigError(
                f"{own.section}.{name} is {asked!r}, and train.init_from={folder} has "
                f"{values[name]!r}, by which its "
                "weights were trained; leave it out."
            )
    return theirs.parse(values)


def _whole(value: Any) -> Any:
    """A side as the square that it says."""
    return (value, value) if isinstance(value, int) else value
