"""The processor of conversations: messages in a template, packed.

ids     <|user|>  2 + 2 ?  <eos>  <|assistant|>  4      <eos>
said                                             x      x
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Any, Self

import torch

from glassformer.core.batch import Batch
from glassformer.core.errors import DataError
from glassformer.core.files import file_in
from glassformer.data.config import DataConfig
from glassformer.data.example import Example
from glassformer.data.records.conversations import (
    ASSISTANT,
    Conversation,
    conversations,
    messages_of,
)
from glassformer.models.config import ModelConfig
from glassformer.processors.config import ModelFacts, ProcessorConfig
from glassformer.processors.processor import Window
from glassformer.processors.tokenized import PackedProcessor, check_ids
from glassformer.processors.tokens.chat_template import (
    SYMBOLS,
    ChatTemplate,
    read_template,
    template_text,
)
from glassformer.processors.tokens.elements import EncodedInput, token_elements
from glassformer.tokenizers.text import Tokenizer
from glassformer.tokenizers.train import train_tokenizer


class MessagesProcessor(PackedProcessor):
    """Conversations; a text alone is a message of the user."""

    name, noun = "messages", "conversation"
    records = staticmethod(conversations)
    columns = ("messages_field",)
    frame, reads = ("", ""), "a message of the user"
    summary = "answers messages"
    template: ChatTemplate  # pyright: ignore[reportIncompatibleVariableOverride]

    @classmethod
    def completed(
        cls, config: ProcessorConfig, begun: ProcessorConfig | None = None
    ) -> ProcessorConfig:
        """See `Processor`: the symbols of our own template, where no other is asked for."""
        own = config.tokenizer
        if begun is None:
            added = {"specials" if own.path is None else "new_tokens": _missing(config)}
        else:
            kept = begun.tokenizer.model_dump(include={"specials", "new_tokens"})
            added = {name: [one for one in of if one in SYMBOLS] for name, of in kept.items()}
        changed = {
            name: [*dict.fromkeys([*getattr(own, name), *symbols])]
            for name, symbols in added.items()
        }
        return config.model_copy(update={"tokenizer": own.model_copy(update=changed)})

    @classmethod
    def fit(
        cls, config: ProcessorConfig, data: DataConfig, records: Any, facts: ModelFacts
    ) -> Self:
        """See `Processor`."""
        texts = cls.texts_to_fit(data, records)
        made = cls(train_tokenizer(config.tokenizer, texts), facts)
        text, tokenizer = _chosen(config), made.tokenizer
        made.template = (
            ChatTemplate.own(tokenizer) if text is None else ChatTemplate(text, tokenizer)
        )
        return made

    @classmethod
    def load(cls, folder: Path, data: DataConfig, model: ModelConfig, facts: ModelFacts) -> Self:
        """See `Processor`."""
        made = super().load(folder, data, model, facts)
        made.template = made.template or ChatTemplate.own(made.tokenizer)
        return made

    @staticmethod
    def texts(record: Any) -> Iterator[str]:
        """See `TokenProcessor`."""
        return (message.content for message in record.messages)

    @staticmethod
    def given(record: Conversation) -> Conversation:
        """See `PackedProcessor`: with its place, for errors."""
        return record

    def windows(self, given: Any) -> list[Window]:
        """See `Processor`: the whole conversation, with the marks of the assistant's text."""
        if isinstance(given, Conversation):
            try:
                return self.windows(given.messages)
            except DataError as error:
                raise DataError(f"{given.where}: {error}") from None
        one = self.template.encode(given, answers=self.facts.speakers)
        return [Window(Example(one.ids, said=one.answers if self.facts.speakers else None))]

    def encode_given(self, given: Any) -> EncodedInput:
        """See `PackedProcessor`: messages up to the next answer, or a whole conversation."""
        messages = messages_of(given, "the input")
        prompt = messages[-1].role != ASSISTANT
        ids = self.template.encode(messages, prompt, answers=False).ids.tolist()
        check_ids(ids, self.facts.context, "conversation")
        return EncodedInput(Batch(torch.tensor([ids])), token_elements(self.tokenizer, ids))

    def request_of(self, record: Any) -> list[Any]:
        """See `Processor`: the first message of the user."""
        return [one.content for one in record.messages if one.role == "user"][:1]


def _chosen(config: ProcessorConfig) -> str | None:
    """The template of the settings, or of the tokenizer's folder; None: our own."""
    if config.chat_template is not None:
        return read_template(Path(config.chat_template).expanduser())
    path = config.tokenizer.path
    return None if path is None else template_text(file_in(path, "tokenizer.json").parent)


def _missing(config: ProcessorConfig) -> list[str]:
    """The symbols of our own template that the tokenizer lacks, if that is the template."""
    own = config.tokenizer
    if _chosen(config) is not None:
        return []
    known = {*own.specials, *own.new_tokens}
    if own.path is not None:
        known |= Tokenizer.load(own.path).specials.keys()
    return [symbol for symbol in SYMBOLS if symbol not in known]
