"""A text, or a pair of texts, as one sequence or as several that overlap.

one     <bos> text <eos>                       token_type_ids  0 0 0
pair    <bos> text <eos> other <eos>           token_type_ids  0 0 0 1 1

or in the frame that the tokenizer defines.
"""

import numpy as np

from glassformer.data.example import Example
from glassformer.errors import ConfigError
from glassformer.processors.text_reader import parts_of
from glassformer.processors.word_tokenizer import placeholder
from glassformer.tokenizers.text import Tokenizer


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
        ids = self._encoded(text)
        if other is None:
            parts = parts_of(ids, self.longest - self.frame.size, self.overlap)
            return [Example(self.frame.one(part)) for part in parts]
        others = self._encoded(other)
        room = self.longest - self.frame.pair_size
        if len(ids) + len(others) <= room:
            return [self._pair(ids, others)]
        half = room // 2
        first = min(len(ids), max(half, room - len(others)))
        left = parts_of(ids, first, self.overlap)
        right = parts_of(others, room - first, self.overlap)
        n = max(len(left), len(right))
        return [self._pair(left[i * len(left) // n], right[i * len(right) // n]) for i in range(n)]

    def _encoded(self, text: str) -> np.ndarray:
        """The ids of a text; a sequence has at least one element."""
        ids = self.text.encode(text)
        return ids if len(ids) or self.frame.size else placeholder(self.text)

    def _pair(self, ids: np.ndarray, others: np.ndarray) -> Example:
        framed, token_type_ids = self.frame.pair(ids, others)
        return Example(framed, token_type_ids=token_type_ids)
