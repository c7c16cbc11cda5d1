"""How inputs are encoded, and how they are augmented while training."""

from typing import Literal, Self

from pydantic import Field, model_validator

from glassformer.media.audio import AudioConfig
from glassformer.media.audio_augment import SoundAugmentConfig
from glassformer.media.image import ImageConfig
from glassformer.media.image_augment import AugmentConfig
from glassformer.media.palette import PaletteConfig
from glassformer.record import Record
from glassformer.tokenizers.config import TokenizerConfig

TagPiece = Literal["last", "first"]


class VectorConfig(Record):
    """How texts are read for their vectors, as models of sentences were trained to."""

    section = "processor.vectors"

    max_length: int | None = Field(
        default=None,
        ge=1,
        description="Tokens of a text that are read, its special symbols included; the others are "
        "cut off. null: all, in overlapping windows.",
    )
    lowercase: bool = Field(default=False, description="Read texts in lower case.")
    normalize: bool = Field(default=True, description="Scale vectors to length 1.")
    prompts: dict[str, str] = Field(
        default={}, description="Texts to stand before a text, by their names."
    )
    prompt: str | None = Field(
        default=None, description="The name of the prompt where no other is asked for."
    )

    @model_validator(mode="after")
    def _prompt_is_known(self) -> Self:
        if self.prompt is not None and self.prompt not in self.prompts:
            raise ValueError(f"prompt={self.prompt!r} is none of {list(self.prompts)}")
        return self


class ProcessorConfig(Record):
    """How inputs are encoded."""

    section = "processor"

    input: str = Field(
        default="documents",
        description="What a record is: documents, messages, text, words, pairs, image, audio or "
        "parts. Default: what the task usually reads.",
    )
    tokenizer: TokenizerConfig = Field(
        default=TokenizerConfig(),
        description="How text becomes tokens.",
        json_schema_extra={"inputs": ["documents", "messages", "text", "words", "pairs", "parts"]},
    )
    chat_template: str | None = Field(
        default=None,
        description="File with a Jinja template of messages; null: the one of the tokenizer or of "
        "train.init_from, else <|role|> text <eos>.",
        json_schema_extra={"inputs": ["messages"]},
    )
    tag_piece: TagPiece = Field(
        default="last",
        description="The piece of a word that carries its tag, where the tokenizer cuts it into "
        "several; published taggers read the first.",
        json_schema_extra={"inputs": ["words", "parts"]},
    )
    image: ImageConfig | None = Field(
        default=None,
        description="How images become patches.",
        json_schema_extra={"inputs": ["image", "parts"]},
    )
    audio: AudioConfig | None = Field(
        default=None,
        description="How audio becomes patches.",
        json_schema_extra={"inputs": ["audio", "parts"]},
    )
    vectors: VectorConfig | None = Field(
        default=None,
        description="How texts are read for their vectors.",
        json_schema_extra={"tasks": ["feature-extraction"]},
    )
    palette: PaletteConfig | None = Field(
        default=None,
        description="How the images to draw become tokens.",
        json_schema_extra={"tasks": ["text-to-image"]},
    )


class Augmentations(Record):
    """Random changes of training inputs, functions of (seed, step, sample)."""

    section = "augment"

    seed: int = Field(default=0, ge=0, description="Seed of these changes. Default: train.seed.")
    piece_dropout: float = Field(
        default=0.0,
        ge=0,
        lt=1,
        description="Share of merges of byte pairs left out at random, so that words are split in "
        "new ways.",
        json_schema_extra={"inputs": ["text", "words", "pairs"]},
    )
    image: AugmentConfig | None = Field(default=None, description="Random changes of images.")
    audio: SoundAugmentConfig | None = Field(default=None, description="Random changes of audio.")
