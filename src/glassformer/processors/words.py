"""The processor of sequences of words, one prediction for each word (Note D)."""

from collections.abc import Iterator, Sequence
from functools import cached_property
from typing import Any

from glassformer.core.errors import ConfigError, DataError
from glassformer.data.formats.tagged_words import words_text
from glassformer.data.records.tagged import Tagged, tagged
from glassformer.processors.processor import (
    EncodedInput,
    Window,
    check_length,
)
from glassformer.processors.tokenized import PackedProcessor
from glassformer.processors.word_tokenizer import WHOLE, WordTokenizer

NO_WORDS = "This model reads words, and none were given; give a text, or a list of words."


class WordsProcessor(PackedProcessor):
    """Sequences of words, each word encoded by itself; documents in windows."""

    name, noun = "words", "sentence"
    records = staticmethod(tagged)
    columns = ("word_field", "tag_field")

    @property
    def prefix(self) -> str:  # pyright: ignore[reportIncompatibleVariableOverride]
        """See `TokenProcessor`: words are encoded as behind another one."""
        return self.tokenizer.word_space

    @staticmethod
    def texts(record: Tagged) -> Iterator[str]:
        """See `PackedProcessor`."""
        yield words_text(record.words)

    @staticmethod
    def given(record: Tagged) -> Sequence[str]:
        """See `PackedProcessor`."""
        return record.words

    @cached_property
    def word_tokenizer(self) -> WordTokenizer:
        """The tokenizer of single words."""
        facts = self.facts
        return WordTokenizer(self.tokenizer, facts.window, facts.overlap, facts.tag_piece)

    def request_of(self, record: Tagged) -> list[Any]:
        """See `Processor`."""
        return [" ".join(record.words)]

    def windows(self, given: Any) -> list[Window]:
        """See `Processor`: the targets of a window are at one piece of each of its words."""
        return list(self.word_tokenizer.windows(self.words(given)))

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

    def encoded(self, given: Any) -> EncodedInput:
        """See `PackedProcessor`."""
        words = self.words(given)
        if not words:
            raise ConfigError(NO_WORDS)
        tokenizer = WordTokenizer(self.tokenizer, WHOLE)
        (window,) = tokenizer.windows(words)
        check_length(len(window.example.ids), self.facts.window)
        owner = [number for number, word in enumerate(words) for _ in tokenizer.pieces(word)]
        return self.encoded_ids(
            window.example.ids.tolist(), [*([None] * len(tokenizer.frame.begin)), *owner]
        )

    def schema(self) -> dict[str, Any]:
        """See `Processor`."""
        words = {"type": "array", "items": {"type": "string"}}
        return {
            "anyOf": [words, {"type": "string"}],
            "description": "words, or a text cut at spaces",
        }
