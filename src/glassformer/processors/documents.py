"""The processor of running text: documents as one stream of tokens, read in windows."""

import re
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any, Self

import numpy as np

from glassformer.data.config import NAMES, DataConfig
from glassformer.data.example import Example
from glassformer.data.splits import texts_for_tokenizer
from glassformer.data.store import Store, place_of
from glassformer.data.tokens import KIND, TokenSplit, made_by, store_tokens, tokens_of
from glassformer.errors import ConfigError, DataError
from glassformer.files import file_in
from glassformer.models.config import ModelConfig
from glassformer.processors.chat_template import ChatTemplate
from glassformer.processors.config import ProcessorConfig
from glassformer.processors.elements import words_of
from glassformer.processors.processor import (
    EncodedInput,
    ModelFacts,
    Window,
    check_length,
)
from glassformer.processors.tokenized import (
    STORE,
    PackedProcessor,
    check_stored,
    kept_store,
)

EXAMPLES, TOKENS = 6, 48
"""Example inputs of a run, and tokens of one."""
STARTS = (re.compile(r"\n\s*\n\s*"), re.compile(r"[.!?][\"'”’)]*\s+"), re.compile(r"\s+"))
"""Where a piece of running text may begin, the best first: a paragraph, a sentence, a word."""


class DocumentsProcessor(PackedProcessor):
    """Running text; nothing is put around it, but the frame that a tokenizer defines."""

    name, noun = "documents", "text"
    columns = ("text_field",)
    frame = ("", "")

    @classmethod
    def read(cls, data: DataConfig) -> DataConfig:
        """See `Processor`: documents are read when they are stored."""
        return data

    @classmethod
    def texts_to_fit(cls, data: DataConfig, records: Any) -> Iterator[str]:
        """See `PackedProcessor`."""
        return texts_for_tokenizer(data)

    @classmethod
    def fit(
        cls, config: ProcessorConfig, data: DataConfig, records: Any, facts: ModelFacts
    ) -> Self:
        """See `Processor`: with the chat template of the tokenizer's folder."""
        made, path = super().fit(config, data, records, facts), config.tokenizer.path
        if path is not None:
            folder = file_in(path, "tokenizer.json").parent
            made.template = ChatTemplate.load(folder, made.tokenizer)
        return made

    @classmethod
    def load(cls, folder: Path, data: DataConfig, model: ModelConfig, facts: ModelFacts) -> Self:
        """See `Processor`."""
        processor = super().load(folder, data, model, facts)
        check_stored(folder, processor.tokenizer, "fingerprint")
        processor.place = place_of(data, folder / STORE)
        return processor

    def open(  # pyright: ignore[reportIncompatibleMethodOverride]
        self, records: DataConfig, folder: Path, splits: Sequence[str] | None = None
    ) -> dict[str, TokenSplit]:
        """See `Processor`: the token store, built unless it is there unchanged."""
        store = store_tokens(folder / STORE, self.tokenizer, records)
        return {n: tokens_of(store, n, records.documents) for n in splits or store.counts}

    def stored(self, data: DataConfig, folder: Path) -> dict[str, TokenSplit] | None:
        """See `Processor`."""
        store = kept_store(data, folder, KIND, made_by(self.tokenizer))
        return store and {name: tokens_of(store, name, data.documents) for name in store.counts}

    def windows(self, given: Any) -> list[Window]:
        """See `Processor`."""
        return [Window(Example(ids)) for ids in self.reader.windows(given)]

    def encoded(self, given: Any) -> EncodedInput:
        """See `PackedProcessor`."""
        if not isinstance(given, str):
            raise ConfigError(
                f"This model reads a text or a list of token ids, not {type(given).__name__}; "
                "give one."
            )
        frame = self.tokenizer.frame_or(*self.frame)
        if self.facts.answers:  # which continues the text
            frame = replace(frame, end=())
        ids = frame.one(self.tokenizer.encode(given)).tolist()
        check_length(len(ids), self.facts.context)
        before = [None] * len(frame.begin)
        return self.encoded_ids(ids, [*before, *words_of(self.tokenizer, given)])

    def schema(self) -> dict[str, Any]:
        """See `Processor`."""
        return {"type": "string", "description": "a text"}

    def example_inputs(self, folder: Path, sampled: Sequence[Any] = ()) -> list[Any]:
        """See `Processor`: the first tokens of documents; of a few long documents, from paragraphs,
        sentences or words."""
        most = min(TOKENS, self.facts.context)
        with suppress(DataError):
            store = Store.open(self.place or folder / STORE, KIND, hashed=False)
            for name in (name for name in NAMES[1::-1] if name in store.counts):
                split = tokens_of(store, name)
                if len(split.document_ends) >= EXAMPLES:
                    begins = [0, *split.document_ends[: EXAMPLES - 1].tolist()]
                    found = [self._decoded(split.tokens[i : i + most]) for i in begins]
                else:
                    last = max(0, len(split.tokens) - 4 * most)
                    spread = np.linspace(0, last, EXAMPLES).astype(int).tolist()
                    found = [self._from_start(split.tokens, begin, most) for begin in spread]
                if texts := [text for text in dict.fromkeys(map(str.strip, found)) if text]:
                    return texts
        return []

    def _decoded(self, ids: np.ndarray) -> str:
        return self.tokenizer.decode(ids.tolist())

    def _from_start(self, ids: np.ndarray, begin: int, most: int) -> str:
        """A text of `most` tokens from the first good start at or after `begin`."""
        text = self._decoded(ids[begin : begin + 4 * most])
        if begin:
            half = len(text) // 2
            starts = (found.end() for start in STARTS if (found := start.search(text, 0, half)))
            text = text[next(starts, 0) :]
        return self._decoded(self.tokenizer.encode(text)[:most])
