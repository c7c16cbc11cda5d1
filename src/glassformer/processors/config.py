"""How inputs are encoded, and how they are augmented while training."""

from dataclasses import dataclass

from pydantic import Field

from glassformer.media.audio import AudioConfig
from glassformer.media.audio_augment import SoundAugmentConfig
from glassformer.media.image import ImageConfig
from glassformer.media.image_augment import AugmentConfig
from glassformer.media.palette import PaletteConfig
from glassformer.record import Record
from glassformer.tokenizers.config import TokenizerConfig


class ProcessorConfig(Record):
    """The `processor` section of a recipe."""

    section = "processor"

    input: str | None = Field(
        None, description="What a record is; None: what the task usually reads (see `task`)."
    )
    tokenizer: TokenizerConfig = Field(TokenizerConfig(), description="How text becomes tokens.")
    image: ImageConfig | None = Field(None, description="How images become patches.")
    audio: AudioConfig | None = Field(None, description="How audio becomes patches.")
    palette: PaletteConfig | None = Field(
        None, description="How the images of text-to-image become tokens."
    )


@dataclass(frozen=True)
class Augmentations:
    """Random changes of training inputs, functions of (seed, step, sample)."""

    seed: int = 0
    piece_dropout: float = 0.0
    image: AugmentConfig | None = None
    audio: SoundAugmentConfig | None = None
