"""`glassformer serve` as a process: OpenAI's own client, a key, and the end by SIGTERM."""

import json
import os
import signal
import sys

import pytest
from openai import AuthenticationError, BadRequestError, NotFoundError, OpenAI

from processes import started

KEY = "a-key-of-some-length"


@pytest.fixture(scope="module")
def server(folders):
    """The process and its address."""
    named = [part for name in ("lm", "chat") for part in ("--name", name)]
    command = [sys.executable, "-m", "glassformer", "serve", folders["lm"], folders["chat"], *named]
    environment = os.environ | {"GLASSFORMER_API_KEY": KEY}
    with started([*map(str, command), "--port", "0"], text=True, env=environment) as process:
        yield process, process.stdout.readline().strip()


def client(address, key=KEY):
    return OpenAI(base_url=f"{address}/v1", api_key=key, max_retries=0)


def test_openai_s_client_is_answered_until_sigterm(server, api):
    process, address = server
    assert address.startswith("http://127.0.0.1:")
    with client(address) as own:
        assert [one.id for one in own.models.list()] == ["lm", "chat"]
        how = {"model": "lm", "prompt": "the cat", "max_tokens": 6, "seed": 5}
        plain = own.completions.create(**how, extra_body={"top_k": 5})
        assert (
            plain.choices[0].text
            == api.post("/v1/completions", **how, top_k=5)["choices"][0]["text"]
        )
        pieces = own.completions.create(**how, stream=True, extra_body={"top_k": 5})
        assert "".join(piece.choices[0].text for piece in pieces) == plain.choices[0].text
        said = [{"role": "user", "content": "hot day"}]
        chatted = own.chat.completions.create(model="chat", messages=said)
        assert chatted.choices[0].message.content == "cold"
        options = {"include_usage": True}
        *deltas, last = own.chat.completions.create(
            model="chat", messages=said, stream=True, stream_options=options
        )
        assert "".join(one.choices[0].delta.content or "" for one in deltas) == "cold"
        assert deltas[-1].choices[0].finish_reason == "stop"
        assert last.usage == chatted.usage
        rows = own.embeddings.create(model="lm", input=["the cat", "a"]).data  # in base64
        floats = api.post("/v1/embeddings", model="lm", input=["the cat", "a"])["data"]
        assert [one.embedding for one in rows] == [one["embedding"] for one in floats]
        with pytest.raises(BadRequestError) as refused:
            own.completions.create(**how | {"max_tokens": -1})
        assert refused.value.param == "max_tokens"
        with pytest.raises(NotFoundError):
            own.completions.create(**how | {"model": "gpt"})
    with client(address, "another-key-of-it") as other, pytest.raises(AuthenticationError):
        other.models.list()
    process.send_signal(signal.SIGTERM)
    out, said = process.communicate(timeout=30)
    assert (process.returncode, out) == (0, "")
    *lines, end = said.splitlines()
    assert end == "the server has ended"
    logged = [json.loads(line) for line in lines if line.startswith("{")]
    assert [one["status"] for one in logged if "status" in one][-1] == 401
    assert KEY not in said
    assert "Traceback" not in said
