"""Requests to the explorer without its token."""

import json
import secrets
import statistics
import time
from typing import Any

from glassformer.serve.api.access import OPEN, Rules, hash_of
from glassformer.serve.explorer.schema import SCHEMA
from properties.asking import posted, served

NO_HTTP = ("no host", "two hosts", "null")
"""Headers that are no HTTP: the server closes before the body comes and resets the connection."""


def credentials(server: Any) -> dict[str, list[tuple[str, str]]]:
    """Headers that do not open the explorer."""
    port, token, name = server.port, server.token, server.cookie
    host, good = ("Host", f"127.0.0.1:{port}"), f"{name}={token}"
    wrong = {
        "none": "",
        "empty": f"{name}=",
        "short": good[:-1],
        "long": f"{good}x",
        "near": good[:-1] + ("a" if good[-1] != "a" else "b"),
        "changed case": f"{name}={token.swapcase()}",
        "another name": f"x{good}",
        "name in capitals": f"{name.upper()}={token}",
        "unicode": f"{name}={token[:-1]}\u00e9",
        "quoted wrongly": f'{name}="{token}',
        "twice, wrong last": f"{good}; {name}=x",
        "null": f"{name}={token[:5]}\0",
        "bearer": "",
    }
    found = {what: [host, ("Cookie", value)] for what, value in wrong.items()}
    found["no cookie"] = [host]
    found["bearer"] = [host, ("Authorization", f"Bearer {good}")]
    found["two keys"] = [host, *[("Authorization", f"Bearer {token}")] * 2]
    found["a wrong key beside the cookie"] = [host, ("Authorization", "Bearer x"), ("Cookie", good)]
    found["two hosts"] = [host, ("Host", "evil.example"), ("Cookie", good)]
    found["no host"] = [("Cookie", good)]
    found["another host"] = [("Host", f"evil.example:{port}"), ("Cookie", good)]
    found["another port"] = [host, ("Origin", f"http://127.0.0.1:{port + 1}"), ("Cookie", good)]
    found["another site"] = [host, ("Origin", "http://evil.example"), ("Cookie", good)]
    found["a null origin"] = [host, ("Origin", "null"), ("Cookie", good)]
    found["across sites"] = [host, ("Sec-Fetch-Site", "cross-site"), ("Cookie", good)]
    return found


def open_routes(explorer: Any) -> tuple[int, list[str]]:
    """The number of requests that should be refused, and those that were answered."""
    cases, problems = 0, list[str]()
    with served(explorer) as server:
        bodies = [json.dumps({"op": op, "look": {"input": "a"}}) for op in SCHEMA["ops"]]
        paths = ("/api", "/stream", f"/api?token={server.token}")
        tries = [("POST", path, body) for body in bodies for path in paths]
        app: Any = server.config.app
        for path, operations in app.openapi()["paths"].items():
            if path not in OPEN:
                tries += [(name.upper(), path, "{}" * (name != "get")) for name in operations]
        tries += [("GET", path, "") for path in ("/docs", "/openapi.json")]
        for what, headers in credentials(server).items():
            for method, path, body in tries:
                cases += 1
                try:
                    status, _, _ = posted(server, path, body.encode(), headers, method)
                except ConnectionResetError:
                    if what not in NO_HTTP:
                        raise
                    continue
                if not 400 <= status < 500:
                    problems.append(f"{what}, {method} {path} {body}: {status}")
        for method in ("PUT", "DELETE", "PATCH", "OPTIONS", "TRACE", "CONNECT", "PROPFIND"):
            for path in ("/api", "/stream", "/", "*"):
                cases += 1
                status, _, _ = posted(server, path, b"{}", method=method)
                if not 400 <= status < 600 or status == 500:
                    problems.append(f"{method} {path}: {status}")
    return cases, problems


def timing(rounds: int = 20_000) -> float:
    """Seconds by which a token that is wrong at its end takes longer than one wrong at its
    beginning."""
    token = secrets.token_urlsafe(24)
    rules = Rules(keys=(hash_of(token),))
    first, last = "\u0021" + token[1:], token[:-1] + "\u0021"
    took: dict[str, list[float]] = {first: [], last: []}
    for _ in range(rounds):
        for one in took:
            begin = time.perf_counter()
            rules.find(one)
            took[one].append(time.perf_counter() - begin)
    return statistics.median(took[last]) - statistics.median(took[first])
