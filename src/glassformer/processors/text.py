"""The processors of texts, pairs of texts, and words: sequences between <bos> and <eos>."""

from abc import abstractmethod
from collections.abc import Iterator, Sequence
from functools import cached_property
from typing import Any

from glassformer.core.errors import ConfigError, DataError
from glassformer.data.formats.tagged_words import words_text
from glassformer.data.records.labelled import Labelled, read_labelled
from glassformer.data.records.tagged import Tagged, read_tagged
from glassformer.processors.processor import Window, cell_text, check_length
from glassformer.processors.tokenized import PackedProcessor
from glassformer.processors.tokens.elements import EncodedInput
from glassformer.processors.tokens.sequence_builder import SequenceBuilder

NO_WORDS = "This model reads words, and none were given; give a text, or a list of words."
Text = str | tuple[str, str]
"""A text, or a pair of texts."""


class FramedProcessor(PackedProcessor):
    """Sequences in the frame of their tokenizer; long ones in windows."""

    @cached_property
    def builder(self) -> SequenceBuilder:
        """The builder of its sequences."""
        facts = self.facts
        return SequenceBuilder(
            self.tokenizer, facts.window, facts.overlap, facts.word_at or "last", facts.token_types
        )

    @abstractmethod
    def sides(self, given: Any) -> tuple[Any, ...]:
        """Return the text, both texts or the words of an input; ConfigError: it has none."""

    def windows(self, given: Any) -> list[Window]:
        """Return the sequences of one input, at least one of a text."""
        return self.builder.windows(*self.sides(given))

    def encode_given(self, given: Any) -> EncodedInput:
        """Encode a text, a pair or words as one sequence; ConfigError: no word."""
        sides, builder = self.sides(given), self.builder.whole()
        if not (found := builder.windows(*sides)):
            raise ConfigError(NO_WORDS)
        check_length(len(found[0].example.ids), self.facts.window)
        return self.name_elements(found[0].example, builder.contents(*sides))


class TextProcessor(FramedProcessor):
    """Texts, or pairs of texts, each framed by special symbols; long ones in windows."""

    name, noun = "text", "text"
    records = staticmethod(read_labelled)
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
        return (
            {"text": given}
            if isinstance(given, str)
            else dict(zip(("text", "pair"), given, strict=True))
        )

    def sides(self, given: Any) -> tuple[str, ...]:
        """Return a text, or both texts of a pair; ConfigError: it is neither."""
        texts = (given,) if isinstance(given, str) else given
        whole = isinstance(texts, tuple) and len(texts) in (1, 2)
        if whole and all(isinstance(text, str) for text in texts):
            return texts
        raise ConfigError(
            f"This model reads a text or a pair of texts, not {type(given).__name__}; give one."
        )

    def schema(self) -> dict[str, Any]:
        """See `Processor`."""
        text = {"type": "string"}
        pair = {"type": "array", "items": text, "minItems": 2, "maxItems": 2}
        return {"anyOf": [text, pair], "description": "a text, or a pair of texts"}


class WordsProcessor(FramedProcessor):
    """Sequences of words, which are encoded one by one; documents in windows."""

    name, noun = "words", "sentence"
    records = staticmethod(read_tagged)
    columns = ("word_field", "tag_field")

    @property
    def prefix(self) -> str:
        """See `TokenProcessor`: words are encoded as after another one."""
        return self.tokenizer.word_space

    @staticmethod
    def texts(record: Tagged) -> Iterator[str]:
        """See `PackedProcessor`."""
        yield words_text(record.words)

    @staticmethod
    def given(record: Tagged) -> Sequence[str]:
        """Return the words of a record."""
        return record.words

    def request_of(self, record: Tagged) -> list[Any]:
        """See `Processor`."""
        return [" ".join(record.words)]

    def sides(self, given: Any) -> tuple[list[str]]:
        """See `FramedProcessor`: the targets of a window are at one piece of each of its words."""
        return (self.words(given),)

    def words(self, given: Any) -> list[str]:
        """See `Processor`: a text is cut at spaces. ConfigError: these are no words."""
        words = given.split() if isinstance(given, str) else list(given)
        if not all(isinstance(word, str) for word in words):
            raise ConfigError(NO_WORDS)
        return words

    def from_values(self, values: Sequence[Any], where: str) -> list[str] | None:
        """See `Processor`: a list of words, or a text cut at spaces."""
        (value,) = values
        if value is None or isinstance(value, str):
            return (value or "").split() or None
        if not isinstance(value, list) or not all(isinstance(one, str) and one for one in value):
            raise DataError(
                f"{where} has {value!r:.40} where words are read; give a list of strings that are "
                "not empty, or a text"
            )
        return value or None

    def one_or_several(self, given: Any) -> tuple[bool, list[Any]]:
        """See `Processor`: a text or a list of words, or a list of such lists."""
        inputs = given.split() if isinstance(given, str) else list(given)
        single = not inputs or isinstance(inputs[0], str)
        return single, [inputs] if single else inputs

    def schema(self) -> dict[str, Any]:
        """Return the JSON schema of words, or of a text."""
        words = {"type": "array", "items": {"type": "string"}}
        return {
            "anyOf": [words, {"type": "string"}],
            "description": "words, or a text cut at spaces",
        }
