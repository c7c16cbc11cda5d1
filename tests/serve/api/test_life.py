"""The life of a call: clients that leave, errors in the middle, deadlines, drain, batches."""

import asyncio
import io
import json
import threading
from dataclasses import replace
from hashlib import sha256
from itertools import pairwise

import pytest

from glassformer.runtime.engine import Engine
from glassformer.runtime.selectors import sampler as engine_module
from glassformer.serve.api.access import Rules
from glassformer.serve.api.admission import Limits
from glassformer.serve.api.envelope import Log
from glassformer.tasks.predictors.answer import Translate
from glassformer.tasks.predictors.classify import Classify
from glassformer.tasks.predictors.text import Text
from small_runs import go, recipe

from .conftest import Api, Connection

COMPLETIONS = "/v1/completions"
LONG = {"model": "lm", "prompt": "the cat", "max_tokens": 9, "seed": 5}


@pytest.fixture
def asked(api_of, gate):
    """A server whose steps wait, and a request that takes nine of them: its text has no end."""
    api = api_of("lm")
    end = api.runs["lm"].tokenizer.specials["eos"]
    return api, gate, LONG | {"logit_bias": {str(end): -100}}


@pytest.mark.parametrize("stream", [True, False])
@pytest.mark.parametrize("steps", [0, 3])
def test_a_client_that_leaves_frees_the_thread_and_nobody_else_notices(asked, stream, steps):
    api, gate, fields = asked

    async def left():
        stays = Connection(api, COMPLETIONS, fields)
        leaves = Connection(api, COMPLETIONS, fields | {"stream": stream, "n": 2})
        gate.release(3 * steps or 1)
        if stream and steps:
            await leaves.until(2)
        else:
            await asyncio.sleep(0)
        leaves.left.set()
        gate.release(1000)
        await asyncio.gather(leaves.task, stays.task)
        return stays, await api.loads()

    stays, loads = asyncio.run(left())
    assert (loads, api.service.calls.weight) == (0, 0)
    assert api.service.metrics.registry.get_sample_value("glassformer_cancelled_total") == 1
    text = json.loads(stays.text)["choices"][0]["text"]
    assert text == api.post(COMPLETIONS, **fields)["choices"][0]["text"]


def test_behind_the_first_token_others_wait_for_the_pace_or_the_end(api_of, gate):
    api = api_of("lm", pace=1e9)
    end = api.runs["lm"].tokenizer.specials["eos"]
    fields = LONG | {"logit_bias": {str(end): -100}, "logprobs": 0}

    async def asked():
        one = Connection(api, COMPLETIONS, fields | {"stream": True})
        gate.release()
        await one.until(2)  # the start of the reply, and a token
        gate.release(1000)
        await one.task
        return one.text

    *events, _, _ = asyncio.run(asked()).split("\n\n")
    pieces = [json.loads(event.removeprefix("data: "))["choices"][0] for event in events]
    assert [len(piece["logprobs"]["tokens"]) for piece in pieces] == [1, 8]
    assert (
        "".join(piece["text"] for piece in pieces)
        == (api.post(COMPLETIONS, **fields)["choices"][0]["text"])
    )


def test_a_client_that_leaves_in_its_request_is_counted(api_of):
    api = api_of("lm")

    async def half():
        one = Connection(api, COMPLETIONS, LONG)
        one.body = b""  # nothing comes of it
        one.left.set()
        await one.task
        return one.status

    assert asyncio.run(half()) == 499
    assert api.service.metrics.registry.get_sample_value("glassformer_cancelled_total") == 1


class Stalled(Connection):
    """A client to which nothing of a body can be sent until it is cut."""

    async def _send(self, message):
        if message["type"] == "http.response.body" and not self.left.is_set():
            await self.left.wait()
            return
        await super()._send(message)


def test_a_client_that_is_cut_gets_no_more_and_is_counted(api_of):
    """All that it asked for is computed, so that nothing else would hold the reply up."""
    api = api_of("lm")

    async def cut():
        one = Stalled(api, COMPLETIONS, LONG | {"stream": True})
        await one.until(1)
        while await api.loads():
            pass
        one.left.set()
        await one.task
        return one

    assert asyncio.run(cut()).text == ""
    assert api.service.metrics.registry.get_sample_value("glassformer_cancelled_total") == 1
    assert api.service.calls.weight == 0


class Panic(BaseException):
    """As libraries in other languages raise it."""


