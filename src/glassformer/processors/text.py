"""The processor of texts and of pairs of texts: sequences between <bos> and <eos>."""

from collections.abc import Sequence
from dataclasses import replace
from functools import cached_property
from typing import Any

import torch

from glassformer.core.errors import ConfigError, DataError
from glassformer.data.example import Example
from glassformer.data.records.labelled import Labelled, labelled
from glassformer.processors.elements import next_word, words_of
from glassformer.processors.processor import (
    EncodedInput,
    Window,
    cell_text,
    check_length,
)
from glassformer.processors.text_reader import SequenceTokenizer
from glassformer.processors.tokenized import PackedProcessor
from glassformer.processors.word_tokenizer import WHOLE

Text = str | tuple[str, str]
"""A text, or a pair of texts."""


class TextProcessor(PackedProcessor):
    """Texts, or pairs of texts, each framed by special symbols; long ones in windows."""

    name, noun = "text", "text"
    records = staticmethod(labelled)
    columns = ("text_field", "pair_field", "label_field")

    @staticmethod
    def read_texts(record: Labelled) -> Sequence[str]:
        """See `Processor`."""
        return [side for side in (record.text, record.pair) if side]

    texts = read_texts

    @staticmethod
    def given(record: Labelled) -> Text:
        """See `PackedProcessor`."""
        return record.text if record.pair is None else (record.text, record.pair)

    @cached_property
    def _sequences(self) -> SequenceTokenizer:
        return SequenceTokenizer(self.tokenizer, self.facts.window, self.facts.overlap)

    @property
    def input_columns(self) -> tuple[str, ...]:
        """See `Processor`: of a model of pairs, two."""
        return self.columns[: 2 if self.facts.paired else 1]

    def from_values(self, values: Sequence[Any], where: str) -> Text | None:
        """See `Processor`: of a model of pairs, a line has two texts with a TAB between them."""
        texts = ["" if value is None else cell_text(value, where) for value in values]
        if not any(text.strip() for text in texts):
            return None
        if len(texts) == 1 and (self.facts.paired or self.facts.token_types):
            texts = texts[0].split("\t")
        if len(texts) > 2 or len(texts) < len(self.input_columns):
            raise DataError(
                f"{where} has {len(texts) - 1} TABs and this model classifies pairs; write two "
                "texts with one TAB between them."
            )
        return texts[0] if len(texts) == 1 else (texts[0], texts[1])

    def to_values(self, given: Text) -> dict[str, Any]:
        """See `Processor`."""
        if isinstance(given, str):
            return {"text": given}
        return {"text": given[0], "pair": given[1]}

    def windows(self, given: Any) -> list[Window]:
        """See `Processor`."""
        return [Window(self._typed(part)) for part in self._sequences.sequences(*_sides(given))]

    def _typed(self, example: Example) -> Example:
        return example if self.facts.token_types else replace(example, token_type_ids=None)

    def encoded(self, given: Any) -> EncodedInput:
        """See `PackedProcessor`."""
        texts, longest = _sides(given), self.facts.window
        sequences = SequenceTokenizer(self.tokenizer, WHOLE)
        (example,) = map(self._typed, sequences.sequences(*texts))
        check_length(len(example.ids), longest)
        frame = sequences.frame
        before = (frame.begin,) if len(texts) == 1 else (frame.pair_begin, frame.between)
        words = list[int | None]()
        for symbols, text in zip(before, texts, strict=True):
            words += [None] * len(symbols)
            words += words_of(self.tokenizer, text, next_word(words))
        found = self.encoded_ids(example.ids.tolist(), words)
        if example.token_type_ids is None:
            return found
        types = torch.from_numpy(example.token_type_ids)[None]
        return replace(found, batch=replace(found.batch, token_type_ids=types))

    def schema(self) -> dict[str, Any]:
        """See `Processor`."""
        text = {"type": "string"}
        pair = {"type": "array", "items": text, "minItems": 2, "maxItems": 2}
        return {"anyOf": [text, pair], "description": "a text, or a pair of texts"}


def _sides(given: Any) -> tuple[str, ...]:
    texts = (given,) if isinstance(given, str) else given
    if isinstance(texts, tuple) and len(texts) in (1, 2) and all(isinstance(t, str) for t in texts):
        return texts
    raise ConfigError(
        f"This model reads a text or a pair of texts, not {type(given).__name__}; give one."
    )
