"""Configuration of a model as one flat record; a variant is a named choice of a field."""

from typing import Self

from pydantic import model_validator

from glassformer.core.errors import ConfigError
from glassformer.models.fields import ModelFields
from glassformer.models.misfits import misfits

HEAD_FIELDS = (
    "head",
    "n_classes",
    "classes",
    "multi_label",
    "pool",
    "pooler",
    "distilled",
    "tied",
    "head_bias",
    "head_scale",
    "head_activation",
)
"""The fields that describe only the head; all others describe the trunk."""


class ModelConfig(ModelFields):
    """Complete description of a model."""

    @model_validator(mode="after")
    def _fields_fit(self) -> Self:
        """Reject fields that do not fit together, with the first sentence of `misfits`."""
        for sentence in misfits(self):
            raise ValueError(sentence)
        return self


def check_complete(config: ModelConfig) -> None:
    """Raise ConfigError for a value that is taken from data and still missing."""
    if not config.reads_patches and config.vocab_size == 0:
        raise ConfigError(
            "model.vocab_size is 0; set it, or give a tokenizer from which it is taken."
        )
    if config.head in ("tag", "classify") and not (config.n_classes or config.classes):
        raise ConfigError(
            f"model.head={config.head!r} needs model.n_classes, or data from which it is taken."
        )
    if config.unlaid:
        raise ConfigError(
            f"model.{config.unlaid} needs model.grid and model.patch, or images that tell them."
        )
