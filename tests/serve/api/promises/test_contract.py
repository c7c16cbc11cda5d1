"""E6, E9: any request has a documented answer; limits hold at their edges."""

import asyncio
import gzip
import importlib.util
import json
import os
import re
import subprocess
import sys
import time

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule, run_state_machine_as_test

from glassformer.serve.api.replies import Failure
from glassformer.serve.api.requests import LARGEST

from .client import CHAT, COMPLETIONS, Connection, ask, run

pytestmark = [pytest.mark.slow, pytest.mark.serving]
FOLDER = "GLASSFORMER_SCHEMATHESIS"
"""A folder with schemathesis, as `pip install --target` makes it."""
CASES = int(os.environ.get("GLASSFORMER_CASES", "300"))
"""Cases of each route of the fuzzing phase; 5,000 take about two hours."""
CHECKS = "not_a_server_error,status_code_conformance,content_type_conformance,response_schema_conformance"
SPECIAL = [-1, 0, 1, 2**31 - 1, 2**31, 2**63 - 1, 2**63, 10**400, 1e308, 0.5, True, "1", [1], {}]
PROMISED = 0.1
"""Seconds of a refusal."""
RAW = ["NaN", "Infinity", "-Infinity", "1e999", "01", "+1", "0x1", "1_0"]


def installed() -> str | None:
    """Where schemathesis is; "": in this environment."""
    if folder := os.environ.get(FOLDER):
        return folder
    return "" if importlib.util.find_spec("schemathesis") else None


@pytest.mark.skipif(installed() is None, reason=f"schemathesis is not installed; see {FOLDER}")
def test_every_request_has_a_documented_answer(serve, table, tmp_path):
    """E6; quick: tests/serve/api/test_refusals.py, and test_routes.py, where each reply has its
    documented form."""
    with serve("--threads", 1, "--deadline", 5) as server:
        command = [
            sys.executable,
            "-c",
            "from schemathesis.cli import schemathesis; schemathesis()",
        ]
        command += [
            "run",
            f"{server.address}/openapi.json",
            "--phases",
            "examples,coverage,fuzzing",
        ]
        command += ["--mode", "all", "--max-examples", str(CASES), "--generation-allow-x00", "true"]
        command += ["--checks", CHECKS, "--seed", "1", "--continue-on-failure", "--no-color"]
        path = {"PYTHONPATH": installed()} if installed() else {}
        how = {"cwd": tmp_path, "env": {**os.environ, **path}, "capture_output": True, "text": True}
        told = subprocess.run(command, **how, check=False, timeout=1300)
        numbers = run(server.idle())
        internal = [line for line in server.lines() if line.get("status", 0) == 500]
    tried = int(sum(n for name, n in numbers.items() if name.startswith("requests_total")))
    failures = re.findall(r"(\d+) failed|(\d+) failures?", told.stdout)
    table(
        "E6",
        f"schemathesis, positive, negative and coverage, NUL allowed, {tried:,} requests: "
        f"{len(internal)} of 500, {len(failures)} kinds of failures",
    )
    assert not internal, internal[:3]
    assert told.returncode == 0, told.stdout[-6000:] + told.stderr[-2000:]


class Life(RuleBasedStateMachine):
    """Requests that begin, go on, are left or waited for, in any order."""

    def __init__(self) -> None:
        super().__init__()
        self.live: list[tuple[Connection, bool]] = []

    def _do(self, work):
        return LOOP.run_until_complete(work)

    @rule(stream=st.booleans(), tokens=st.integers(1, 300), n=st.integers(1, 3))
    def begin(self, stream, tokens, n) -> None:
        one = self._do(Connection.open(SERVER.port))
        fields = {**SERVER.long, "prompt": "the cat", "max_tokens": tokens, "n": n}
        one.send("POST", COMPLETIONS, fields | {"stream": stream})
        self.live.append((one, stream))

    @rule(data=st.data())
    def leave(self, data) -> None:
        if self.live:
            one, _ = self.live.pop(data.draw(st.integers(0, len(self.live) - 1)))
            one.reset()

    @rule(data=st.data())
    def wait(self, data) -> None:
        if self.live:
            one, stream = self.live.pop(data.draw(st.integers(0, len(self.live) - 1)))
            reply = self._do(one.reply())
            one.close()
            assert (reply.status, reply.whole) == (200, True)
            assert reply.body.endswith(b"data: [DONE]\n\n") == stream

    @invariant()
    def never_more_than_was_asked(self) -> None:
        assert self._do(ask(SERVER.port, "GET", "/livez")).status == 200

    def teardown(self) -> None:
        for one, _ in self.live:
            one.reset()
        found = self._do(SERVER.idle())
        assert found["in_flight"] == found["queue_depth"] == 0
        BOUND[0] += 1
        if "cache_pages" in found:
            held = found["cache_pages"] - found["cache_pages_free"]
            assert held <= 1 + 2  # of padding, and of prefixes that are kept


SERVER, LOOP, BOUND = None, None, [0]


def test_any_life_of_requests_leaves_nothing(serve, table):
    """E6, the state machine; quick: tests/serve/api/test_life.py."""
    global SERVER, LOOP
    with serve("--threads", 1) as SERVER:
        LOOP = asyncio.new_event_loop()
        run_state_machine_as_test(
            Life, settings=settings(max_examples=100, stateful_step_count=20, database=None)
        )
        LOOP.run_until_complete(asyncio.sleep(0))
        LOOP.close()
    table("E6", f"{BOUND[0]} lives of requests by a state machine: nothing is left behind")


