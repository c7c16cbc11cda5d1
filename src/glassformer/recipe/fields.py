"""Every field of a recipe: its type, its default and its own description."""

from collections.abc import Iterator
from dataclasses import dataclass
from types import UnionType
from typing import Annotated, Any, Literal, Union, get_args, get_origin

from glassformer.data.config import DataConfig
from glassformer.errors import ConfigError, suggest
from glassformer.generate.config import GenerateConfig
from glassformer.media.audio import AudioConfig
from glassformer.media.audio_augment import SoundAugmentConfig
from glassformer.media.image import ImageConfig
from glassformer.media.image_augment import AugmentConfig
from glassformer.media.palette import PaletteConfig
from glassformer.models.config import ModelConfig
from glassformer.recipe.pipelines import PIPELINES
from glassformer.recipe.train import TrainConfig
from glassformer.record import Record
from glassformer.tokenizers.config import TokenizerConfig

SECTIONS: dict[str, tuple[type[Record], str]] = {
    "model": (ModelConfig, "The model. Also `preset` and `size`, which fill in a known model."),
    "data": (DataConfig, "The files to train, validate and test on, and how they are written."),
    "tokenizer": (TokenizerConfig, "How text becomes tokens."),
    "image": (ImageConfig, "How images become patches."),
    "audio": (AudioConfig, "How audio becomes patches."),
    "palette": (PaletteConfig, "How the images of text-to-image become tokens."),
    "augment": (AugmentConfig, "Random changes of training images."),
    "sound_augment": (SoundAugmentConfig, "Random changes of training audio."),
    "train": (TrainConfig, "Optimizer, schedule, evaluation and checkpoints."),
    "generate": (GenerateConfig, "How text is generated."),
}
"""The record of each section, and what it is about."""


@dataclass(frozen=True)
class FieldRow:
    """One field as it is listed."""

    section: str
    name: str
    type: str
    default: Any
    description: str


def field_rows(section: str | None = None) -> Iterator[FieldRow]:
    """The fields of a section, or of all; ConfigError: there is no such section."""
    if section is not None and section not in SECTIONS:
        raise ConfigError(f"There is no section {section!r}; {suggest(section, SECTIONS)}")
    for name, (record, _) in SECTIONS.items():
        if section in (None, name):
            for field, of in record.model_fields.items():
                default = of.get_default(call_default_factory=True)
                kind = _type(of.annotation)
                text = " ".join((of.description or "").split())
                yield FieldRow(name, field, kind, default, text)


def as_markdown() -> str:
    """All fields as the page `docs/recipe.md`."""
    lines = [HEAD, "| task | input | head | architectures |", "| --- | --- | --- | --- |"]
    for name, of in PIPELINES.items():
        kinds = ", ".join(of.architectures)
        lines.append(f"| `{name}` | {of.input} | {' or '.join(of.heads)} | {kinds} |")
    for name, (_, about) in SECTIONS.items():
        lines += ["", f"## {name}", "", about, "", "| field | type | default | meaning |"]
        lines.append("| --- | --- | --- | --- |")
        lines += [
            f"| `{row.name}` | {_cell(row.type)} | {_cell(shown(row.default))} | "
            f"{_cell(row.description)} |"
            for row in field_rows(name)
        ]
    return "\n".join(lines) + "\n"


HEAD = """# The recipe

This page is made by `glassformer recipe fields --markdown`; a test keeps it equal to the code.

A recipe is one YAML file: the task, perhaps an `input`, and sections of fields. Every field can be
changed on the command line, `train.steps=500`. `glassformer recipe show RECIPE` prints \
a recipe with
every default filled in. `input` says what a record is, where it is not what the task usually reads:
documents, text, words, pairs, image, audio, or parts (text, images and audio in one sequence).

## Tasks
"""


def shown(value: Any) -> str:
    """A default as a recipe writes it."""
    if value is None:
        return "null"
    if isinstance(value, bool):
        return str(value).lower()
    return str(list(value)) if isinstance(value, tuple) else str(value)


def _type(annotation: Any) -> str:
    """A type in words: `int`, `list of str`, `fused or reference`, `int or null`."""
    origin, inside = get_origin(annotation), get_args(annotation)
    if annotation is type(None):
        return "null"
    if origin is Annotated:
        return _type(inside[0])
    if origin is Literal:
        return " or ".join(str(value) for value in inside)
    if origin in (Union, UnionType):
        return " or ".join(_type(one) for one in inside)
    if origin is tuple and inside[-1] is not Ellipsis:
        return f"[{', '.join(_type(one) for one in inside)}]"
    if origin in (tuple, list):
        return f"list of {_type(inside[0])}"
    if origin is dict:
        return f"{_type(inside[0])} to {_type(inside[1])}"
    return annotation.__name__ if isinstance(annotation, type) else str(annotation)


def _cell(text: str) -> str:
    return " ".join(text.replace("|", "\\|").split())
