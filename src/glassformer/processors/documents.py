"""The processor of running text: documents as one stream of tokens, read in windows."""

import re
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any, Self

import numpy as np

from glassformer.core.errors import ConfigError, DataError
from glassformer.core.files import file_in
from glassformer.data.config import DataConfig
from glassformer.data.example import Example
from glassformer.data.splits import texts_for_tokenizer
from glassformer.data.store import Store, place_of
from glassformer.data.tokens import KIND, TokenSplit, made_by, store_tokens, tokens_of
from glassformer.models.config import ModelConfig
from glassformer.processors.config import ModelFacts, ProcessorConfig
from glassformer.processors.processor import Window, ids_of
from glassformer.processors.stored import STORE, check_stored, kept_store
from glassformer.processors.tokenized import PackedProcessor
from glassformer.processors.tokens.chat_template import ChatTemplate
from glassformer.processors.tokens.elements import EncodedInput

EXAMPLES, TOKENS = 6, 48
"""Example inputs of a run, and tokens of one."""
START = re.compile(r"\n\s*|[.!?][\"'”’)]*\s+")
"""The text before a line or a sentence."""


class DocumentsProcessor(PackedProcessor):
    """Running text; nothing is put around it, but the frame that a tokenizer defines."""

    name, noun = "documents", "text"
    columns = ("text_field",)
    frame = ("", "")

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

    def load_stored(self, data: DataConfig, folder: Path) -> dict[str, TokenSplit] | None:
        """See `Processor`."""
        store = kept_store(data, folder, KIND, made_by(self.tokenizer))
        return store and {name: tokens_of(store, name, data.documents) for name in store.counts}

    def windows(self, given: Any) -> list[Window]:
        """See `Processor`."""
        return [Window(Example(ids)) for ids in self.reader.windows(given)]

    def prompt(self, given: Any, crossed: bool = False) -> EncodedInput:
        """See `Processor`: a text without its end."""
        is_text = ids_of(given) is None
        return self.encode_given(given, is_open=True) if is_text else self.encode(given)

    def encode_given(self, given: Any, is_open: bool = False) -> EncodedInput:
        """See `TokenProcessor`; `is_open`: without the symbols of its end."""
        if not isinstance(given, str):
            raise ConfigError(
                f"This model reads a text or a list of token ids, not {type(given).__name__}; "
                "give one."
            )
        frame = self.tokenizer.frame_or(*self.frame)
        frame = replace(frame, end=()) if is_open else frame
        return self.name_elements(
            Example(frame.one(self.tokenizer.encode(given))), [frame.begin, given]
        )

    def example_inputs(self, folder: Path, sampled: Sequence[Any] = ()) -> list[Any]:
        """See `Processor`: the first tokens of documents, or of lines spread over a few of them."""
        most, found = min(TOKENS, self.facts.context), list[str]()
        with suppress(DataError, OSError, ValueError):
            store = Store.open(self.place or folder / STORE, KIND, hashed=False)
            split = tokens_of(store, "validation" if "validation" in store.counts else "train")
            ends, last = split.document_ends, max(0, len(split.tokens) - 2 * most)
            few = len(ends) < EXAMPLES
            begins = np.linspace(0, last, EXAMPLES) if few else np.append(0, ends)[:EXAMPLES]
            for begin in begins.astype(int):
                text = self.tokenizer.decode(split.tokens[begin : begin + 2 * most])
                if few and begin:
                    text = START.split(text, maxsplit=1)[-1]
                found.append(self.tokenizer.decode(self.tokenizer.encode(text)[:most]).strip())
        return [*dict.fromkeys(filter(None, found))]
