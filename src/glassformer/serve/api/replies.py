"""Schemas of replies, for /openapi.json and the tests; handlers write plain values."""

from typing import Any, Literal

from pydantic import BaseModel, ConfigDict

Finish = Literal["stop", "length"]


class Strict(BaseModel):
    """Complete: a field more or less is an error."""

    model_config = ConfigDict(extra="forbid", strict=True, allow_inf_nan=False)


class Open(Strict):
    """With more fields than those of its class."""

    model_config = ConfigDict(extra="allow", strict=True, allow_inf_nan=False)
    __pydantic_extra__: dict[str, Any]  # pyright: ignore[reportIncompatibleVariableOverride]


class Usage(Strict):
    """Tokens of a request."""

    prompt_tokens: int
    completion_tokens: int
    total_tokens: int


class InputUsage(Strict):
    """Tokens of a request that generates nothing."""

    prompt_tokens: int
    total_tokens: int


class Model(Strict):
    """A model, its task, and the routes that it answers."""

    id: str
    object: Literal["model"]
    created: int
    owned_by: str
    task: str
    max_length: int
    routes: list[str]
    input: dict[str, Any]
    output: dict[str, Any]


class Models(Strict):
    """GET /v1/models."""

    object: Literal["list"]
    data: list[Model]


class LogProbs(Strict):
    """log p of each token in nats; of the first token of a text it may be null."""

    tokens: list[str]
    token_logprobs: list[float | None]
    top_logprobs: list[dict[str, float] | None] | None
    text_offset: list[int]


class InspectedPart(Open):
    """Arrays as lists, null where the format is safetensors; what else there is says their axes."""

    layers: list[int]


class Inspected(Strict):
    """What the model looked at.

    `ids`, `tokens`: what it read, the prompt and the new tokens but the last. `first`: the index in
    them of the first new token. attention: `heads`, and `values` [layer, head, query, key]. hidden:
    `values` [layer, token, d_model]. logit_lens, at the `positions` where a new token was read:
    `ids` and `probabilities` [layer, position, rank], and that of the new token, `chosen` [layer,
    position]. `safetensors`: the arrays by names such as hidden.values, in base64.
    """

    ids: list[int]
    tokens: list[str]
    first: int
    attention: InspectedPart | None
    hidden: InspectedPart | None
    logit_lens: InspectedPart | None
    safetensors: str | None


class CompletionChoice(Strict):
    """A text; in a stream, a piece of it."""

    index: int
    text: str
    logprobs: LogProbs | None
    finish_reason: Finish | None
    inspect: Inspected | None = None


class Completion(Strict):
    """POST /v1/completions, and each event of its stream."""

    id: str
    object: Literal["text_completion"]
    created: int
    model: str
    choices: list[CompletionChoice]
    usage: Usage | None = None


class TopToken(Strict):
    """A token with log p in nats and its bytes."""

    token: str
    logprob: float
    bytes: list[int]


class ChatToken(TopToken):
    """A token of an answer, and the likeliest tokens at its place."""

    top_logprobs: list[TopToken]


class ChatLogProbs(Strict):
    """The tokens of an answer."""

    content: list[ChatToken]
    refusal: None


class Said(Strict):
    """A message of the assistant."""

    role: Literal["assistant"]
    content: str
    refusal: None


class ChatChoice(Strict):
    """An answer."""

    index: int
    message: Said
    logprobs: ChatLogProbs | None
    finish_reason: Finish
    inspect: Inspected | None = None


class ChatCompletion(Strict):
    """POST /v1/chat/completions."""

    id: str
    object: Literal["chat.completion"]
    created: int
    model: str
    choices: list[ChatChoice]
    usage: Usage


class Embedding(Strict):
    """The vector of an input: numbers, or float32 in base64, the lowest byte first."""

    object: Literal["embedding"]
    index: int
    embedding: list[float] | str


class Embeddings(Strict):
    """POST /v1/embeddings."""

    object: Literal["list"]
    data: list[Embedding]
    model: str
    usage: InputUsage


class Prediction(Open):
    """What a task says of an input: `output` of its model in /v1/models has the fields."""

    index: int


class Predictions(Strict):
    """POST /v1/translate, /v1/tag, /v1/classify, /v1/generate."""

    object: Literal["list"]
    data: list[Prediction]
    model: str


class Tokens(Strict):
    """POST /tokenize."""

    tokens: list[int]
    pieces: list[str]
    count: int
    max_model_len: int


class Text(Strict):
    """POST /detokenize."""

    text: str


class Status(Strict):
    """GET /livez, /readyz, /health."""

    status: str


class Problem(Strict):
    """What went wrong."""

    message: str
    type: str
    param: str | None
    code: str | None


class Failure(Strict):
    """Every error."""

    error: Problem
