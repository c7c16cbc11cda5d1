"""Language models: texts scored and continued, and messages answered by a chat template."""

from collections.abc import Iterator, Sequence
from itertools import chain
from typing import Any

from glassformer.core.errors import ConfigError, DataError
from glassformer.data.conversations import ASSISTANT, Messages, messages_of
from glassformer.models.transformer import Transformer
from glassformer.processors.processor import check_length
from glassformer.processors.tokens.chat_template import ChatTemplate
from glassformer.runtime.config import GenerateConfig
from glassformer.runtime.request import Request
from glassformer.tasks.predict.gradually import finish
from glassformer.tasks.predict.scores import (
    Likelihood,
    beginning,
    cut,
    likelihoods,
    prompt_ids,
    rolling,
    split_answer,
)
from glassformer.tasks.predict.text import Delta, Generated, Writing, write
from glassformer.tasks.task import Task
from glassformer.tokenizers.text import Tokenizer

LEAST = 4
"""An answer has room for a quarter of the context, or for what is asked for if that is less."""


def continuations(
    model: Transformer,
    tokenizer: Tokenizer,
    prompts: Sequence[str],
    how: GenerateConfig,
    longest: int | None = None,
    **options: Any,
) -> Writing:
    """Continue texts, or their last `longest` tokens."""
    ends = how.ends(tokenizer.specials.get("eos"))
    read = (prompt_ids(tokenizer, text)[0] for text in prompts)
    requests = [Request(ids[-longest if longest else 0 :], how, ends) for ids in read]
    return write(model, tokenizer, requests, continues=True, **options)


class Chatting(Task):
    """A task whose model continues texts, and may answer messages."""

    routes = ("completions", "chat/completions", "embeddings")

    @property
    def template(self) -> ChatTemplate:
        """The chat template of the run; ConfigError: it has none."""
        template = self.processor.template
        if template is None:
            raise ConfigError(
                f"{self.folder} has no chat template, so it was not trained on messages; train it: "
                f"glassformer train chat data.train.path=FILE train.init_from={self.folder}."
            )
        return template

    def likelihoods(
        self, model: Transformer, pairs: Sequence[tuple[str, str]], fit: bool = False
    ) -> list[Likelihood]:
        """See `Task`."""
        ids = [split_answer(self.processor.tokenizer, *pair) for pair in pairs]
        longest = model.config.max_length
        return likelihoods(model, [cut(pair, longest) for pair in ids] if fit else ids)

    def room(self, model: Transformer, prompt: str, answer: str) -> int:
        """See `Task`."""
        before, behind = split_answer(self.processor.tokenizer, prompt, answer)
        return model.config.max_length + 1 - len(before) - len(behind)

    def rolled(self, model: Transformer, texts: Sequence[str]) -> list[float]:
        """See `Task`."""
        tokenizer, longest = self.processor.tokenizer, model.config.max_length
        first, frame = beginning(tokenizer), tokenizer.frame_or("", "").begin
        if texts and not first:
            raise ConfigError(
                f"{self.folder} has no symbol behind which a text's first token is predicted; use "
                "`glassformer evaluate`."
            )
        windows = [
            rolling([*frame, *tokenizer.encode(text).tolist()], first[0], longest) for text in texts
        ]
        found = iter(likelihoods(model, [pair for own in windows for pair in own]))
        return [sum(next(found).log_prob for _ in own) for own in windows]

    def complete(
        self, model: Transformer, prompts: Sequence[str], how: GenerateConfig
    ) -> list[str]:
        """See `Task`."""
        longest = model.config.max_length
        kept = max(longest - how.max_new_tokens, longest // 2)
        found = finish(continuations(model, self.processor.tokenizer, prompts, how, kept))
        return [one.text for one in found]

    def chat_prompt(
        self, messages: Any, how: GenerateConfig
    ) -> tuple[list[int], Messages, GenerateConfig]:
        """The tokens of messages up to the answer, the messages that were left out for the context,
        and how much may be generated.

        The first messages are left out, but the system message never. ConfigError: the last message
        alone is too long. DataError: it is the assistant's.
        """
        said = messages_of(messages, "the conversation")
        if said[-1].role == ASSISTANT:
            raise DataError(
                "the conversation ends with the assistant's message; end it with the user's, which "
                "is answered"
            )
        context, template = self.recipe.model.max_length, self.template
        room = min(how.max_new_tokens, max(1, context // LEAST))
        first = said[:1] if said[0].role == "system" else ()
        rest = said[len(first) :]
        begins = (0, *(i for i in range(1, len(rest)) if rest[i].role == "user"))
        begin, ids = 0, list[int]()
        for begin in begins:
            ids = template.encode((*first, *rest[begin:]), prompt=True).ids.tolist()
            if len(ids) + room <= context + 1:
                break
        check_length(len(ids) + room - 1, context, "The message with room for an answer")
        most = min(how.max_new_tokens, context + 1 - len(ids))
        return ids, rest[:begin], how.model_copy(update={"max_new_tokens": most})

    def replies(
        self, model: Transformer, conversations: Sequence[Any], how: GenerateConfig, **options: Any
    ) -> Writing:
        """Write the assistant's next message in each conversation."""
        read = [self.chat_prompt(one, how) for one in conversations]
        ends = tuple(self.template.ends | set(how.eos_token_id))
        requests = [Request(ids, how, ends, limit=own.max_new_tokens) for ids, _, own in read]
        return write(model, self.processor.tokenizer, requests, **options)

    def chat(self, *arguments: Any, **options: Any) -> list[Generated]:
        """Return the messages that are written by `replies`."""
        return finish(self.replies(*arguments, **options))

    def chat_stream(
        self, model: Transformer, messages: Any, how: GenerateConfig, **options: Any
    ) -> Iterator[Delta]:
        """The assistant's next message as it grows."""
        return chain.from_iterable(self.replies(model, [messages], how, **options))
