"""Requests that are refused: before anything is computed, in one shape, with the field's name."""

import asyncio
import json
from dataclasses import replace

import pytest
from pydantic import ValidationError

from glassformer.serve.api.admission import Limits
from glassformer.serve.api.replies import Failure
from glassformer.serve.api.requests import ChatRequest

LM = {"model": "lm", "prompt": "the cat"}
CHAT = {"model": "chat", "messages": [{"role": "user", "content": "hot day"}]}
JSON = {"content-type": "application/json"}
COMPLETIONS, MESSAGES = "/v1/completions", "/v1/chat/completions"
NUMBERS = (-1, 2**63, 2**200, True, "1", [1], {}, 1e300)
BAD = [
    *((COMPLETIONS, LM | {"max_tokens": value}, "max_tokens") for value in (*NUMBERS, 1.5)),
    *((COMPLETIONS, LM | {"temperature": value}, "temperature") for value in NUMBERS),
    *((COMPLETIONS, LM | {"top_p": value}, "top_p") for value in (0, 1.1, -1, "1", True)),
    *((COMPLETIONS, LM | {"n": value}, "n") for value in (0, 9, -1, 2**63, True)),
    *((COMPLETIONS, LM | {"logprobs": value}, "logprobs") for value in (-1, 21, True)),
    *((COMPLETIONS, LM | {"seed": value}, "seed") for value in (2**63, 1.5, "1")),
    *((COMPLETIONS, LM | {"stop": value}, "stop") for value in ("", ["a"] * 17, "a" * 257, [1])),
    *(
        (COMPLETIONS, LM | {"prompt": value}, "prompt")
        for value in ([], [[]], [-1], [1, "a"], [[1], "a"], 1, None, {}, [99], ["a", [1]], [2**31])
    ),
    *(
        (COMPLETIONS, LM | {"logit_bias": value}, None)
        for value in ({"1": 5}, {"-1": -100}, {"a": -100}, {"٣": -100})
    ),
    (COMPLETIONS, LM | {"logit_bias": {"99": -100}}, "logit_bias"),
    (COMPLETIONS, LM | {"presence_penalty": 0.5}, "presence_penalty"),
    *((COMPLETIONS, LM | {"best_of": value}, "best_of") for value in (2, True)),
    (COMPLETIONS, LM | {"suffix": "a"}, "suffix"),
    (COMPLETIONS, LM | {"stream_options": {"include_usage": True}}, None),
    (COMPLETIONS, LM | {"max_tokens": 11}, "max_tokens"),
    (COMPLETIONS, LM | {"prompt": "the cat " * 3}, None),
    (COMPLETIONS, LM | {"prompt": ["a"] * 300}, None),
    (COMPLETIONS, LM | {"prompt": "\ud800"}, None),
    (COMPLETIONS, {"model": "lm"}, "prompt"),
    (COMPLETIONS, {"prompt": "a"}, "model"),
    (COMPLETIONS, [], None),
    (COMPLETIONS, None, None),
    (MESSAGES, CHAT | {"messages": []}, "messages"),
    (MESSAGES, CHAT | {"messages": [{"role": "owl", "content": "a"}]}, "messages"),
    (MESSAGES, CHAT | {"messages": [{"role": "user"}]}, "messages"),
    (MESSAGES, CHAT | {"messages": [{"role": "assistant", "content": "a"}]}, "messages"),
    (MESSAGES, CHAT | {"messages": [{"role": "user", "content": "a"}] * 1025}, "messages"),
    (MESSAGES, CHAT | {"tools": [{"type": "function"}]}, "tools"),
    (MESSAGES, CHAT | {"response_format": {"type": "json_object"}}, "response_format"),
    (MESSAGES, CHAT | {"top_logprobs": 3}, None),
    (MESSAGES, CHAT | {"max_completion_tokens": 0}, "max_completion_tokens"),
    ("/v1/embeddings", {"model": "lm", "input": "a", "dimensions": 3}, "dimensions"),
    ("/v1/embeddings", {"model": "lm", "input": ""}, "input"),
    ("/v1/embeddings", {"model": "lm", "input": [99]}, "input"),
    ("/v1/embeddings", {"model": "lm", "input": "a" * (1 << 18) + "a"}, None),
    ("/v1/translate", {"model": "pairs", "input": "a", "beams": 17}, "beams"),
    ("/v1/translate", {"model": "pairs", "input": "a", "beams": 1, "n_best": 2}, None),
    ("/v1/tag", {"model": "tags", "input": [{"image": "a", "text": "b"}]}, "input"),
    ("/v1/tag", {"model": "tags", "input": [{"image": "data:a;base64,"}]}, "input"),
    ("/tokenize", {"model": "pictures", "text": "a"}, None),
    ("/detokenize", {"model": "lm", "tokens": [99]}, None),
]


def refused(reply, status):
    """The error of a reply, in OpenAI's shape."""
    assert reply.status_code == status, reply.text
    assert reply.headers["x-request-id"]
    return Failure.model_validate(reply.json()).error


