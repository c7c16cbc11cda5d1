"""A recipe: one YAML file with the sections model, data, tokenizer, train, generate, and overrides
on top.

recipe = read_recipe("recipes/lm.yaml", ["train.steps=200", "model.preset=gpt2"])
"""

from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any, TypeVar

import yaml

from glassformer.data.config import DataConfig
from glassformer.errors import ConfigError, suggest
from glassformer.generate.config import GenerateConfig
from glassformer.media.audio import AudioConfig
from glassformer.media.audio_augment import SoundAugmentConfig
from glassformer.media.image import ImageConfig
from glassformer.media.image_augment import AugmentConfig
from glassformer.media.palette import PaletteConfig
from glassformer.models.config import ModelConfig
from glassformer.models.presets import preset
from glassformer.recipe.train import Precision, TrainConfig
from glassformer.record import Record
from glassformer.tokenizers.config import TokenizerConfig

SAMPLING = frozenset({"temperature", "top_k", "top_p", "min_p", "repetition_penalty"})
"""Fields of `generate` that only sampling has."""


Section = TypeVar("Section", bound=Record)


def _optional(values: dict[str, Any], name: str, kind: type[Section]) -> Section | None:
    """A section that only some recipes have."""
    return kind.parse(values[name]) if name in values else None


@dataclass(frozen=True)
class Recipe:
    """Everything that a run is made from."""

    model: ModelConfig
    data: DataConfig
    tokenizer: TokenizerConfig
    train: TrainConfig
    generate: GenerateConfig
    image: ImageConfig | None = None
    audio: AudioConfig | None = None
    augment: AugmentConfig | None = None
    sound_augment: SoundAugmentConfig | None = None
    palette: PaletteConfig | None = None

    @classmethod
    def parse(cls, values: dict[str, Any]) -> "Recipe":
        """A recipe from plain values, `model.preset` and `model.size` expanded; a ConfigError names
        what is wrong."""
        known = [field.name for field in fields(cls)]
        for section, content in values.items():
            if section not in known:
                raise ConfigError(
                    f"Unknown section {section!r} in the recipe; {suggest(str(section), known)}"
                )
            if not isinstance(content, dict | None):
                raise ConfigError(
                    f"The section {section} must hold key: value lines, not {content!r}."
                )
        values = {section: content or {} for section, content in values.items()}
        model = dict(values.get("model", {}))
        name, size = model.pop("preset", None), model.pop("size", None)
        if size is not None and name is None:
            raise ConfigError(
                f"model.size={size!r} needs a model.preset; presets are sizes of a known model."
            )
        ModelConfig.check_keys(model)
        if (
            name is not None
        ):  # a preset's own vocabulary and classes are those of published weights; here, the data's
            model = {"vocab_size": 0, "n_classes": None, **model}
        config = (
            ModelConfig.parse(model)
            if name is None
            else preset(str(name), None if size is None else str(size), **model)
        )
        if (
            name is not None and "max_length" not in model
        ):  # nobody asked for it: data may say what is needed
            config = ModelConfig.model_construct(
                config.model_fields_set - {"max_length"}, **dict(config)
            )
        generate = values.get("generate", {})
        if config.architecture == "encoder_decoder" and not generate.keys() & {"beams", *SAMPLING}:
            generate = {
                **generate,
                "beams": 5,
            }  # what a source becomes is searched for, unless sampling is asked
        elif values.keys() & {"image", "audio"} and not generate.keys() & {"beams", *SAMPLING}:
            generate = {
                **generate,
                "temperature": 0.0,
            }  # what is asked about a picture has one likeliest answer
        recipe = cls(
            config,
            DataConfig.parse(values.get("data", {})),
            TokenizerConfig.parse(values.get("tokenizer", {})),
            TrainConfig.parse(values.get("train", {})),
            GenerateConfig.parse(generate),
            _optional(values, "image", ImageConfig),
            _optional(values, "audio", AudioConfig),
            _optional(values, "augment", AugmentConfig),
            _optional(values, "sound_augment", SoundAugmentConfig),
            _optional(values, "palette", PaletteConfig),
        )
        for change, of in (("augment", "image"), ("sound_augment", "audio")):
            if getattr(recipe, change) is not None and getattr(recipe, of) is None:
                raise ConfigError(
                    f"The section {change} changes what the section {of} reads, which is not "
                    f"there; add it."
                )
        if (recipe.train.length or 0) > recipe.model.max_length:
            raise ConfigError(
                f"train.length={recipe.train.length} exceeds "
                f"model.max_length={recipe.model.max_length}; "
                "make the model longer or the training sequences shorter."
            )
        return recipe

    def values(self) -> dict[str, Any]:
        """Plain values, every field of every section that is there explicit."""
        sections = {field.name: getattr(self, field.name) for field in fields(self)}
        return {
            name: content.model_dump(mode="json")
            for name, content in sections.items()
            if content is not None
        }

    def yaml(self) -> str:
        """The resolved recipe as a YAML text."""
        return yaml.safe_dump(self.values(), sort_keys=False, allow_unicode=True)

    @property
    def asked(self) -> float:
        """The share of a training sequence's elements at which the head answers."""
        return self.train.mask_fraction if self.model.head == "masked_lm" else 1.0

    def with_model(self, changes: dict[str, Any]) -> "Recipe":
        """This recipe with fields of its model that follow from its data."""
        return replace(self, model=ModelConfig.parse({**self.model.model_dump(), **changes}))

    def with_vocabulary(self, vocab_size: int, source_vocab_size: int | None = None) -> "Recipe":
        """This recipe with the tokenizers' vocabularies; one that was asked for and is too small is
        a ConfigError."""
        changed: dict[str, int] = {}
        for field, size in (("vocab_size", vocab_size), ("source_vocab_size", source_vocab_size)):
            asked = getattr(self.model, field)
            if asked and size and asked < size:
                raise ConfigError(
                    f"model.{field}={asked} is smaller than the tokenizer's vocabulary of {size}; "
                    "leave it out or make it at least as large."
                )
            if size and not asked:
                changed[field] = size
        return replace(self, model=self.model.model_copy(update=changed))

    def with_classes(self, names: Sequence[str]) -> "Recipe":
        """This recipe with the classes of its data unless it names its own; ConfigError if their
        number differs."""
        if self.model.classes:
            return self
        if self.model.n_classes not in (None, len(names)):
            raise ConfigError(
                f"model.n_classes={self.model.n_classes} and the training data have "
                f"{len(names)} classes; leave it out."
            )
        update = {"classes": tuple(names), "n_classes": len(names)}
        return replace(self, model=self.model.model_copy(update=update))

    def with_precision(self, precision: Precision) -> "Recipe":
        """This recipe with the precision that was found by measuring."""
        return replace(self, train=self.train.model_copy(update={"precision": precision}))


