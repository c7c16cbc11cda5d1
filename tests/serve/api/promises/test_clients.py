"""E7: OpenAI's client of two versions, curl, and a strict reader of events."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from .client import CHAT, COMPLETIONS, ask, run, stream

pytestmark = [pytest.mark.slow, pytest.mark.serving]
ANOTHER = "GLASSFORMER_OPENAI"
"""Folders with other versions of the client, as `pip install --target` makes them."""
N_SEEDS = 20


def cases(long):
    """Requests of /v1/completions and /v1/chat/completions, that any client may send."""
    own = {**long, "prompt": "the cat", "max_tokens": 12, "temperature": 1.5}
    said = {"model": "chat", "messages": [{"role": "user", "content": "hot day"}]}
    found = [(COMPLETIONS, own | {"seed": seed}) for seed in range(N_SEEDS)]  # broken UTF-8 mostly
    found += [
        (COMPLETIONS, own | {"seed": 1} | more)
        for more in (
            {"stop": ["a", "\n"]},
            {"logprobs": 3},
            {"echo": True},
            {"top_p": 0.5},
            {"max_tokens": 1},
        )
    ]
    return [*found, (CHAT, said), (CHAT, said | {"logprobs": True, "top_logprobs": 2})]


def text_of(choice):
    text = choice["text"] if "text" in choice else choice["message"]["content"]
    return [text, choice["finish_reason"]]


def test_clients_see_what_was_sent(serve, table, run_folder, talker):
    """E7; quick: tests/serve/api/test_process.py (OpenAI's client), test_routes.py (streams)."""
    with serve("--threads", 1, runs={"lm": run_folder, "chat": talker}) as server:
        calls, expected, differing = cases(server.long), [], 0
        post = lambda route, fields: run(ask(server.port, "POST", route, fields))
        for route, fields in calls:
            plain = text_of(post(route, fields).json["choices"][0])
            usage = {"stream": True, "stream_options": {"include_usage": True}}
            ((text, finish),) = stream(post(route, fields | usage), usage=True)
            differing += [text, finish] != plain
            expected.append(plain)
        several = calls[0][1] | {"n": 4, "prompt": ["a", "b"], "stream": True}
        texts = [
            text_of(one) for one in post(COMPLETIONS, several | {"stream": False}).json["choices"]
        ]
        differing += [list(one) for one in stream(post(COMPLETIONS, several), n=8)] != texts
        versions = []
        for place in ["", *filter(None, os.environ.get(ANOTHER, "").split(os.pathsep))]:
            path = {"PYTHONPATH": place} if place else {}
            command = [sys.executable, str(Path(__file__).with_name("openai_calls.py"))]
            told = subprocess.run(
                [*command, server.address, json.dumps(calls)],
                env={**os.environ, **path},
                capture_output=True,
                check=True,
                text=True,
                timeout=300,
            )
            seen = json.loads(told.stdout)
            versions.append(seen["version"])
            differing += sum(
                one != [wanted, wanted]
                for kind in ("sync", "async")
                for one, wanted in zip(seen[kind], expected, strict=True)
            )
            assert [status for status, _ in seen["errors"]] == [
                400,
                400,
                404,
                404,
                500,
                "event",
            ] or [status for status, _ in seen["errors"]] == [
                400,
                "event",
                404,
                "event",
                500,
                "event",
            ]
        if shutil.which("curl"):
            differing += curl(server, calls[0][1]) != expected[0]
    clients = ", ".join([f"openai {one}" for one in versions])
    table(
        "E7",
        f"{len(calls)} requests by {clients} (sync, async), curl and a strict reader: "
        f"{differing} replies differ",
    )
    assert differing == 0


def curl(server, fields):
    """The text and the end that curl gets of a stream."""
    body = json.dumps(fields | {"stream": True})
    command = ["curl", "-sN", "--fail", f"{server.address}{COMPLETIONS}", "--json", body]
    got = subprocess.run(command, capture_output=True, check=True, timeout=60).stdout.decode()
    *parts, last, rest = got.split("\n\n")
    assert (last, rest) == ("data: [DONE]", "")
    choices = [json.loads(part[6:])["choices"][0] for part in parts if part.startswith("data:")]
    return ["".join(one["text"] for one in choices), choices[-1]["finish_reason"]]