@pytest.mark.parametrize("place", range(len(BAD)))
def test_a_bad_request_names_its_field(api, place):
    path, fields, param = BAD[place]
    error = refused(api.ask("POST", path, content=json.dumps(fields), headers=JSON), 400)
    assert (error.param, error.type) == (param, "invalid_request_error")
    assert error.message
    assert api.service.calls.weight == 0


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"prompt": []}, "prompt: list should have at least 1 item"),
        ({"prompt": ["a", 1]}, "prompt.1: input should be a valid string"),
        ({"prompt": ["a"] * 3000}, "prompt: list should have at most 2048 items"),
        ({"stop": ["a"] * 17}, "stop: list should have at most 16 items"),
        ({"inspect": {"attention": {"layers": []}}}, "inspect.attention.layers: list should have"),
    ],
)
def test_what_is_wrong_is_told_of_the_form_that_was_meant(api, fields, said):
    error = refused(api.ask("POST", COMPLETIONS, json=LM | fields), 400)
    assert error.message.startswith(said)


def test_other_statuses(api, api_of):
    one = LM | {"max_tokens": 1}
    error = refused(api.ask("POST", COMPLETIONS, json=one | {"model": "../lm"}), 404)
    assert (error.code, error.param) == ("model_not_found", "model")
    assert refused(api.ask("GET", "/v1/models/%2e%2e"), 404)
    refused(api.ask("GET", COMPLETIONS), 405)
    refused(api.ask("POST", "/v1/nothing", json=one), 404)
    refused(api.ask("POST", COMPLETIONS, content=json.dumps(one)), 400)  # it is not said to be JSON
    small = api_of("lm", limits=Limits(body=100))
    refused(small.ask("POST", COMPLETIONS, json=one | {"prompt": "a" * 100}), 413)

    async def chunks():
        for _ in range(20):
            yield b" " * 10

    refused(small.ask("POST", COMPLETIONS, content=chunks(), headers=JSON), 413)


@pytest.mark.parametrize(
    "body",
    [
        b'{"model": NaN, "prompt": "a"}',
        b'{"model": "lm", "prompt": "a", "temperature": Infinity}',
        b'{"model": "lm", "prompt": "a", "temperature": 1e999}',
        b"[" * 100_000,
        b'{"a":' * 100_000,
        b"\xff\xfe",
        b"",
        b"1" * 5000,
        b'{"model": "a"} x',
    ],
)
def test_what_is_no_json_is_refused(api, body):
    error = refused(api.ask("POST", COMPLETIONS, content=body, headers=JSON), 400)
    assert error.message.startswith(("The request is no JSON", "temperature: ", "model: "))


def test_of_many_wrong_names_or_elements_one_is_told(api):
    many = {f"x{i}": 1 for i in range(5000)}
    error = refused(api.ask("POST", COMPLETIONS, json=many), 400)
    assert error.message == "The request: an object has 5000 names, more than 4096."
    several = CHAT | {"messages": [{"role": "user", "content": [{}] * 9}] * 9}
    with pytest.raises(ValidationError) as told:
        ChatRequest.model_validate(several)
    assert len(told.value.errors()) == 3  # as a text; as a part, without type and without text


def test_ignored_fields_change_nothing(api):
    plain = LM | {"max_tokens": 3, "seed": 1}
    more = {"user": "a", "metadata": {"a": "b"}, "store": True, "service_tier": "auto"}
    more |= {"safety_identifier": "a", "prompt_cache_key": "a", "presence_penalty": 0, "top_k": -1}
    texts = [api.post(COMPLETIONS, **own)["choices"] for own in (plain, plain | more)]
    assert texts[0] == texts[1]
    nothing = dict.fromkeys(("temperature", "stop", "n", "stream", "logprobs", "logit_bias"))
    assert api.post(COMPLETIONS, **plain, **nothing)["choices"] == texts[0]


def test_a_prompt_that_is_too_long_is_told_without_new_tokens(api):
    long = api.ask("POST", COMPLETIONS, json=LM | {"prompt": "the cat " * 9, "max_tokens": 0})
    said = refused(long, 400).message
    assert "tokens, and the model's context is" in said
    assert said.endswith("; shorten the prompt.")


def test_a_full_queue_refuses_at_once(api_of):
    api = api_of("lm", limits=replace(Limits(), queue=2))
    calls = api.service.calls

    async def filled():
        return calls.admit(2)

    call = asyncio.run(filled())
    reply = api.ask("POST", COMPLETIONS, json=LM | {"max_tokens": 1})
    error = refused(reply, 429)
    assert (error.type, error.code) == ("rate_limit_error", "queue_full")
    assert reply.headers["retry-after"] == "1"
    refused(api.ask("POST", COMPLETIONS, content=b"{", headers=JSON), 429)  # it is not read
    assert api.ask("POST", "/tokenize", json={"model": "lm", "text": "a"}).status_code == 200
    counted = f'glassformer_requests_total{{code="429",route="{COMPLETIONS}"}} 2.0'
    assert counted in api.ask("GET", "/metrics").text
    call.close()
    refused(api.ask("POST", COMPLETIONS, content=b"{", headers=JSON), 400)
    assert api.post(COMPLETIONS, **LM, max_tokens=1)
