"""Servers as processes of their own, and streams of /v1/completions with the time of each piece.

    with served(command, log, "/readyz", address) as address:
        stream = asyncio.run(streamed(address, {"prompt": ids, "max_tokens": 64}))

The client keeps what comes and parses it at the end, so that it takes little of the processor that
it shares with the server.
"""

import asyncio
import json
import subprocess
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

PATIENCE = 120.0
"""Seconds until a server answers or a stream has ended."""


@dataclass(frozen=True)
class Stream:
    """When the pieces of a text came, in seconds behind its request, and its tokens."""

    times: list[float]
    n_tokens: int

    @property
    def gaps(self) -> list[float]:
        """Seconds between two pieces."""
        return [after - before for before, after in pairwise(self.times)]


@contextmanager
def served(command: Sequence[str], log: Path, ready: str, address: str) -> Iterator[str]:
    """A server as a process, until it is left; its address once the path `ready` answers."""
    with log.open("w") as out, subprocess.Popen(command, stdout=out, stderr=out) as process:
        try:
            end = time.monotonic() + PATIENCE
            while not _answers(address + ready):
                if process.poll() is not None or time.monotonic() > end:
                    raise RuntimeError(f"{command[0]} does not answer: {log.read_text()[-500:]}")
                time.sleep(0.1)
            yield address
        finally:
            process.terminate()


def _answers(url: str) -> bool:
    try:
        with urllib.request.urlopen(url, timeout=1) as reply:
            return reply.status == 200
    except (urllib.error.URLError, OSError):
        return False


async def streamed(
    address: str, fields: Mapping[str, Any], came: Callable[[int], None] = lambda _: None
) -> Stream:
    """The stream of a completion; `came` is called with the number of pieces so far."""
    begin = time.perf_counter()
    where = urlsplit(address)
    reader, writer = await asyncio.open_connection(where.hostname, where.port, limit=1 << 22)
    asked = {**fields, "stream": True, "stream_options": {"include_usage": True}}
    body = json.dumps(asked).encode()
    head = f"POST /v1/completions HTTP/1.1\r\nhost: {where.netloc}\r\nconnection: close\r\n"
    head += f"content-type: application/json\r\ncontent-length: {len(body)}\r\n\r\n"
    writer.write(head.encode() + body)
    times, lines = list[float](), list[bytes]()
    status = await reader.readline()
    async with asyncio.timeout(PATIENCE):
        while line := await reader.readline():
            if line.startswith(b"data: "):
                times.append(time.perf_counter() - begin)
                lines.append(line)
                came(len(lines))
                if line.startswith(b"data: [DONE]"):
                    break
    writer.close()
    if b" 200 " not in status or not lines or b"[DONE]" not in lines[-1]:
        raise RuntimeError(f"No whole stream came: {status!r}, {lines[-1:]}")
    return _read(times, [json.loads(line.removeprefix(b"data: ")) for line in lines[:-1]])


def _read(times: Sequence[float], events: Sequence[Mapping[str, Any]]) -> Stream:
    """Pieces of text among the events, and the usage, which comes with the last."""
    pieces = [at for at, event in zip(times, events, strict=False) if event["choices"]]
    return Stream(pieces, events[-1]["usage"]["completion_tokens"])
