"""The processor of texts and of pairs of texts: sequences between <bos> and <eos>."""

from collections.abc import Iterator
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import Any, Self

import torch

from glassformer.data.config import DataConfig
from glassformer.data.example import Example
from glassformer.data.labelled import Labelled, labelled
from glassformer.errors import ConfigError, DataError
from glassformer.models.config import ModelConfig
from glassformer.processors.elements import next_word, words_of
from glassformer.processors.inputs import by_split
from glassformer.processors.processor import (
    EncodedInput,
    ModelFacts,
    Window,
    check_hopeless,
    check_length,
    ids_of,
)
from glassformer.processors.sequence import SequenceTokenizer
from glassformer.processors.text_reader import TextReader
from glassformer.processors.tokenized import TokenProcessor
from glassformer.processors.word_tokenizer import framing

WHOLE = 1 << 40
"""A window that everything fits into."""
Text = str | tuple[str, str]
"""A text, or a pair of texts."""


class TextProcessor(TokenProcessor):
    """Texts, or pairs of texts, each framed by special symbols; long ones in windows."""

    name, noun = "text", "text"

    @classmethod
    def read(cls, data: DataConfig) -> dict[str, list[Labelled]]:
        """See `Processor`."""
        return by_split(labelled(data))

    @staticmethod
    def texts(record: Labelled) -> Iterator[str]:
        """See `TokenProcessor`."""
        return (side for side in (record.text, record.pair) if side)

    @staticmethod
    def given(record: Labelled) -> Text:
        """See `TokenProcessor`."""
        return record.text if record.pair is None else (record.text, record.pair)

    @cached_property
    def _sequences(self) -> SequenceTokenizer:
        return SequenceTokenizer(self.tokenizer, self.facts.window, self.facts.overlap)

    paired = False
    """Whether every input is a pair of texts."""

    @classmethod
    def load(cls, folder: Path, data: DataConfig, model: ModelConfig, facts: ModelFacts) -> Self:
        """See `Processor`."""
        processor = super().load(folder, data, model, facts)
        processor.paired = data.pair_field is not None
        return processor

    def from_line(self, line: str, number: int) -> Text | None:
        """See `Processor`: of a model of pairs, two texts with a TAB between them."""
        if not line.strip():
            return None
        texts = tuple(line.split("\t"))
        if not self.paired and (len(texts) == 1 or not self.facts.token_types):
            return line
        if len(texts) == 2:
            return texts[0], texts[1]
        raise DataError(
            f"Line {number} has {len(texts) - 1} TABs and this model classifies pairs; write two "
            "texts with one TAB between them."
        )

    def to_values(self, given: Text) -> dict[str, Any]:
        """See `Processor`."""
        if isinstance(given, str):
            return {"text": given}
        return {"text": given[0], "pair": given[1]}

    def request_of(self, record: Labelled) -> list[Any]:
        """See `Processor`."""
        return [record.text if record.pair is None else [record.text, record.pair]]

    def windows(self, given: Any) -> list[Window]:
        """See `Processor`."""
        typed = self.facts.token_types
        return [
            Window(Example(part.ids, token_type_ids=part.token_type_ids if typed else None))
            for part in self._sequences.sequences(*_sides(given))
        ]

    def encode(self, given: Any) -> EncodedInput:
        """See `Processor`."""
        if (ids := ids_of(given)) is not None:
            return self.encoded_ids(ids)
        texts, longest = _sides(given), self.facts.window
        check_hopeless(sum(map(self.tokenizer.at_least, texts)), longest)
        (sequence,) = SequenceTokenizer(self.tokenizer, WHOLE).sequences(*texts)
        check_length(len(sequence.ids), longest)
        bos, eos = framing(self.tokenizer, "bos"), framing(self.tokenizer, "eos")
        words: list[int | None] = [None] * len(bos)
        for text in texts:
            words += [*words_of(self.tokenizer, text, next_word(words)), *([None] * len(eos))]
        found = self.encoded_ids(sequence.ids.tolist(), words)
        if sequence.token_type_ids is None or not self.facts.token_types:
            return found
        types = torch.from_numpy(sequence.token_type_ids)[None]
        return replace(found, batch=replace(found.batch, token_type_ids=types))

    @property
    def reader(self) -> TextReader:
        """How a text is read for its vector."""
        bos, eos = framing(self.tokenizer, "bos"), framing(self.tokenizer, "eos")
        return TextReader(self.tokenizer, self.facts.window, "", bos, eos)

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
