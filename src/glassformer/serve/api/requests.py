"""Schemas of requests: fields with their types and ranges; others are refused by name.

A field that is left out has the value of the run's own `generate` section, but for `max_tokens` of
/v1/completions (16) and `seed` (drawn again).
"""

import json
from functools import cache
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import Field, ValidationError, model_validator

from glassformer.runtime.config import GenerateConfig
from glassformer.serve.api.replies import Strict

LARGEST = (1 << 63) - 1
MOST_TEXTS, MOST_STOPS, LONGEST_STOP = 2048, 16, 256
MOST_NAMES = 4096
"""Names of an object, each of which may be an error."""
TokenId = Annotated[int, Field(ge=0, le=(1 << 31) - 1)]
# of a hundred thousand wrong elements, one is reported: a sentence for each takes a second
Ids = Annotated[list[TokenId], Field(fail_fast=True, min_length=1)]
Texts = Annotated[list[str], Field(fail_fast=True, min_length=1, max_length=MOST_TEXTS)]
IdLists = Annotated[list[Ids], Field(fail_fast=True, min_length=1, max_length=MOST_TEXTS)]
Prompt = str | Texts | Ids | IdLists
StopString = Annotated[str, Field(min_length=1, max_length=LONGEST_STOP)]
Stops = StopString | Annotated[list[StopString], Field(fail_fast=True, max_length=MOST_STOPS)]
Number = Annotated[int, Field(ge=0)]
Numbers = Annotated[list[Number], Field(fail_fast=True, min_length=1, max_length=1024)]
MOST_CHOICES, MOST_TOP, MOST_MESSAGES = 8, 20, 1024
NO_LIMIT = {"top_p": (1,), "top_k": (-1, 0), "min_p": (0,)}
"""Values of fields that limit nothing."""
BANNED = -100
"""The only logit bias that is known: a token that is never chosen."""

NEUTRAL = json.loads(Path(__file__).with_name("neutral_fields.json").read_text("utf-8"))
"""Fields of OpenAI's API that request nothing, of each kind of object: what to do instead of
another value, and the known values beside null; null: no value is refused."""


@cache
def neutral_of(kind: type) -> dict[str, Any]:
    """The fields of an object that request nothing; see `NEUTRAL`."""
    bases = [NEUTRAL.get(base.__name__, {}) for base in kind.__mro__]
    return {name: own for base in bases for name, own in base.items()}


class Base(Strict):
    """Strict about types and names; `null` is a field that is left out."""

    @model_validator(mode="before")
    @classmethod
    def _read(cls, value: Any) -> Any:
        if not isinstance(value, dict):
            return value
        for n in (len(one) for one in (value, *value.values()) if isinstance(one, dict)):
            if n > MOST_NAMES:
                raise ValueError(f"an object has {n} names, more than {MOST_NAMES}")
        neutral = neutral_of(cls)
        for name, (remedy, *known) in ((name, own) for name, own in neutral.items() if own):
            given, *texts = (json.dumps(one)[:40] for one in (value.get(name), *known, None))
            if given not in texts:
                said = f"{given} is refused, only {' or '.join(texts)} is known; {remedy}"
                raise ValidationError.from_exception_data(
                    name,
                    [
                        {
                            "type": "value_error",
                            "loc": (name,),
                            "input": given,
                            "ctx": {"error": ValueError(said)},
                        }
                    ],
                )
        return {name: one for name, one in value.items() if name not in neutral}


class ModelRequest(Base):
    """A request that names a model."""

    model: str = Field(max_length=256, description="A name of /v1/models.")

    @property
    def is_light(self) -> bool:
        """Whether it is read in a few milliseconds if it is short."""
        return False


def several(given: Prompt) -> list[Any]:
    """A list of the texts or lists of ids of a prompt."""
    return given if isinstance(given, list) and not isinstance(given[0], int) else [given]


class StreamOptions(Base):
    """How a reply is streamed."""

    include_usage: bool | None = Field(None, description="One more event, with `usage`.")


class Attention(Base):
    """Attention patterns."""

    layers: Numbers | None = Field(None, description="From 0; all if it is left out.")
    heads: Numbers | None = Field(None, description="From 0; all if it is left out.")


class Hidden(Base):
    """The stream of the model."""

    layers: Numbers | None = Field(None, description="0: the embedding; all if it is left out.")


class LogitLens(Hidden):
    """The answer of the model if it stopped after a layer."""

    top: int = Field(5, ge=1, le=MOST_TOP, description="Likeliest tokens to show.")


class Inspect(Base):
    """What is wanted of the model's inside, computed when the text is complete."""

    attention: Attention | None = None
    hidden: Hidden | None = None
    logit_lens: LogitLens | None = None
    format: Literal["json", "safetensors"] = Field(
        "json", description="Numbers as lists, or in one file in base64, which may be larger."
    )

    @model_validator(mode="after")
    def _something(self) -> "Inspect":
        if self.attention is self.hidden is self.logit_lens is None:
            raise ValueError("name attention, hidden or logit_lens")
        return self


class TextFormat(Base):
    """Any text."""

    type: Literal["text"]


class JsonObject(Base):
    """An object of JSON."""

    type: Literal["json_object"]


class NamedSchema(Base):
    """A JSON schema; what the library does not know is refused."""

    schema_: dict[str, Any] = Field(alias="schema")


