"""`chat`: the assistant's next message, by a chat template."""

from typing import Any, ClassVar

import numpy as np

from glassformer.core.errors import DataError
from glassformer.data.example import Example
from glassformer.data.records.conversations import ASSISTANT, Messages, messages_of
from glassformer.processors.processor import check_length
from glassformer.processors.tokens.chat_template import ChatTemplate
from glassformer.runtime.config import GenerateConfig
from glassformer.runtime.request import Request
from glassformer.tasks.options import ChatOptions, GenerateOptions
from glassformer.tasks.predictors.predictor import Chosen, Parsed
from glassformer.tasks.predictors.writer import Writer, reply_of
from glassformer.tasks.task import Task

LEAST = 4
"""An answer has room for a quarter of the context, or for what was requested if that is less."""


class Answering(Writer[Chosen]):
    """An answer to messages: a text of the user, or {"role": ..., "content": ...} in order."""

    streams, reply = True, reply_of("the assistant's message")
    given: ClassVar[str]
    """Name of an input beside its prediction."""

    @classmethod
    def misfit(cls, task: Task) -> tuple[str, str] | None:
        """Return why a task has no such predictor."""
        if task.processor.template is not None:
            return None
        return (
            "has no chat template",
            ", so it was not trained on messages; train it: glassformer train chat "
            f"data.train.path=FILE train.init_from={task.folder}.",
        )

    @property
    def template(self) -> ChatTemplate:
        """Return the chat template."""
        return self.processor.template

    def several(self, given: Any) -> tuple[bool, list[Any]]:
        """See `Predictor`: a list of texts or of lists of messages, or one of them."""
        several = isinstance(given, list) and isinstance(next(iter(given), None), str | list)
        return not several, given if several else [given]

    def values(self, given: Any) -> dict[str, Any]:
        """Return the input as plain values."""
        return {self.given: given}

    def read(self, given: Any, how: GenerateConfig, number: int = 1) -> Parsed:
        """See `Writer`: `about` has the messages that are left out for the context, and how much
        may be written.

        The first messages are left out, but the system message never. ConfigError: the last message
        is too long. DataError: it is the assistant's.
        """
        said = messages_of(given, "the conversation")
        if said[-1].role == ASSISTANT:
            raise DataError(
                "the conversation ends with the assistant's message; end it with the user's, which "
                "is answered"
            )
        context = self.model.config.max_length
        room = min(how.max_new_tokens, max(1, context // LEAST))
        first = said[:1] if said[0].role == "system" else ()
        rest: Messages = said[len(first) :]
        begins = (0, *(i for i in range(1, len(rest)) if rest[i].role == "user"))
        begin, ids = 0, np.zeros(0, np.int32)
        for begin in begins:
            ids = self.template.encode((*first, *rest[begin:]), prompt=True).ids
            if len(ids) + room <= context + 1:
                break
        check_length(len(ids) + room - 1, context, "The message with room for an answer")
        most = min(how.max_new_tokens, context + 1 - len(ids))
        one = Example(ids)
        return Parsed(given, (one,), (rest[:begin], most), number, self.unknown(one))

    def requests(self, one: Parsed, how: GenerateConfig) -> list[Request]:
        """Return the requests for an input."""
        ends, (_, most) = tuple(self.template.ends | set(how.eos_token_id)), one.about
        return [Request(each.ids.tolist(), how, ends, limit=most) for each in one.windows]


class Chat(Answering[ChatOptions]):
    """An answer in a conversation."""

    name, routes, given = "chat", ("chat/completions",), "message"


class Reply(Answering[GenerateOptions]):
    """An answer to a prompt, a message of the user."""

    name, routes, inputs = "generate", ("completions", "generate"), ("messages",)
    given, lines = "prompt", False
