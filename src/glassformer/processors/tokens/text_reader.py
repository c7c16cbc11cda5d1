"""A text as the trunk of a model reads it: framed as in training, in windows if it is long.

encoder, with examples     <bos> text <eos>                  token_type_ids  0 0 0
pair of texts              <bos> text <eos> other <eos>      token_type_ids  0 0 0 1 1
running text               text
encoder-decoder            prefix text <eos>

or in the frame that the tokenizer defines.
"""

from dataclasses import dataclass, field

import numpy as np

from glassformer.core.errors import ConfigError
from glassformer.processors.tokens.windows import windows
from glassformer.tokenizers.frame import Frame
from glassformer.tokenizers.text import Tokenizer

NOTHING = np.zeros(0, np.int32)


@dataclass(frozen=True)
class TextReader:
    """A tokenizer, the longest sequence of a model, and the frame of a text."""

    tokenizer: Tokenizer
    longest: int
    prefix: str = ""
    frame: Frame = field(default_factory=Frame)
    """What stands before the prefix, and after the text."""
    cut: int | None = None
    """Tokens of a text that are read, the frame's included; None: all, in windows."""
    lowercase: bool = False

    def __post_init__(self) -> None:
        if self.room < 1:
            longest = min(self.longest, self.cut or self.longest)
            raise ConfigError(
                f"A model of {longest} elements has no room for text; use a longer one."
            )

    @property
    def room(self) -> int:
        """How many tokens of prefix and text fit into one sequence."""
        return min(self.longest, self.cut or self.longest) - self.frame.size

    def ids(self, text: str) -> np.ndarray:
        """The tokens of prefix + text, int32 [T]; none for a text of nothing but space."""
        if not text.strip():
            return NOTHING
        whole = self.prefix + text
        return self.tokenizer.encode(whole.lower() if self.lowercase else whole)

    def framed(self, ids: np.ndarray) -> np.ndarray:
        """Ids of a part of a text in their frame."""
        return self.frame.one(ids)

    def windows(self, text: str) -> list[np.ndarray]:
        """A text in framed sequences: one, several that overlap by half, or none without tokens."""
        ids = self.ids(text)
        ids = ids if self.cut is None else ids[: self.room]
        return [self.framed(part) for part in parts_of(ids, self.room)] if len(ids) else []


def parts_of(ids: np.ndarray, room: int, overlap: int | None = None) -> list[np.ndarray]:
    """Ids in parts of at most `room` that share `overlap` of them (None: half); one if they fit."""
    if len(ids) <= room:
        return [ids]
    found = windows(np.ones(len(ids), np.int64), room, room // 2 if overlap is None else overlap)
    return [ids[window.begin : window.end] for window in found]