@pytest.mark.parametrize("kind", [MemoryError, Panic])
def test_an_error_in_the_middle_of_a_stream_is_an_event_and_no_end(asked, monkeypatch, kind):
    api, gate, fields = asked
    choose = engine_module.next_tokens

    def failing(logits, rows, config):
        if (7, 3) in zip(rows.seeds, rows.new, strict=True):
            raise kind("a secret")
        return choose(logits, rows, config)

    monkeypatch.setattr(engine_module, "next_tokens", failing)
    gate.release(1000)

    async def both():
        poison = Connection(api, COMPLETIONS, fields | {"seed": 7, "stream": True})
        other = Connection(api, COMPLETIONS, fields)
        await asyncio.gather(poison.task, other.task)
        return poison, other

    poison, other = asyncio.run(both())
    assert (poison.status, other.status) == (200, 200)
    *_, last, rest = poison.text.split("\n\n")
    assert rest == ""
    assert json.loads(last.removeprefix("data: "))["error"]["type"] == "server_error"
    assert "[DONE]" not in poison.text
    reply = api.ask("POST", COMPLETIONS, json=fields | {"seed": 7})
    assert (reply.status_code, reply.headers["x-should-retry"]) == (500, "false")
    assert "secret" not in reply.text
    assert api.post(COMPLETIONS, **fields)["choices"]
    assert asyncio.run(api.loads()) == 0


def test_a_request_beyond_its_deadline_ends(api_of, gate):
    api = api_of("lm", limits=replace(Limits(), deadline=0.05))
    reply = api.ask("POST", COMPLETIONS, json=LONG)
    assert (reply.status_code, reply.json()["error"]["type"]) == (504, "server_error")
    *_, last, _ = api.ask("POST", COMPLETIONS, json=LONG | {"stream": True}).text.split("\n\n")
    assert "more than 0.05 seconds" in last
    gate.release(1000)
    assert asyncio.run(api.loads()) == 0


def test_prefixes_are_shared_by_requests_of_one_key_alone(tmp_path):
    """A prompt of more than a page is known again to its own key, and to no other."""
    keys = [f"a-key-of-some-length-{n}" for n in range(2)]
    rules = Rules(keys=tuple(sha256(key.encode()).digest() for key in keys))
    go(recipe(tmp_path, train={"steps": 2}, model={"max_length": 128}), tmp_path / "run")
    api, hits = Api({"long": tmp_path / "run"}, rules=rules), []
    fields = {"model": "long", "prompt": [1, 2, 3] * 30, "max_tokens": 2}
    for n in (0, 0, 1, 0):
        headers = {"authorization": f"Bearer {keys[n]}"}
        assert api.ask("POST", COMPLETIONS, json=fields, headers=headers).status_code == 200
        lines = api.ask("GET", "/metrics", headers=headers).text.splitlines()
        (line,) = (one for one in lines if one.startswith("glassformer_prefix_hits_total"))
        hits.append(float(line.split()[1]))
    assert hits == [0, 1, 1, 2]
    told = dict(line.split() for line in lines if line.startswith("glassformer_cache_pages"))
    assert told == {"glassformer_cache_pages": "32.0", "glassformer_cache_pages_free": "30.0"}
    api.service.engine.close()


@pytest.mark.parametrize("finishes", [True, False])
def test_a_drain_waits_and_then_ends_with_an_error(asked, finishes):
    api, gate, fields = asked
    calls = api.service.calls

    async def drained():
        plain = Connection(api, COMPLETIONS, fields)
        stream = Connection(api, COMPLETIONS, fields | {"stream": True})
        gate.release(4)
        await stream.until(2)
        ending = asyncio.ensure_future(calls.drain(20.0 if finishes else 0.0))
        await asyncio.sleep(0)
        late = Connection(api, COMPLETIONS, fields)
        await late.task
        gate.release(1000)
        await asyncio.gather(plain.task, stream.task, ending)
        return plain, stream, late

    plain, stream, late = asyncio.run(drained())
    assert (late.status, plain.status) == (503, 200 if finishes else 503)
    assert ("[DONE]" in stream.text, '"error"' in stream.text) == (finishes, not finishes)
    assert api.ask("GET", "/readyz").status_code == 503
    assert api.ask("GET", "/livez").status_code == 200
    assert (len(calls), asyncio.run(api.loads())) == (0, 0)


