"""Structured output: whatever the weights are, a text that ends is JSON that fits its schema."""

import asyncio
import json
import random

import pytest

import tiny
from bare_runs import write_config
from glassformer.models import ModelConfig, Transformer
from glassformer.models.weights import save_weights
from glassformer.tokenizers.definition import byte_definition
from glassformer.tokenizers.text import Tokenizer
from glassformer.training.folder.model_files import accept_changed

from .conftest import Api, Connection

COMPLETIONS = "/v1/completions"
pytest.importorskip("llguidance")


@pytest.fixture(scope="module")
def wild(tmp_path_factory):
    """A server of random weights over bytes."""
    folder, tokenizer = tmp_path_factory.mktemp("wild"), Tokenizer(byte_definition())
    sizes = {"d_model": 8, "n_layers": 1, "n_heads": 1, "max_length": 512, "position": "rotary"}
    config = ModelConfig(vocab_size=tokenizer.vocab_size + 3, **sizes)
    write_config(folder, config)
    save_weights(tiny.stir(Transformer(config, seed=1), std=0.3), folder / "model.safetensors")
    tokenizer.save(folder / "tokenizer.json")
    accept_changed(folder)
    api = Api({"lm": folder})
    yield api
    api.service.engine.close()


def schema(draw, depth=2):
    """A schema whose texts are short, and a test of their values."""
    kind = draw.choice(["integer", "enum", "boolean", "string", "array", "object"][: 4 + depth])
    if kind == "integer":
        low = draw.randrange(-50, 50)
        high = low + draw.randrange(200)
        return {
            "type": kind,
            "minimum": low,
            "maximum": high,
        }, lambda x: type(x) is int and low <= x <= high
    if kind == "enum":
        values = draw.sample(["a", 'ä"\n', 1, 2.5, None, True], 2)
        return {"enum": values}, lambda x: x in values
    if kind == "boolean":
        return {"type": kind}, lambda x: type(x) is bool
    if kind == "string":
        n = draw.randrange(1, 6)
        return {"type": kind, "maxLength": n}, lambda x: isinstance(x, str) and len(x) <= n
    inner, fits = schema(draw, depth - 1)
    if kind == "array":
        return {
            "type": kind,
            "items": inner,
            "minItems": 1,
            "maxItems": 2,
        }, lambda x: isinstance(x, list) and 1 <= len(x) <= 2 and all(map(fits, x))
    names = draw.sample(["x", "name", "ß"], 2)
    made = {"type": kind, "properties": dict.fromkeys(names, inner), "required": names[:1]}
    made["additionalProperties"] = False
    return (
        made,
        lambda x: (
            isinstance(x, dict)
            and names[0] in x
            and {*x} <= {*names}
            and all(map(fits, x.values()))
        ),
    )


def test_a_hundred_random_schemas_on_random_weights(wild):
    cases = [schema(random.Random(seed)) for seed in range(100)]

    async def asked():
        connections = []
        for seed, (own, _) in enumerate(cases):
            form = {"type": "json_schema", "json_schema": {"schema": own}}
            fields = {"model": "lm", "prompt": "a", "max_tokens": 400, "seed": seed}
            one = Connection(wild, COMPLETIONS, fields | {"response_format": form})
            connections.append(one)
        await asyncio.gather(*(one.task for one in connections))
        return [json.loads(one.text) for one in connections]

    for (own, fits), reply in zip(cases, asyncio.run(asked()), strict=True):
        (choice,) = reply["choices"]
        assert choice["finish_reason"] == "stop", (own, choice["text"])
        assert fits(json.loads(choice["text"])), (own, choice["text"])


def test_an_object_and_a_grammar(wild):
    fields = {"model": "lm", "prompt": "a", "max_tokens": 300, "n": 8}
    lark = 'start: "yes" | "no" | "per" ("haps")+ "!"'
    for choice in wild.post(COMPLETIONS, **fields, grammar=lark, seed=1)["choices"]:
        text = choice["text"]
        assert text in ("yes", "no") or text.replace("haps", "") == "per!"
    found = 0
    form = {"type": "json_object"}
    for choice in wild.post(COMPLETIONS, **fields, response_format=form, seed=2)["choices"]:
        if choice["finish_reason"] == "stop":
            assert isinstance(json.loads(choice["text"]), dict)
            found += 1
        assert choice["text"].startswith("{")
    assert found


def test_a_draft_changes_no_formatted_text(wild):
    drafted = Api({"lm": wild.runs["lm"].folder}, drafts=("lm=ngram",))
    fields = {"model": "lm", "prompt": "a", "max_tokens": 200, "n": 4, "seed": 2}
    fields |= {"response_format": {"type": "json_object"}}
    asked = [api.post(COMPLETIONS, **fields)["choices"] for api in (drafted, wild)]
    (served,) = drafted.service.models.values()
    drafted.service.engine.close()
    assert asked[0] == asked[1]
    assert served.drafts.counts.proposed > 0


def test_log_probabilities_are_those_of_the_model(wild):
    """A format changes what is chosen, not what the model thinks of it."""
    fields = {"model": "lm", "prompt": "a", "max_tokens": 20, "seed": 3, "logprobs": 0}
    (own,) = wild.post(COMPLETIONS, **fields, grammar='start: "yes"')["choices"]
    again = {"model": "lm", "prompt": "ayes", "max_tokens": 0, "echo": True, "logprobs": 0}
    (echoed,) = wild.post(COMPLETIONS, **again)["choices"]
    expected = echoed["logprobs"]["token_logprobs"][1:]
    assert own["logprobs"]["token_logprobs"][:3] == pytest.approx(expected, abs=4e-6)


@pytest.mark.parametrize(
    ("more", "said"),
    [
        ({"response_format": {"type": "yaml"}}, "response_format"),
        ({"response_format": {"type": "json_schema"}}, "json_schema"),
        ({"grammar": "start: nothing"}, "nothing"),
        ({"grammar": 'start: "a"', "response_format": {"type": "text"}}, "leave out one"),
        *(
            ({"response_format": {"type": "json_schema", "json_schema": {"schema": one}}}, said)
            for one, said in (
                ({"type": "thing"}, "thing"),
                ({"not": {}}, "not"),
                ({"$ref": "http://localhost/a"}, "not"),
                ({"enum": ["a" * 70_000]}, "characters"),
                ({"type": "integer", "minimum": 10**399}, "response_format"),
            )
        ),
    ],
)
def test_a_format_that_is_none_is_refused(wild, more, said):
    reply = wild.ask("POST", COMPLETIONS, json={"model": "lm", "prompt": "a"} | more)
    assert reply.status_code == 400
    assert said in reply.json()["error"]["message"]


def test_a_model_without_the_characters_says_so(api):
    asked = {"model": "lm", "prompt": "the cat", "max_tokens": 5, "seed": 1}
    form = {"response_format": {"type": "json_object"}}
    reply = api.ask("POST", COMPLETIONS, json=asked | form)
    assert (reply.status_code, "No token continues" in reply.text) == (400, True)
    asked |= {"grammar": 'start: "cat"'}
    (choice,) = api.post(COMPLETIONS, **asked)["choices"]
    assert choice["text"] == "cat"
