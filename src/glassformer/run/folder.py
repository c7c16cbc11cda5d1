"""Run folders: one is opened, or trained by a recipe and opened."""

import json
from pathlib import Path
from typing import Any

from glassformer.errors import CheckpointError, ConfigError
from glassformer.media.audio import AudioReader
from glassformer.media.image import ImageReader
from glassformer.media.palette import FILE, Palette
from glassformer.models.transformer import Transformer
from glassformer.models.weights import load_model
from glassformer.recipe.recipe import Recipe, read_yaml
from glassformer.run.run import Run
from glassformer.tasks.text_to_text import load_tokenizers
from glassformer.tokenizers.text import Tokenizer
from glassformer.training.device import find_device
from glassformer.training.loop import train as train_run


def load(folder: str | Path, device: str = "cpu", checkpoint: int | None = None) -> Run:
    """Open a run folder for use; with `checkpoint`, as it was at that step of training.

    CheckpointError: there is no whole model in it; ConfigError: a device or a checkpoint that is
    not there.
    """
    run = _opened(Path(folder), device)
    return run if checkpoint is None else run.at(checkpoint)


def _opened(folder: Path, device: str) -> Run:
    if not folder.is_dir():
        raise CheckpointError(
            f"{folder} is not a folder; give the folder of a run, for example runs/demo-lm."
        )
    model = load_model(folder, find_device(device))
    if model.config.elements == "patches":
        return _perceiving(folder, model)
    tokenizer = Tokenizer.load(folder / "tokenizer.json")
    if tokenizer.vocab_size > model.config.vocab_size:
        raise CheckpointError(
            f"The tokenizer of {folder} has {tokenizer.vocab_size} tokens and its model "
            f"{model.config.vocab_size}; "
            "they are of different runs."
        )
    recipe, pair = _recipe(folder), None
    if (recipe is not None and recipe.palette is not None) or (folder / FILE).is_file():
        return Run(folder, model, tokenizer, recipe, palette=_palette(folder, model, tokenizer))
    if model.config.parts:
        return Run(folder, model, tokenizer, recipe, readers=_readers(folder, model))
    if model.config.architecture == "encoder_decoder":
        pair = load_tokenizers(folder, recipe.data.prefix if recipe else "")
        if pair.source.vocab_size > (
            own := model.config.source_vocab_size or model.config.vocab_size
        ):
            raise CheckpointError(
                f"The source tokenizer of {folder} has {pair.source.vocab_size} tokens and its "
                f"model {own}; they are "
                "of different runs."
            )
        _check_tokenizer(folder, pair.source, "source")
    _check_tokenizer(folder, tokenizer, "fingerprint")
    return Run(folder, model, tokenizer, recipe, pair)


def _recipe(folder: Path) -> Recipe | None:
    file = folder / "recipe.yaml"
    return Recipe.parse(read_yaml(file)) if file.is_file() else None


def _readers(folder: Path, model: Transformer) -> dict[str, ImageReader | AudioReader]:
    """What makes patches of each type of part; CheckpointError: others than the model was trained
    with."""
    readers: dict[str, ImageReader | AudioReader] = {}
    for kind, width in model.config.parts.items():
        reader = readers[kind] = (
            ImageReader.load(folder) if kind == "image" else AudioReader.load(folder)
        )
        own, made = (
            (model.config.part_patches.get(kind, reader.n_patches), width),
            (reader.n_patches, reader.patch_width),
        )
        if own != made:
            raise CheckpointError(
                f"{folder / f'{kind}.json'} makes {made[0]} patches of {made[1]} numbers and "
                f"its model reads {own[0]} "
                f"of {own[1]}; they are of different runs."
            )
    return readers


def _palette(folder: Path, model: Transformer, tokenizer: Tokenizer) -> Palette:
    """The colours of the pictures that a model draws; CheckpointError: others than it was trained
    with."""
    palette = Palette.load(folder)
    tokens, n = tokenizer.vocab_size + len(palette.colours), palette.config.n_pixels
    if tokens > model.config.vocab_size or n > model.config.max_length:
        raise CheckpointError(
            f"{folder / FILE} and the tokenizer make {tokens} tokens and pictures of {n} "
            f"pixels, and the model has "
            f"{model.config.vocab_size} and reads {model.config.max_length}; they are of "
            f"different runs."
        )
    return palette


def _perceiving(folder: Path, model: Transformer) -> Run:
    """A run whose model reads patches; CheckpointError if what makes them makes others than it was
    trained with."""
    heard = (folder / "audio.json").is_file() and not (folder / "image.json").is_file()
    senses = AudioReader.load(folder) if heard else ImageReader.load(folder)
    own, made = (
        (model.config.max_length, model.config.patch_width),
        (senses.n_patches, senses.patch_width),
    )
    if own != made:
        raise CheckpointError(
            f"{folder / ('audio.json' if heard else 'image.json')} makes {made[0]} patches of "
            f"{made[1]} numbers and "
            f"its model reads {own[0]} of {own[1]}; they are of different runs."
        )
    return Run(folder, model, None, _recipe(folder), senses=senses)


def _check_tokenizer(folder: Path, tokenizer: Tokenizer, key: str) -> None:
    """Raise CheckpointError if the run's tokens were made by another tokenizer: the same size would
    hide it."""
    try:
        manifest = json.loads((folder / "tokens" / "manifest.json").read_bytes())
        made_by = manifest["request"]["tokenizer"][key]
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        return  # a run without its tokens is still a model
    if made_by != tokenizer.fingerprint:
        own = "source_" if key == "source" and (folder / "source_tokenizer.json").is_file() else ""
        raise CheckpointError(
            f"{folder / f'{own}tokenizer.json'} is not the tokenizer this run was trained "
            f"with; restore it from a "
            "backup."
        )


def train(
    recipe: str | Path,
    changes: dict[str, Any] | None = None,
    run: str | Path = "runs/last",
    resume: bool = False,
) -> Run:
    """Train by a recipe file with changes such as {"train.steps": 200} in the folder `run`; returns
    it opened.

    Errors: those of training and of `load`; KeyboardInterrupt after Ctrl-C, when the run is saved
    and can be resumed.
    """
    values = read_yaml(Path(recipe))
    for key, value in (changes or {}).items():
        section, dot, name = key.partition(".")
        if not (dot and name):
            raise ConfigError(
                f"{key!r} is no field of a recipe; write section.key, for example train.steps."
            )
        content = values.get(section) or {}
        if not isinstance(content, dict):
            raise ConfigError(f"The section {section} must hold key: value lines, not {content!r}.")
        values[section] = {**content, name: str(value) if isinstance(value, Path) else value}
    result = train_run(Recipe.parse(values), Path(run), resume)
    if result.interrupted is not None:
        raise KeyboardInterrupt(f"stopped at step {result.steps}; go on with resume=True")
    return load(run)
