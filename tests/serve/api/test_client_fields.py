"""Every field of the requests of OpenAI's client is used, accepted where it requests nothing, or
refused by name with what to do."""

import typing
from types import UnionType

import pytest
from fastapi.exceptions import RequestValidationError
from pydantic import ValidationError

from glassformer.serve.api.problems import ApiError, problem
from glassformer.serve.api.requests import (
    ChatRequest,
    CompletionRequest,
    EmbeddingRequest,
    neutral_of,
)

pytest.importorskip("openai")

from openai.types import (
    EmbeddingCreateParams,
    chat,
    completion_create_params,
)
from openai.types.chat import completion_create_params as chat_params

USER = {"role": "user", "content": "hot"}
ANSWER = {"role": "assistant", "content": "cold"}
TYPES = {
    "chat": (ChatRequest, chat_params.CompletionCreateParamsStreaming, {"messages": [USER]}),
    "completions": (
        CompletionRequest,
        completion_create_params.CompletionCreateParamsStreaming,
        {"prompt": "a"},
    ),
    "embeddings": (EmbeddingRequest, EmbeddingCreateParams, {"input": "a"}),
}
FIELDS = [
    (name, field) for name, (_, kind, _) in TYPES.items() for field in typing.get_type_hints(kind)
]
USED = {
    "model": "m",
    "messages": [USER, ANSWER, USER],
    "prompt": ["a"],
    "input": ["a"],
    "frequency_penalty": 0,
    "presence_penalty": 0.0,
    "logit_bias": {"3": -100},
    "max_tokens": 3,
    "max_completion_tokens": 3,
    "n": 2,
    "response_format": {"type": "text"},
    "seed": 1,
    "stop": ["a"],
    "stream": True,
    "temperature": 1,
    "top_p": 1,
    "echo": True,
    "best_of": 1,
    "dimensions": 8,
    "encoding_format": "base64",
}
"""Values of what is used."""
IGNORED = {
    "metadata": {"a": "b"},
    "parallel_tool_calls": False,
    "prompt_cache_key": "a",
    "prompt_cache_options": {"mode": "implicit"},
    "prompt_cache_retention": "24h",
    "safety_identifier": "a",
    "service_tier": "auto",
    "store": True,
    "user": "a",
}
NEUTRAL = {
    "audio": [],
    "function_call": ["none", "auto"],
    "functions": [[]],
    "modalities": [["text"]],
    "moderation": [],
    "prediction": [],
    "reasoning_effort": ["none"],
    "stream_options": [{}, {"include_usage": False}],
    "suffix": [""],
    "tool_choice": ["none", "auto"],
    "tools": [[]],
    "top_logprobs": [0],
    "verbosity": ["medium"],
    "web_search_options": [],
    "frequency_penalty": [0, 0.0],
    "presence_penalty": [0],
    "logit_bias": [{}, {"3": 0}],
    "stop": [[]],
}
REFUSED = {
    "audio": {"format": "wav", "voice": "ash"},
    "function_call": {"name": "f"},
    "functions": [{"name": "f"}],
    "modalities": ["text", "audio"],
    "moderation": {"model": "m"},
    "prediction": {"type": "content", "content": "a"},
    "reasoning_effort": "high",
    "suffix": "b",
    "tool_choice": "required",
    "tools": [{"type": "function", "function": {"name": "f"}}],
    "verbosity": "low",
    "web_search_options": {},
    "frequency_penalty": 0.5,
    "presence_penalty": -2,
    "best_of": 2,
}
LOG_PROBS = {"chat": True, "completions": 2}


def read(name, **fields):
    """A request with these fields, as the route reads it."""
    kind, _, base = TYPES[name]
    try:
        return kind.model_validate({"model": "m", **base, **fields})
    except ValidationError as error:
        errors = [one | {"loc": ("body", *one["loc"])} for one in error.errors()]
        raise problem(RequestValidationError(errors)) from None


@pytest.mark.parametrize(("name", "field"), FIELDS)
def test_every_field_of_the_client_is_known(name, field):
    kind = TYPES[name][0]
    neutral = neutral_of(kind)
    assert field in kind.model_fields or field in neutral, "a client sends it"
    values = [*NEUTRAL.get(field, [])]
    values += [one[field] for one in (USED, IGNORED) if field in one]
    values += [None] * (field not in ("model", "messages", "prompt", "input"))
    values += [LOG_PROBS[name]] if field == "logprobs" else []
    for value in values:
        made = read(name, **{field: value})
        assert field in neutral or getattr(made, field) is not None or value is None
    if field in REFUSED:
        with pytest.raises(ApiError) as found:
            read(name, **{field: REFUSED[field]})
        assert (found.value.status, found.value.param) == (400, field)
        assert " is refused, only " in str(found.value)
        assert "; " in str(found.value)
    else:
        assert any(field in one for one in (USED, IGNORED, NEUTRAL)) or field == "logprobs"


def kinds_of(hint):
    """The types of messages in a hint."""
    if typing.get_origin(hint) in (typing.Union, UnionType):
        return [one for part in typing.get_args(hint) for one in kinds_of(part)]
    return [hint]


def test_every_field_of_a_message_of_the_client_is_known():
    nothing = {"refusal", "audio", "function_call", "tool_calls", "name"}
    for kind in kinds_of(chat.ChatCompletionMessageParam):
        hints = typing.get_type_hints(kind)
        (role,) = typing.get_args(typing.get_args(hints["role"])[0]) or typing.get_args(
            hints["role"]
        )
        message = {"role": role, "content": "a"} | dict.fromkeys(hints.keys() & nothing)
        if role in ("tool", "function"):
            with pytest.raises(ApiError, match=r"messages\.0\.role: input should be 'system'"):
                read("chat", messages=[message, USER])
            continue
        assert hints.keys() <= message.keys()
        assert read("chat", messages=[message, USER]).messages[0].plain() == {
            "role": "system" if role == "developer" else role,
            "content": "a",
        }


def test_a_message_of_the_server_comes_back_in_every_form_of_the_client():
    made = chat.ChatCompletionMessage.model_validate(ANSWER | {"refusal": None})
    for own in (made.to_dict(), made.model_dump(), ANSWER | {"annotations": [], "tool_calls": []}):
        assert read("chat", messages=[USER, own, USER]).messages[1].plain() == ANSWER
    for more in ({"refusal": "no"}, {"tool_calls": [{"id": "a"}]}, {"audio": {"id": "a"}}):
        (name,) = more
        with pytest.raises(ApiError, match=rf"messages\.0\.{name}: .* is refused, only "):
            read("chat", messages=[ANSWER | more, USER])


def test_a_true_is_no_1():
    with pytest.raises(ApiError, match="best_of: true is refused, only 1 or null is known; set n"):
        read("completions", best_of=True)
