"""How inputs are encoded, and how they are augmented while training."""

from dataclasses import dataclass
from typing import Any, Literal, Self

from pydantic import Field, model_validator

from glassformer.core.record import Record
from glassformer.media.audio import AudioConfig
from glassformer.media.audio_augment import SoundAugmentConfig
from glassformer.media.image import ImageConfig
from glassformer.media.image_augment import AugmentConfig
from glassformer.media.palette import PaletteConfig
from glassformer.models.config import ModelConfig
from glassformer.tokenizers.config import TokenizerConfig

WordPiece = Literal["last", "first"]


class VectorConfig(Record):
    """How texts are read for their vectors, as models of sentences were trained to."""

    section = "processor.vectors"

    max_length: int | None = Field(default=None, ge=1)
    """Tokens of a text that are read, its special symbols included; the others are cut off. null:
    all, in overlapping windows."""
    lowercase: bool = False
    """Read texts in lower case."""
    normalize: bool = True
    """Scale vectors to length 1."""
    prompts: dict[str, str] = Field(default={})
    """Texts that are put before a text, by their names."""
    prompt: str | None = None
    """The name of the prompt where no other is requested."""

    @model_validator(mode="after")
    def _prompt_is_known(self) -> Self:
        if self.prompt is not None and self.prompt not in self.prompts:
            raise ValueError(f"prompt={self.prompt!r} is none of {list(self.prompts)}")
        return self


class ProcessorConfig(Record):
    """How inputs are encoded."""

    section = "processor"

    input: str = "documents"
    """What a record is: documents, messages, text, words, pairs, image, audio or parts. Default:
    what the task usually reads."""
    tokenizer: TokenizerConfig = Field(
        default=TokenizerConfig(),
        json_schema_extra={"inputs": ["documents", "messages", "text", "words", "pairs", "parts"]},
    )
    """How text becomes tokens."""
    chat_template: str | None = Field(default=None, json_schema_extra={"inputs": ["messages"]})
    """File with a Jinja template of messages; null: the one of the tokenizer or of train.init_from,
    else <|role|> text <eos>."""
    tag_piece: WordPiece = Field(default="last", json_schema_extra={"inputs": ["words", "parts"]})
    """The piece of a word that carries its tag, where the tokenizer cuts it into several; published
    taggers read the first."""
    image: ImageConfig | None = Field(
        default=None, json_schema_extra={"inputs": ["image", "parts"]}
    )
    """How images become patches."""
    audio: AudioConfig | None = Field(
        default=None, json_schema_extra={"inputs": ["audio", "parts"]}
    )
    """How audio becomes patches."""
    vectors: VectorConfig | None = Field(
        default=None, json_schema_extra={"tasks": ["feature-extraction"]}
    )
    """How texts are read for their vectors."""
    palette: PaletteConfig | None = Field(
        default=None, json_schema_extra={"tasks": ["text-to-image"]}
    )
    """How the images to draw become tokens."""


class Augmentations(Record):
    """Random changes of training inputs, functions of (seed, step, sample)."""

    section = "augment"

    seed: int = Field(default=0, ge=0)
    """Seed of these changes. Default: train.seed."""
    piece_dropout: float = Field(
        default=0.0, ge=0, lt=1, json_schema_extra={"inputs": ["text", "words", "pairs"]}
    )
    """Share of merges of byte pairs left out at random, so that words are split in new ways."""
    image: AugmentConfig | None = None
    """Random changes of images."""
    audio: SoundAugmentConfig | None = None
    """Random changes of audio."""


UNCHANGED = Augmentations()


@dataclass(frozen=True)
class ModelFacts:
    """Facts about the model that a processor encodes for."""

    window: int
    """Elements of a window of training."""
    context: int
    """Elements of the longest sequence that the model reads."""
    overlap: int | None = None
    """Elements by which windows overlap; None: half of them."""
    word_at: WordPiece | None = None
    """The piece of a word that is read for it, where words are encoded one by one; None: they are
    not."""
    token_types: bool = False
    class_token: bool = False
    n_registers: int = 0
    modality_order: tuple[str, ...] = ()
    paired: bool = False
    """Whether every input is a pair of texts."""
    vocab_size: int = 0
    """Token ids that the model reads; 0: that is not known yet."""
    speakers: bool = True
    """Whether a conversation says which of its elements are the assistant's."""

    @classmethod
    def of(cls, model: ModelConfig, length: int | None = None, **more: Any) -> Self:
        """Return the facts of a configuration; `length`: of windows, None: max_length."""
        return cls(
            window=length or model.max_length,
            context=model.max_length,
            token_types=model.n_token_types > 1,
            class_token=model.class_token,
            n_registers=model.n_registers,
            modality_order=model.modality_order,
            vocab_size=model.vocab_size,
            **more,
        )
