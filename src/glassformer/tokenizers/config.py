"""The configuration of tokenizers."""

from typing import Literal

from pydantic import Field

from glassformer.core.errors import ConfigError
from glassformer.core.record import Positive, Record
from glassformer.tokenizers.definition import LARGEST_ID

DEFAULT_VOCAB_SIZE = {"bpe": 8192, "word": 20000}


class TokenizerConfig(Record):
    """Tokens of texts."""

    section = "processor.tokenizer"

    kind: Literal["byte", "character", "word", "bpe"] = "bpe"
    """byte, character, word, or bpe (byte-level byte-pair encoding, never an unknown)."""
    vocab_size: int | None = Field(default=None, ge=1, le=LARGEST_ID)
    """Tokens in all, special symbols included; null: bpe 8192, word 20000, byte and character what
    the data has."""
    path: str | None = None
    """An existing tokenizer.json (or its folder) to load instead of training one."""
    shared: bool = Field(default=True, json_schema_extra={"inputs": ["pairs"]})
    """Of pairs: one vocabulary for both sides; false: one each."""
    source_path: str | None = Field(default=None, json_schema_extra={"inputs": ["pairs"]})
    """Of pairs with one vocabulary each: like path, for the source."""
    min_frequency: int | None = Field(default=None, ge=1, le=1 << 32)
    """Least number of occurrences of a character, word or pair that is a token; null: 2 for bpe,
    else 1."""
    lowercase: bool = False
    """Fold the text to lower case first; kind word only."""
    specials: list[str] = Field(default_factory=list)
    """Special symbols beside <unk> <pad> <bos> <eos> <mask>, such as <|user|>."""
    new_tokens: list[str] = Field(default_factory=list)
    """Special symbols added to the tokenizer of path, such as <|user|>; with train.init_from, their
    embeddings begin at the mean of the others. Of pairs with one vocabulary each, the target's."""
    sample_bytes: Positive = 100_000_000
    """bpe is trained on at most this many bytes, the first of the training text, or sooner on 4 MB
    of different words, which take half a gigabyte of memory."""

    @property
    def frequency(self) -> int:
        """The minimum frequency with its default filled in."""
        return self.min_frequency or (2 if self.kind == "bpe" else 1)

    def ordinary_size(self, n_specials: int, smallest: int) -> int:
        """Most ordinary tokens of a bpe or word vocabulary; ConfigError: fewer than
        `smallest`."""
        asked = self.vocab_size or DEFAULT_VOCAB_SIZE[self.kind]
        if asked < n_specials + smallest:
            raise ConfigError(
                f"processor.tokenizer.vocab_size is {asked}, but kind {self.kind} needs at least "
                f"{n_specials + smallest} ({smallest} ordinary tokens and {n_specials} special "
                f"symbols); set it higher or leave it out"
            )
        return asked - n_specials
