"""The processor of conversations: messages in a template, packed; answers are what is predicted.

ids       <|user|>  2 + 2 ?  <eos>  <|assistant|>  4      <eos>
targets                                            4      <eos>
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

import numpy as np
import torch

from glassformer.batch import Batch
from glassformer.data.config import DataConfig
from glassformer.data.conversations import (
    ASSISTANT,
    Conversation,
    conversations,
    messages_of,
)
from glassformer.data.example import Example
from glassformer.errors import DataError
from glassformer.files import file_in
from glassformer.models.config import ModelConfig
from glassformer.processors.chat_template import (
    SYMBOLS,
    ChatTemplate,
    read_template,
    template_text,
)
from glassformer.processors.config import Augmentations, ProcessorConfig
from glassformer.processors.elements import token_elements
from glassformer.processors.inputs import Records, by_split, split_of
from glassformer.processors.processor import EncodedInput, ModelFacts, Window
from glassformer.processors.tokenized import PackedInputs, PackedProcessor, check_ids
from glassformer.tokenizers.text import Tokenizer
from glassformer.tokenizers.train import train_tokenizer


@dataclass(frozen=True)
class Cut:
    """What of a conversation is left out: so many tokens at its end; `whole`: all of it."""

    tokens: int
    whole: bool


class ConversationInputs(PackedInputs):
    """The encoded conversations of a split: those of which a target fits into the model."""

    def __init__(self, processor: "MessagesProcessor", records: Sequence[Conversation]):
        read = [processor.read_one(record) for record in records]
        self.cuts = [cut for _, cut in read if cut is not None]
        """The conversations that are longer than the model."""
        self._tokenizer = processor.tokenizer
        kept = [owner for owner, (window, _) in enumerate(read) if window is not None]
        self._set(processor, records, kept, [window for window, _ in read if window is not None])

    @property
    def target_bytes(self) -> int:
        """UTF-8 bytes of the text of all targets."""
        ids = (window.example.targets for window in self._windows)
        return sum(len(self._tokenizer.decode(own).encode()) for own in ids if own is not None)


class MessagesProcessor(PackedProcessor):
    """Conversations; a text alone is a message of the user."""

    name, noun = "messages", "conversation"
    columns = ("messages_field",)
    frame = ("", "")
    template: ChatTemplate  # pyright: ignore[reportIncompatibleVariableOverride]
    predicts_all = False
    """Whether every token is a target, not those of answers alone."""

    @classmethod
    def read(cls, data: DataConfig) -> Records:
        """See `Processor`."""
        return by_split(conversations(data))

    @classmethod
    def completed(
        cls, config: ProcessorConfig, begun: ProcessorConfig | None = None
    ) -> ProcessorConfig:
        """See `Processor`: the symbols of our own template, where no other is asked for."""
        own = config.tokenizer
        if begun is not None:
            update = begun.tokenizer.model_dump(include={"specials", "new_tokens"})
            added = [one for of in update.values() for one in of if one in SYMBOLS]
            names = {*own.specials, *own.new_tokens}
            missing = [one for one in added if one not in names]
            known = "specials" if update["specials"] else "new_tokens"
        else:
            missing = _missing(config)
            known = "specials" if own.path is None else "new_tokens"
        changed = {known: [*getattr(own, known), *missing]} if missing else {}
        return config.model_copy(update={"tokenizer": own.model_copy(update=changed)})

    @classmethod
    def fit(
        cls, config: ProcessorConfig, data: DataConfig, records: Any, facts: ModelFacts
    ) -> Self:
        """See `Processor`."""
        texts = cls.texts_to_fit(data, records)
        made = cls(train_tokenizer(config.tokenizer, texts), facts)
        text = _chosen(config)
        own = ChatTemplate.own(made.tokenizer) if text is None else None
        made.template = own or ChatTemplate(text or "", made.tokenizer)
        return made._predicting(data)

    @classmethod
    def load(cls, folder: Path, data: DataConfig, model: ModelConfig, facts: ModelFacts) -> Self:
        """See `Processor`."""
        made = super().load(folder, data, model, facts)
        made.template = made.template or ChatTemplate.own(made.tokenizer)
        return made._predicting(data)

    def for_training(self, facts: ModelFacts, how: Augmentations) -> Self:
        """See `Processor`."""
        made = super().for_training(facts, how)
        made.predicts_all = self.predicts_all
        return made

    def _predicting(self, data: DataConfig) -> Self:
        self.predicts_all = data.loss_on == "all"
        return self

    @staticmethod
    def texts(record: Any) -> Iterator[str]:
        """See `TokenProcessor`."""
        return (message.content for message in record.messages)

    def open(
        self, records: Records, folder: Path, splits: Sequence[str] | None = None
    ) -> dict[str, PackedInputs]:
        """See `Processor`."""
        return {
            name: ConversationInputs(self, split_of(records, name)) for name in splits or records
        }

    def windows(self, given: Any) -> list[Window]:
        """See `Processor`; none where no target is in it."""
        window, _ = self._read(given)
        return [window] if window is not None else []

    def read_one(self, record: Conversation) -> tuple[Window | None, Cut | None]:
        """The beginning of a conversation with its targets (None: it holds none), and what is left
        out (None: nothing)."""
        try:
            return self._read(record.messages)
        except DataError as error:
            raise DataError(f"{record.where}: {error}") from None

    def _read(self, messages: Any) -> tuple[Window | None, Cut | None]:
        said = self.template.encode(messages, answers=not self.predicts_all)
        kept = said.ids[: self.facts.window + 1]
        bearing = np.ones(len(kept), bool) if self.predicts_all else said.answers[: len(kept)]
        at = np.flatnonzero(bearing[1:])
        beyond, whole = len(said.ids) - len(kept), not len(at)
        cut = Cut(beyond, whole) if beyond or whole else None
        if whole:
            return None, cut
        return Window(Example(kept[:-1], targets=kept[at + 1].astype(np.int64), at=at)), cut

    def encoded(self, given: Any) -> EncodedInput:
        """See `PackedProcessor`: messages up to the next answer, or a whole conversation."""
        messages = messages_of(given, "the input")
        prompt = messages[-1].role != ASSISTANT
        ids = self.template.encode(messages, prompt, answers=False).ids.tolist()
        check_ids(ids, self.facts.context, "conversation")
        return EncodedInput(Batch(torch.tensor([ids])), token_elements(self.tokenizer, ids))

    def roles(self, record: Conversation) -> np.ndarray:
        """int8 [T]: who says each token of a record; see `EncodedMessages`."""
        answers = not self.predicts_all
        return self.template.encode(record.messages, answers=answers).roles

    def request_of(self, record: Any) -> list[Any]:
        """See `Processor`: the first message of the user."""
        return [one.content for one in record.messages if one.role == "user"][:1]

    def schema(self) -> dict[str, Any]:
        """See `Processor`."""
        return {"type": "string", "description": "a message of the user"}


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
