"""E10, E15: keys and the log."""

import asyncio
import secrets
import time
from statistics import median

import pytest

from .client import COMPLETIONS, Connection, Cut, pause, run

pytestmark = [pytest.mark.slow, pytest.mark.serving]
KEY = "a-key-of-some-length"
N_TIMED = 2_000
PROMPT = "a canary in a prompt"


def wrong_keys():
    """Header lines that are no key."""
    near = [
        KEY[:-1],
        KEY + "x",
        KEY.upper(),
        KEY[::-1],
        KEY.replace("-", "\u2010").encode().decode("latin-1"),
    ]
    near += [
        KEY.replace("a", "\xe0"),
        f"{KEY},{KEY}",
        f"{KEY} {KEY}",
        f'"{KEY}"',
        KEY + "\x00"[:0] + "%00",
    ]
    lines = [[f"authorization: Bearer {key}"] for key in near]
    lines += [[], ["authorization:"], [f"authorization: {KEY}"], [f"authorization: Basic {KEY}"]]
    lines += [[f"authorization: Bearer: {KEY}"], [f"proxy-authorization: Bearer {KEY}"]]
    lines += [[f"x-api-key: {KEY}"], [f"api-key: {KEY}"], [f"cookie: authorization=Bearer {KEY}"]]
    lines += [[f"authorization: Bearer {KEY}", f"authorization: Bearer {KEY}"]]
    return [*lines, ["authorization: Bearer x", f"Authorization: Bearer {KEY}"]]


def test_every_route_needs_the_key(serve, table):
    """E10; quick: tests/serve/api/test_access.py."""
    right, n = [f"authorization: Bearer {KEY}"], 0

    async def tried(server):
        statuses = []
        one = await Connection.open(server.port)
        described = (await one.ask("GET", "/openapi.json", None, right)).json["paths"]
        paths = [
            (method.upper(), path.replace("{id}", "lm"))
            for path, own in described.items()
            for method in own
        ]
        paths += [("GET", path) for path in ("/docs", "/openapi.json", "/static-offline-docs/a")]
        paths += [
            (method, path)
            for method in ("PUT", "HEAD", "DELETE", "OPTIONS", "TRACE")
            for path in ("/v1/models", "/metrics")
        ]
        paths += [
            ("GET", path) for path in ("/", "/livez/", "//livez", "/LIVEZ", "/livez/../metrics")
        ]
        paths += [
            ("GET", path) for path in ("/metrics?/livez", "/%6civez/metrics", "/livez;/metrics")
        ]
        for method, path in paths:
            for headers in [*wrong_keys(), right]:
                try:
                    one.send(method, path, None, headers)
                    reply = await one.head() if method == "HEAD" else await one.reply()
                except Cut:
                    reply, one = None, await Connection.open(server.port)
                if method == "HEAD":
                    one = await Connection.open(server.port)
                statuses.append((method, path, headers, reply and reply.status))
        return statuses

    async def timed(server):
        one, seconds = await Connection.open(server.port), {"begin": [], "end": []}
        for _ in range(N_TIMED):
            for kind, key in (("begin", "x" + KEY[1:]), ("end", KEY[:-1] + "x")):
                began = time.perf_counter()
                await one.ask("GET", "/v1/models", None, [f"authorization: Bearer {key}"])
                seconds[kind].append(time.perf_counter() - began)
        return 1e6 * (median(seconds["end"]) - median(seconds["begin"]))

    with serve("--threads", 1, key=KEY) as server:
        statuses, micros = run(tried(server)), run(timed(server))
    opened = []
    for method, path, headers, status in statuses:
        free = path in ("/livez", "/readyz")
        if headers != right:
            n += 1
            allowed = (200, 400) if free else (400, 401, None)
            opened += [] if status in allowed else [(method, path, headers, status)]
    table(
        "E10",
        f"{n} requests without the key: {len(opened)} let in; wrong at its end or its "
        f"beginning: {micros:+.0f} µs",
    )
    assert not opened
    assert ("GET", "/v1/models", right, 200) in statuses
    assert abs(micros) < 1000


def test_no_line_of_the_log_is_forged(serve, table):
    """E15; quick: tests/serve/api/test_life.py, test_a_line_of_the_log_has_no_prompt_and_no_key."""
    forged = '{"time": "forged"}'
    paths = [
        f"/{end}{forged.replace(' ', '')}"
        for end in ("%0d%0a", "%0a", "%1b[31m", "%e2%80%a8", "%00")
    ]
    own = f"{KEY}-{secrets.token_hex(4)}"
    lines = [f"x-request-id: a\t{forged}", "x-request-id: \x85" + forged, f"user-agent: {forged}"]
    lines += [f"x-request-id: {own}"[:200], f"x-forwarded-for: {forged}", "x-request-id: ok-1"]

    async def tried(server):
        n, right = 0, f"authorization: Bearer {KEY}"
        for path in (*paths, "/v1/models"):
            for line in lines:
                for auth in (right, f"authorization: Bearer {own}"):
                    one = await Connection.open(server.port)
                    one.send("GET", path, None, [auth] if KEY in line else [auth, line])
                    try:
                        n += (await one.reply()).status > 0
                    except Cut:
                        n += 0
        one = await Connection.open(server.port)
        for more in (
            {},
            {"max_tokens": -1},
            {"prompt": PROMPT * 90},
            {"model": f"\n{forged}"},
            {"stop": f"\n{forged}{PROMPT}"},
            {"user": PROMPT},
            {"prompt": [1, 1, 1]},
            {PROMPT: 1},
            {"seed": PROMPT},
            {"stream": True},
            {"logit_bias": {PROMPT: 1}},
        ):
            fields = {**server.long, "prompt": PROMPT, "max_tokens": 2} | more
            await one.ask("POST", COMPLETIONS, fields, [right])
            n += 1
        async with asyncio.timeout(30):  # a line is written behind its reply
            while len(server.lines()) < n:
                await pause(0.01)
        return n

    with serve("--threads", 1, key=KEY) as server:
        n = run(tried(server))
        raw = server.log.read_bytes()
        found = [line for line in server.lines() if "request" in line]
    others = [line for line in raw.splitlines()[1:] if not line.startswith(b'{"time": "2')]
    secret = sum(raw.count(text.encode()) for text in (KEY, PROMPT))
    table(
        "E15",
        f"{n} hostile requests: {len(others)} forged lines, {secret} keys or prompts in "
        f"{len(found)} lines",
    )
    assert raw.isascii()
    assert b"\x1b" not in raw
    assert not others
    assert secret == 0
    assert len(found) == n
