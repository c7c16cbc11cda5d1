"""The processor of texts and of pairs of texts: sequences between <bos> and <eos>."""

from collections.abc import Sequence
from dataclasses import replace
from functools import cached_property
from itertools import chain
from typing import Any

from glassformer.core.errors import ConfigError, DataError
from glassformer.data.example import Example
from glassformer.data.labelled import Labelled, labelled
from glassformer.processors.processor import (
    EncodedInput,
    Window,
    cell_text,
    check_length,
)
from glassformer.processors.sequence_builder import SequenceBuilder
from glassformer.processors.tokenized import PackedProcessor

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
    def builder(self) -> SequenceBuilder:
        """How its sequences are made."""
        return SequenceBuilder(self.tokenizer, self.facts.window, self.facts.overlap)

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
        return [Window(self._typed(part)) for part in self.builder.texts(*_sides(given))]

    def _typed(self, example: Example) -> Example:
        return example if self.facts.token_types else replace(example, token_type_ids=None)

    def encoded(self, given: Any) -> EncodedInput:
        """See `PackedProcessor`."""
        texts, builder = _sides(given), SequenceBuilder(self.tokenizer)
        (example,) = map(self._typed, builder.texts(*texts))
        check_length(len(example.ids), self.facts.window)
        frame = builder.frame
        before = (frame.begin,) if len(texts) == 1 else (frame.pair_begin, frame.between)
        return self.named(example, [*chain(*zip(before, texts, strict=True))])

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