def read_recipe(path: str | Path | None, overrides: Sequence[str] = ()) -> Recipe:
    """The recipe of a YAML file (None: all defaults) with `section.key=value` overrides, values
    read as YAML."""
    values = read_yaml(Path(path)) if path is not None else {}
    for override in overrides:
        key, equals, text = override.partition("=")
        section, dot, name = key.partition(".")
        if not (equals and dot and name):
            raise ConfigError(
                f"{override!r} is no override; write section.key=value, for example "
                f"train.steps=500."
            )
        try:
            value = yaml.safe_load(text) if text else None
        except yaml.YAMLError:
            value = text
        content = values.get(section) or {}
        if not isinstance(content, dict):
            raise ConfigError(f"The section {section} must hold key: value lines, not {content!r}.")
        values[section] = {**content, name: value}
    return Recipe.parse(values)


def read_yaml(path: Path) -> dict[str, Any]:
    """The mapping in a YAML file; a ConfigError if there is none."""
    try:
        values = yaml.safe_load(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise ConfigError(f"The recipe {path} does not exist; `recipes/` holds examples.") from None
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(
            f"The recipe {path} cannot be read ({error}); give a YAML text file."
        ) from None
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        line = f" at line {mark.line + 1}" if mark else ""
        raise ConfigError(
            f"The recipe {path} is not valid YAML{line}; write section: and indented key: value."
        ) from None
    if values is None:
        return {}
    if not isinstance(values, dict):
        raise ConfigError(
            f"The recipe {path} holds {type(values).__name__}, not sections; see `recipes/`."
        )
    return {str(section): content for section, content in values.items()}
