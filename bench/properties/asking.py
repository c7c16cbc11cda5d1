"""An explorer that is asked over HTTP."""

import http.client
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any

from glassformer.serve.explorer.routes import Server


@contextmanager
def served(explorer: Any, **options: Any) -> Iterator[Server]:
    """An explorer that is asked over HTTP."""
    with Server(explorer, **{"port": 0, **options}) as server, server.beside():
        yield server


def posted(
    server: Any,
    path: str,
    body: bytes,
    headers: Iterable[tuple[str, str]] | None = None,
    method: str = "POST",
) -> tuple[int, float, bytes]:
    """Status, seconds and content of an answer; `headers` None: those of the explorer's page."""
    port, begin = server.port, time.perf_counter()
    own = (("Host", f"127.0.0.1:{port}"), ("Cookie", f"{server.cookie}={server.token}"))
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
    try:
        connection.putrequest(method, path, skip_host=True, skip_accept_encoding=True)
        for name, value in (*(own if headers is None else headers),):
            connection.putheader(name, value)
        connection.putheader("Content-Type", "application/json")
        connection.putheader("Content-Length", str(len(body)))
        connection.endheaders(body)
        answer = connection.getresponse()
        content = answer.read()
        return answer.status, time.perf_counter() - begin, content
    finally:
        connection.close()
