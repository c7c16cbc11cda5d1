"""POST /v1/chat/completions: the assistant's next message, by the run's chat template."""

from collections.abc import Iterable, Sequence
from typing import Any, Self

from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import Response

from glassformer.serve.api import replies
from glassformer.serve.api.formats import format_of
from glassformer.serve.api.models import CHAT, Served
from glassformer.serve.api.problems import ApiError
from glassformer.serve.api.requests import ChatRequest
from glassformer.serve.api.service import STREAMED, QueuedRoute, Serving
from glassformer.serve.api.text_replies import TextReply, answer
from glassformer.serve.api.texts import (
    Choice,
    Prompt,
    Token,
    Wanted,
    chat_log_probs,
    check_fits,
    how_of,
    room,
)

router = APIRouter(route_class=QueuedRoute)


class Chat(TextReply):
    """A message of the assistant."""

    route, prefix = CHAT, "chatcmpl"
    kinds = ("chat.completion", "chat.completion.chunk")

    @classmethod
    def read(cls, asked: ChatRequest, served: Served) -> Self:
        """Prepare a chat; errors of `TextReply.read`."""
        prompt = _prompt(served, asked)
        wanted = asked.max_completion_tokens or asked.max_tokens
        default = served.run.options().max_new_tokens
        how = how_of(served, asked, room(served, [prompt], wanted, default))
        ends = tuple(sorted({*served.run.task.template.ends, *how.eos_token_id}))
        form, top = format_of(served, asked, ends), asked.top_logprobs or 0
        return cls(asked, served, [prompt], Wanted(how, ends, asked.n or 1, top, format=form))

    def whole(self, choice: Choice) -> dict[str, Any]:
        """Return the message with its log-probabilities."""
        message = {"role": "assistant", "content": choice.text, "refusal": None}
        return {"message": message, "logprobs": self._log_probs(choice.tokens)}

    def opening(self, choice: Choice) -> Iterable[dict[str, Any]]:
        """Yield the event that says who speaks."""
        yield _event({"role": "assistant", "content": ""})

    def pieces(
        self, choice: Choice, text: str, tokens: Sequence[Token]
    ) -> Iterable[dict[str, Any]]:
        """Yield the new text, and the reason of the end as another event."""
        log_probs = self._log_probs(tokens)
        if text or log_probs is not None:
            yield _event({"content": text}, log_probs)
        if choice.finish is not None:
            yield _event({}, finish=choice.finish)

    def _log_probs(self, tokens: Sequence[Token]) -> dict[str, Any] | None:
        return chat_log_probs(self.served.run.tokenizer, tokens) if self.asked.logprobs else None


def _event(delta: dict[str, Any], log_probs: Any = None, finish: Any = None) -> dict[str, Any]:
    return {"delta": delta, "logprobs": log_probs, "finish_reason": finish}


@router.post("/v1/chat/completions", response_model=replies.ChatCompletion, responses=STREAMED)
async def chat(asked: ChatRequest, request: Request, service: Serving) -> Response:
    """The assistant's next message."""
    return await answer(Chat, request, service, asked)


def _prompt(served: Served, asked: ChatRequest) -> Prompt:
    """The messages up to the answer; ApiError: the last one is the assistant's, or they are
    longer than the context."""
    messages = [one.plain() for one in asked.messages]
    if messages[-1]["role"] == "assistant":
        raise ApiError(
            400, "messages: the last one is the assistant's; end with the user's.", "messages"
        )
    tokenizer, context = served.run.tokenizer, served.run.model.config.max_length
    least = sum(tokenizer.at_least(one["content"]) for one in messages)
    check_fits(least, 0, context)
    return Prompt("", tuple(served.run.task.template.encode(messages, prompt=True).ids.tolist()))
