"""What requests hold: fields with their types and ranges; others are refused by name.

A field that is left out has the value of the run's own `generate` section, but for `max_tokens` of
/v1/completions (16) and `seed` (drawn anew).
"""

import json
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, PlainValidator, WithJsonSchema, model_validator

from glassformer.runtime.config import GenerateConfig

LARGEST = (1 << 63) - 1
MOST_TEXTS, MOST_CHOICES, MOST_STOPS, LONGEST_STOP, MOST_TOP = 2048, 8, 16, 256, 20
MOST_MESSAGES = 1024
MOST_NAMES = 4096
"""Names of an object, each of which may be an error."""
NO_LIMIT = {"top_p": (1,), "top_k": (-1, 0), "min_p": (0,)}
"""Values of fields that limit nothing."""
BANNED = -100
"""The only logit bias that is known: a token that is never chosen."""

TokenId = Annotated[int, Field(ge=0, le=(1 << 31) - 1)]
# of a hundred thousand wrong elements, one is told: a sentence for each takes a second
Ids = Annotated[list[TokenId], Field(fail_fast=True, min_length=1)]
Texts = Annotated[list[str], Field(fail_fast=True, min_length=1, max_length=MOST_TEXTS)]
IdLists = Annotated[list[Ids], Field(fail_fast=True, min_length=1, max_length=MOST_TEXTS)]
Prompt = str | Texts | Ids | IdLists


def several(given: Prompt) -> list[Any]:
    """A list of the texts or lists of ids of a prompt."""
    return given if isinstance(given, list) and not isinstance(given[0], int) else [given]


StopString = Annotated[str, Field(min_length=1, max_length=LONGEST_STOP)]
Stops = StopString | Annotated[list[StopString], Field(fail_fast=True, max_length=MOST_STOPS)]


class Only:
    """The type of a field that is null or one of `neutral`, which request nothing."""

    def __init__(self, remedy: str, *neutral: Any):
        self.remedy, self.values = remedy, (*neutral, None)

    def __get_pydantic_core_schema__(self, source: Any, handler: Any) -> Any:
        """The validator and the JSON schema for pydantic."""
        schema = WithJsonSchema({"enum": [*self.values]})
        return handler.generate_schema(Annotated[Any, PlainValidator(self.check), schema])

    def check(self, value: Any) -> Any:
        """The value; ValueError: it requests something."""
        if any(one == value and type(value) is not bool for one in self.values):  # true is no 1
            return value
        given, *known = (json.dumps(one)[:40] for one in (value, *self.values))
        raise ValueError(f"{given} is refused, only {' or '.join(known)} is known; {self.remedy}")


Zero = Annotated[Any, Only("leave it out, or set repetition_penalty", 0)]
_TOOLS = "no tools are called; leave it out and describe in a message what the answer is to hold"
_TEXT = "only text is read and written; leave it out"
NoTools = Annotated[Any, Only(_TOOLS, [])]
NoText = Annotated[Any, Only(_TEXT)]
ToolChoice = Annotated[Any, Only(_TOOLS, "none", "auto")]


class Base(BaseModel):
    """Strict about types and names; `null` is a field that is left out."""

    model_config = ConfigDict(extra="forbid", strict=True, allow_inf_nan=False)

    @model_validator(mode="before")
    @classmethod
    def _check_names(cls, value: Any) -> Any:
        values = (value, *value.values()) if isinstance(value, dict) else ()
        for n in (len(one) for one in values if isinstance(one, dict)):
            if n > MOST_NAMES:
                raise ValueError(f"an object has {n} names, more than {MOST_NAMES}")
        return value


class Ignored(Base):
    """Fields of OpenAI's API that are read and change nothing."""

    user: str | None = None
    metadata: dict[str, str] | None = None
    store: bool | None = None
    service_tier: str | None = None
    safety_identifier: str | None = None
    prompt_cache_key: str | None = None
    prompt_cache_options: dict[str, Any] | None = None
    prompt_cache_retention: str | None = None


class ModelRequest(Ignored):
    """A request that names a model."""

    model: str = Field(max_length=256, description="A name of /v1/models.")

    @property
    def is_light(self) -> bool:
        """Whether it is read in a few milliseconds if it is short."""
        return False


class StreamOptions(Base):
    """How a reply is streamed."""

    include_usage: bool | None = Field(None, description="One more event, with `usage`.")
    include_obfuscation: bool | None = Field(None, description="Without effect.")


Number = Annotated[int, Field(ge=0)]
Numbers = Annotated[list[Number], Field(fail_fast=True, min_length=1, max_length=1024)]


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

    name: str | None = Field(None, description="Without effect.")
    description: str | None = Field(None, description="Without effect.")
    strict: bool | None = Field(None, description="Without effect: it always fits.")
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
    presence_penalty: Zero = Field(None, description="Only 0.")
    frequency_penalty: Zero = Field(None, description="Only 0.")
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
    best_of: Annotated[Any, Only("set n for several texts", 1)] = None
    suffix: Annotated[Any, Only("text is only continued; put all of it into prompt", "")] = None

    @property
    def is_light(self) -> bool:
        """Whether it has no format, which takes longer than tokenizing."""
        return self.response_format is None and self.grammar is None


class Part(Base):
    """A part of a message; only text is read."""

    type: Literal["text"]
    text: str
    prompt_cache_breakpoint: dict[str, Any] | None = Field(None, description="Without effect.")


PartsOfText = Annotated[list[Part], Field(fail_fast=True, min_length=1, max_length=MOST_MESSAGES)]


class Message(Base):
    """A message of a conversation."""

    role: Literal["system", "developer", "user", "assistant"]
    content: str | PartsOfText
    name: str | None = Field(None, description="Without effect.")
    refusal: Annotated[Any, Only("put it into content", "")] = None
    annotations: NoTools = None
    audio: NoText = None
    function_call: NoTools = None
    tool_calls: NoTools = None

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
    tools: NoTools = None
    tool_choice: ToolChoice = None
    parallel_tool_calls: bool | None = Field(None, description="Without effect.")
    functions: NoTools = None
    function_call: ToolChoice = None
    audio: NoText = None
    modalities: Annotated[Any, Only(_TEXT, ["text"], [])] = None
    moderation: Annotated[Any, Only("nothing is moderated; leave it out")] = None
    prediction: Annotated[Any, Only("start the server with --draft, and leave it out")] = None
    reasoning_effort: Annotated[Any, Only("no model here reasons; leave it out", "none")] = None
    verbosity: Annotated[Any, Only("set max_tokens instead", "medium")] = None
    web_search_options: Annotated[Any, Only("nothing is searched; leave it out")] = None

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


class File(Base):
    """A file by its content."""

    image: str | None = Field(None, description="data:image/png;base64,...")
    audio: str | None = Field(None, description="data:audio/wav;base64,...")
    text: str | None = None

    @model_validator(mode="after")
    def _one(self) -> "File":
        if sum(one is not None for one in (self.image, self.audio, self.text)) != 1:
            raise ValueError("a part has one of text, image, audio")
        return self


Parts = Annotated[list[str | File], Field(fail_fast=True, min_length=1, max_length=64)]
Input = str | File | Parts
Inputs = Annotated[list[Input], Field(fail_fast=True, min_length=1, max_length=MOST_TEXTS)]


class TokenizeRequest(ModelRequest):
    """POST /tokenize."""

    text: str


class DetokenizeRequest(ModelRequest):
    """POST /detokenize."""

    tokens: Annotated[list[TokenId], Field(fail_fast=True)]
