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
from glassformer.data.example import Example
from glassformer.processors.word_tokenizer import placeholder
from glassformer.tokenizers.frame import Frame
from glassformer.tokenizers.text import Tokenizer
from glassformer.tokenizers.windows import windows

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


class SequenceTokenizer:
    """Texts as sequences of at most `longest` elements; `overlap` of windows, None: half."""

    def __init__(self, tokenizer: Tokenizer, longest: int, overlap: int | None = None):
        self.text = tokenizer
        self.frame = tokenizer.frame_or("bos", "eos")
        self.longest, self.overlap = longest, overlap
        room = longest - max(self.frame.size, self.frame.pair_size)
        if room // 2 <= (overlap or 0):
            raise ConfigError(
                f"data.overlap={overlap or 0} leaves no room in a model of {longest} elements; "
                "make it smaller, or model.max_length larger."
            )

    def sequences(self, text: str, other: str | None = None) -> list[Example]:
        """The windows of a text, at least one; of a pair, windows of the longer side, each with the
        whole other side.

        If both are longer than half the model, their windows are paired in order.
        """
        ids = self._encode(text)
        if other is None:
            parts = parts_of(ids, self.longest - self.frame.size, self.overlap)
            return [Example(self.frame.one(part)) for part in parts]
        others = self._encode(other)
        room = self.longest - self.frame.pair_size
        if len(ids) + len(others) <= room:
            return [self._pair(ids, others)]
        half = room // 2
        first = min(len(ids), max(half, room - len(others)))
        left = parts_of(ids, first, self.overlap)
        right = parts_of(others, room - first, self.overlap)
        n = max(len(left), len(right))
        return [self._pair(left[i * len(left) // n], right[i * len(right) // n]) for i in range(n)]

    def _encode(self, text: str) -> np.ndarray:
        """The ids of a text; a sequence has at least one element."""
        ids = self.text.encode(text)
        return ids if len(ids) or self.frame.size else placeholder(self.text)

    def _pair(self, ids: np.ndarray, others: np.ndarray) -> Example:
        framed, token_type_ids = self.frame.pair(ids, others)
        return Example(framed, token_type_ids=token_type_ids)
