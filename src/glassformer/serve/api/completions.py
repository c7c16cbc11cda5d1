"""POST /v1/completions: text after a prompt, and the log-probabilities of a prompt."""

from collections.abc import Iterable, Sequence
from typing import Any, Self

from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import Response

from glassformer.serve.api import replies
from glassformer.serve.api.formats import format_of
from glassformer.serve.api.models import COMPLETIONS, Served
from glassformer.serve.api.requests import CompletionRequest
from glassformer.serve.api.service import STREAMED, QueuedRoute, Serving
from glassformer.serve.api.text_replies import TextReply, answer
from glassformer.serve.api.texts import (
    Choice,
    Finish,
    Token,
    Wanted,
    completion_log_probs,
    how_of,
    prompts_of,
    room,
)

NEW_TOKENS = 16
"""New tokens where a request does not say how many, as in OpenAI's API."""
LIGHT = 1 << 12
"""Bytes of a body whose text is tokenized in less than a few milliseconds."""
router = APIRouter(route_class=QueuedRoute)


class Completion(TextReply):
    """A completion."""

    route, prefix = COMPLETIONS, "cmpl"
    kinds = ("text_completion", "text_completion")

    @classmethod
    def read(cls, asked: CompletionRequest, served: Served) -> Self:
        """Prepare a completion; errors of `TextReply.read`."""
        prompts = prompts_of(served, asked.prompt)
        n_tokens = room(served, prompts, asked.max_tokens, NEW_TOKENS)
        how, echo = how_of(served, asked, n_tokens), bool(asked.echo)
        ends = how.ends(served.run.tokenizer.specials.get("eos"))
        wanted = Wanted(
            how,
            ends,
            asked.n or 1,
            asked.logprobs or 0,
            behind=True,
            echo=echo,
            scored=echo and asked.logprobs is not None,
            empty=not n_tokens,
            format=format_of(served, asked, ends),
        )
        return cls(asked, served, prompts, wanted)

    def whole(self, choice: Choice) -> dict[str, Any]:
        """Return the text with its log-probabilities."""
        return self._fields(choice.text, choice.tokens, choice.finish)

    def pieces(
        self, choice: Choice, text: str, tokens: Sequence[Token]
    ) -> Iterable[dict[str, Any]]:
        """Return the new text as one event."""
        return [self._fields(text, tokens, choice.finish)]

    def _fields(self, text: str, tokens: Sequence[Token], finish: Finish | None) -> dict[str, Any]:
        log_probs = None
        if self.asked.logprobs is not None:
            tokenizer = self.served.run.tokenizer
            log_probs = completion_log_probs(tokenizer, tokens, self.wanted.top)
        return {"text": text, "logprobs": log_probs, "finish_reason": finish}


@router.post("/v1/completions", response_model=replies.Completion, responses=STREAMED)
async def completions(asked: CompletionRequest, request: Request, service: Serving) -> Response:
    """Text after a prompt, and the log-probabilities of a prompt."""
    light = len(await request.body()) <= LIGHT
    light = light and asked.response_format is None and asked.grammar is None
    return await answer(Completion, request, service, asked, light)