class JsonSchema(Base):
    """JSON that fits a schema."""

    type: Literal["json_schema"]
    json_schema: NamedSchema


class Sampling(ModelRequest):
    """How text is generated."""

    temperature: float | None = Field(None, ge=0, le=10, description="0: the likeliest token.")
    top_p: float | None = Field(None, gt=0, le=1)
    top_k: int | None = Field(None, ge=-1, le=LARGEST, description="0 and -1: no limit.")
    min_p: float | None = Field(None, ge=0, le=1)
    repetition_penalty: float | None = Field(None, gt=0, le=100)
    seed: int | None = Field(None, ge=-LARGEST, le=LARGEST)
    stop: Stops | None = Field(None, description="At most 16 strings that end the text.")
    n: int | None = Field(None, ge=1, le=MOST_CHOICES, description="Texts for each prompt.")
    stream: bool | None = None
    stream_options: StreamOptions | None = None
    logit_bias: dict[str, float] | None = Field(
        None, description="Token ids with -100: they are never chosen. No other bias is known."
    )
    inspect: Inspect | None = Field(None, description="What the model looked at.")
    response_format: TextFormat | JsonObject | JsonSchema | None = Field(
        None, description="The form of the text.", discriminator="type"
    )
    grammar: str | None = Field(
        None, min_length=1, max_length=1 << 16, description="A grammar of the text, as of Lark."
    )

    @model_validator(mode="after")
    def _known_bias(self) -> "Sampling":
        for token, bias in (self.logit_bias or {}).items():
            if not (token.isascii() and token.isdecimal() and len(token) < 10):
                raise ValueError(f"logit_bias has {token[:20]!r} in place of a token id")
            if bias not in (BANNED, 0):
                raise ValueError(
                    f"logit_bias has {bias} for token {token}; only -100 (never chosen) is known"
                )
        if self.usage_streamed and not self.stream:
            raise ValueError("stream_options is for stream=true; leave it out")
        if self.inspect is not None and self.stream:
            raise ValueError("inspect is of a whole text; leave out stream")
        if self.grammar is not None and self.response_format is not None:
            raise ValueError("response_format and grammar were given; leave out one of them")
        return self

    def changes(self) -> dict[str, Any]:
        """The fields of the run's `generate` section that this request sets."""
        found = self.model_dump(include={*GenerateConfig.model_fields}, exclude_none=True)
        for name, values in NO_LIMIT.items():
            if found.get(name) in values:
                found[name] = None
        if isinstance(self.stop, str):
            found["stop"] = [self.stop]
        banned = [int(token) for token, bias in (self.logit_bias or {}).items() if bias]
        return found | ({"suppress_tokens": banned} if banned else {})

    @property
    def usage_streamed(self) -> bool:
        """Whether a stream ends with its usage."""
        return bool(self.stream_options and self.stream_options.include_usage)


class CompletionRequest(Sampling):
    """POST /v1/completions."""

    prompt: Prompt = Field(description="A text, texts, token ids, or lists of token ids.")
    max_tokens: int | None = Field(None, ge=0, le=LARGEST, description="16 if it is left out.")
    logprobs: int | None = Field(None, ge=0, le=MOST_TOP, description="Likeliest tokens to show.")
    echo: bool | None = Field(None, description="The prompt before the text.")

    @property
    def is_light(self) -> bool:
        """Whether it has no format, which takes longer than tokenizing."""
        return self.response_format is None and self.grammar is None


class Part(Base):
    """A part of a message; only text is read."""

    type: Literal["text"]
    text: str


PartsOfText = Annotated[list[Part], Field(fail_fast=True, min_length=1, max_length=MOST_MESSAGES)]


class Message(Base):
    """A message of a conversation."""

    role: Literal["system", "developer", "user", "assistant"]
    content: str | PartsOfText

    def plain(self) -> dict[str, str]:
        """The message as the run reads it."""
        parts = self.content if isinstance(self.content, list) else []
        content = self.content if isinstance(self.content, str) else "".join(p.text for p in parts)
        role = "system" if self.role == "developer" else self.role
        return {"role": role, "content": content}


Messages = Annotated[list[Message], Field(fail_fast=True, min_length=1, max_length=MOST_MESSAGES)]


class ChatRequest(Sampling):
    """POST /v1/chat/completions."""

    messages: Messages
    max_tokens: int | None = Field(None, ge=1, le=LARGEST)
    max_completion_tokens: int | None = Field(None, ge=1, le=LARGEST)
    logprobs: bool | None = None
    top_logprobs: int | None = Field(None, ge=0, le=MOST_TOP)

    @model_validator(mode="after")
    def _fits_together(self) -> "ChatRequest":
        if self.top_logprobs and not self.logprobs:
            raise ValueError("top_logprobs needs logprobs=true")
        return self


class EmbeddingRequest(ModelRequest):
    """POST /v1/embeddings."""

    input: Prompt = Field(description="A text, texts, token ids, or lists of token ids.")
    encoding_format: Literal["float", "base64"] | None = None
    dimensions: int | None = Field(None, ge=1, le=LARGEST, description="Only the model's own.")


class TokenizeRequest(ModelRequest):
    """POST /tokenize."""

    text: str


class DetokenizeRequest(ModelRequest):
    """POST /detokenize."""

    tokens: Annotated[list[TokenId], Field(fail_fast=True)]