def numeric(schema):
    """Number fields of a request, with their types and limits."""
    for name, field in schema["properties"].items():
        for kind in field.get("anyOf", [field]):
            if kind.get("type") in ("integer", "number"):
                low = kind.get("minimum", kind.get("exclusiveMinimum", kind.get("const")))
                high = kind.get("maximum", kind.get("const"))
                if kind["type"] == "integer" and high is not None:
                    high = min(high, LARGEST)  # the document has it as a float
                yield name, kind["type"], low, high, "exclusiveMinimum" in kind


def inside(value, kind, low, high, open_below) -> bool:
    """Whether a value is within the limits of a field."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return False
    if kind == "integer" and not isinstance(value, int):
        return False
    if low is not None and (value < low or (open_below and value == low)):
        return False
    return high is None or value <= high


KEPT = ("max_tokens", "max_completion_tokens", "dimensions", "top_logprobs")
"""Fields whose limits are those of the model or of another field, too."""
REQUESTS = {
    "CompletionRequest": (COMPLETIONS, {"prompt": "a", "max_tokens": 1}),
    "ChatRequest": (CHAT, {"messages": [{"role": "user", "content": "hot day"}]}),
    "EmbeddingRequest": ("/v1/embeddings", {"input": "a"}),
}


def values(schemas):
    """Requests with a number at, below and beyond its limits, and the statuses that they may have."""
    for name, (path, least) in REQUESTS.items():
        least = least | {"model": "chat" if path == CHAT else "lm"}
        for field, kind, low, high, opened in numeric(schemas[name]):
            edges = [b + d for b in (low, high) if b is not None for d in (-1, 0, 1)]
            for value in (*SPECIAL, *edges):
                fine = inside(value, kind, low, high, opened)
                statuses = (400,) if not fine else (200, 400) if field in KEPT else (200,)
                yield path, json.dumps(least | {field: value}).encode(), statuses
            for raw in RAW:
                yield path, (json.dumps(least)[:-1] + f', "{field}": {raw}}}').encode(), (400,)


def bodies():
    """Bodies that are too large, too deep, too long, and one that is just not."""
    lm = {"model": "lm", "prompt": "a", "max_tokens": 1}
    own = json.dumps(lm).encode()
    chat = {"model": "chat", "messages": [{"role": "user", "content": ""}] * 100_000}
    yield COMPLETIONS, own + b" " * ((1 << 20) - len(own)), (200,)
    yield COMPLETIONS, own + b" " * ((1 << 20) + 1 - len(own)), (413,)
    yield COMPLETIONS, gzip.compress(b" " * (1 << 28)), (400,)
    yield COMPLETIONS, b"[" * 10_000 + b"]" * 10_000, (400,)
    yield COMPLETIONS, b'{"a":' * 10_000 + b"1" + b"}" * 10_000, (400,)
    yield COMPLETIONS, json.dumps(lm | {"prompt": [[1]] * 100_000}).encode(), (400,)
    yield COMPLETIONS, json.dumps(lm | {"prompt": "a" * 1_000_000}).encode(), (400,)
    yield COMPLETIONS, json.dumps(lm | {"stop": ["a" * 256] * 17}).encode(), (400,)
    yield COMPLETIONS, b'{"model": "lm", "prompt": ' + b"9" * 900_000 + b"}", (400,)
    yield CHAT, json.dumps(chat).encode(), (413,)
    yield CHAT, json.dumps(chat | {"messages": [{}] * 100_000}).encode(), (400,)
    parts = [{"role": "user", "content": [{}] * 1024}] * 200
    yield CHAT, json.dumps(chat | {"messages": parts}).encode(), (400,)
    many = {f"x{i}": 1 for i in range(60_000)}
    yield COMPLETIONS, json.dumps(many).encode(), (400,)
    yield COMPLETIONS, json.dumps(lm | {"metadata": many}).encode(), (400,)
    yield COMPLETIONS, json.dumps(many)[:-1].encode() + b', "x59999": 1}', (400,)
    yield COMPLETIONS, b'{"a": "' + b'\\"' * 500_000, (400,)  # a string without an end


async def timed(server, path, body):
    """The reply and its seconds; the fastest of up to three beyond what is promised, since what
    else the machine does only adds to them."""
    times = []
    while len(times) < 3 and (not times or times[-1] > PROMISED):
        began = time.perf_counter()
        reply = await ask(server.port, "POST", path, body)
        times.append(time.perf_counter() - began)
    return reply, min(times)


def test_limits_hold_at_their_edges(serve, table, run_folder, talker):
    """E9; quick: tests/serve/api/test_refusals.py."""
    wrong, slowest, n = [], (0.0, b""), 0

    async def all_of(server):
        nonlocal n, slowest
        schemas = (await ask(server.port, "GET", "/openapi.json")).json["components"]["schemas"]
        for path, body, statuses in (*values(schemas), *bodies()):
            n += 1
            reply, seconds = await timed(server, path, body)
            if reply.status >= 400:
                Failure.model_validate(reply.json)
                slowest = max(slowest, (seconds, body[:90]))
            if reply.status not in statuses:
                wrong.append((path, body[:90], reply.status, reply.body[:200]))
        return await server.idle()

    with serve("--threads", 1, runs={"lm": run_folder, "chat": talker}) as server:
        numbers = run(all_of(server))
        peak = server.status("VmHWM")
    table(
        "E9",
        f"{n:,} values and bodies at, below and beyond limits: {len(wrong)} without the documented "
        f"answer; the slowest refusal took {1000 * slowest[0]:.0f} ms",
    )
    assert not wrong, wrong[:5]
    assert numbers["queue_depth"] == 0
    assert slowest[0] < PROMISED, slowest[1]
    assert peak < 2 << 30