def test_requests_for_one_verb_are_computed_together(api_of, monkeypatch):
    api = api_of("classes", "tags")
    run, sizes, held = api.runs["classes"], [], threading.Event()
    predict = Classify.predict

    def counted(predictor, inputs, options, elements):
        if len(inputs) > 1 and any(one.given == "h h h" for one in inputs):
            raise ValueError("one is poison")
        sizes.append(len(inputs))
        yield from predict(predictor, inputs, options, elements)

    monkeypatch.setattr(Classify, "predict", counted)

    async def several():
        api.service.engine.batch(object(), lambda one: [held.wait(20)], [None])
        texts = (["a"], ["b c", "d"], ["h h h"], ["e f"])
        asked = [
            Connection(api, "/v1/classify", {"model": "classes", "input": one}) for one in texts
        ]
        tags = Connection(api, "/v1/tag", {"model": "tags", "input": "a b"})
        gone = Connection(api, "/v1/classify", {"model": "classes", "input": ["g"] * 50})
        while api.service.calls.weight < 6:
            await asyncio.sleep(0)
        gone.left.set()
        await gone.task
        held.set()
        await asyncio.gather(*(one.task for one in (*asked, tags)))
        return [json.loads(one.text)["data"] for one in asked]

    found = asyncio.run(several())
    monkeypatch.undo()
    assert sorted(sizes) == [1, 1, 1, 2], "the poison was alone, nobody computed for who had left"
    for own, texts in zip(found, (["a"], ["b c", "d"], ["h h h"], ["e f"]), strict=True):
        assert [one["labels"] for one in own] == [[name] for name in run.classify(texts)]


def test_a_line_of_the_log_has_no_prompt_and_no_key(api_of):
    stream = io.StringIO()
    rules = Rules(keys=(sha256(b"the-secret-key-1").digest(),))
    api = api_of("lm", log=Log(stream), rules=rules)
    headers = {"authorization": "Bearer the-secret-key-1"}
    for fields in (LONG, LONG | {"top_p": "the cat\nforged"}, LONG | {"prompt": "the cat" * 9}):
        api.ask("POST", COMPLETIONS, json=fields, headers=headers)
    api.ask("GET", "/the%0acat%1b[31m", headers=headers)
    lines = [json.loads(line) for line in stream.getvalue().splitlines()]
    assert [line["status"] for line in lines] == [200, 400, 400, 404]
    assert lines[0]["generated_tokens"] > 0
    assert lines[0]["key"] == lines[1]["key"] != ""
    assert "cat" not in stream.getvalue()
    assert "secret" not in stream.getvalue()
    assert stream.getvalue().isascii()


def test_a_token_waits_for_one_step_of_a_translation(api_of, monkeypatch):
    """While a search with beams goes on, every turn gives each text a token; a work that nobody
    waits for ends."""
    api, turns = api_of("lm", "pairs"), []
    engine = api.service.engine
    end = api.runs["lm"].tokenizer.specials["eos"]
    write, step = Translate.write, Engine.step

    def noted(*arguments, **options):
        for _ in write(*arguments, **options):
            turns.append("search")
            yield
        turns.append("over")
        return [Text("ab")]

    def token(engine):
        turns.extend(["token"] * engine.invariant)  # those of searches are not
        return step(engine)

    monkeypatch.setattr(Translate, "write", noted)
    monkeypatch.setattr(Engine, "step", token)
    pair = {"model": "pairs", "input": "abc", "beams": 3, "max_tokens": 9}

    async def beside():
        held = threading.Event()
        engine.batch(object(), lambda one: [held.wait(20)], [None])
        asked = [
            Connection(api, "/v1/translate", pair),
            Connection(api, COMPLETIONS, LONG | {"logit_bias": {str(end): -100}}),
            Connection(api, "/v1/translate", pair | {"beams": 2}),
        ]
        while api.service.calls.weight < 3:
            await asyncio.sleep(0)
        asked[-1].left.set()
        await asked[-1].task
        held.set()
        await asyncio.gather(*(one.task for one in asked))
        return [one.status for one in asked[:2]]

    assert asyncio.run(beside()) == [200, 200]
    assert (turns.count("token"), turns.count("over")) == (9, 1)
    assert turns.count("search") > 3
    first = max(turns.index("token"), turns.index("search"))
    assert all(a != b for a, b in pairwise(turns[first : first + 6]))
