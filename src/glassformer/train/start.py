"""What a run takes over from another one: its trunk's form and how it reads its data; a head is always new.

Knows: run folders and recipes. Does not know: weights.
"""

from dataclasses import replace
from pathlib import Path
from typing import Any

from glassformer.errors import ConfigError
from glassformer.models.weights import read_config
from glassformer.tokens.audio import AudioReader
from glassformer.tokens.image import ImageConfig, ImageReader
from glassformer.train.recipe import Recipe

OWN = {
    *("head", "n_classes", "classes", "multi_label", "pool", "pooler", "tied", "head_bias", "head_scale"),
    *("dropout", "attention_dropout"),
}
"""Fields of a model that the recipe keeps: those of its head, and how much is dropped while training."""


def with_start(recipe: Recipe, begun: Recipe | None = None) -> Recipe:
    """The recipe with the trunk and the tokenizers of `train.start`, by its absolute path.

    Of pictures and recordings, with the way in which it reads them; the size of pictures may be another one.

    A run that has `begun`, by that recipe, goes on with what it took over then, whatever became of that folder.
    CheckpointError: it holds no model. ConfigError: the architecture is another one, or what it reads.
    """
    if recipe.train.start is None:
        return recipe
    folder = Path(recipe.train.start).expanduser().absolute()
    if begun is None:
        trunk, own = read_config(folder), folder / "source_tokenizer.json"
        sides = {"shared": not own.is_file(), "source_path": str(own) if own.is_file() else None}
    else:
        trunk, sides = begun.model, {"shared": begun.tokenizer.shared, "source_path": begun.tokenizer.source_path}
    if trunk.architecture != recipe.model.architecture:
        raise ConfigError(
            f"train.start={folder} has architecture={trunk.architecture!r} and the recipe's model.architecture is "
            f"{recipe.model.architecture!r}; make them alike."
        )
    if trunk.elements != recipe.model.elements:
        raise ConfigError(
            f"train.start={folder} reads {trunk.elements} and the recipe's model {recipe.model.elements}; make them "
            "alike."
        )
    model = recipe.model.model_copy(update={k: v for k, v in trunk.model_dump().items() if k not in OWN})
    train = recipe.train.model_copy(update={"start": str(folder)})
    if trunk.elements == "patches":
        return replace(recipe, model=model, train=train, **_senses(recipe, folder, begun))
    tokenizer = recipe.tokenizer.model_copy(update={"path": str(folder), **sides})
    return replace(recipe, model=model, tokenizer=tokenizer, train=train)


def _senses(recipe: Recipe, folder: Path, begun: Recipe | None) -> dict[str, Any]:
    """The sections of how pictures or recordings are read."""
    if begun is not None:
        return {"image": begun.image, "audio": begun.audio}
    if recipe.image is None:
        return {} if recipe.audio is None else {"audio": AudioReader.load(folder).config}
    own = ImageReader.load(folder).config
    size = own.size if recipe.image.size is None else recipe.image.size
    return {"image": ImageConfig.parse(own.model_dump() | {"size": size})}
