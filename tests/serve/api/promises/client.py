"""A client of the server on real sockets: one connection, read strictly, left at any moment."""

import asyncio
import json
import socket
import struct
from collections.abc import AsyncIterator, Coroutine
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, TypeVar

Answer = TypeVar("Answer")
COMPLETIONS, CHAT = "/v1/completions", "/v1/chat/completions"
PATIENCE = 120.0
"""Seconds after which a read has failed: a deadline of the test, not of the server."""


class Cut(Exception):
    """The connection ended before the reply did."""


@dataclass
class Reply:
    """A reply; `whole`: it came to its end."""

    status: int
    headers: dict[str, str]
    body: bytes = b""
    whole: bool = False
    times: list[float] = field(default_factory=list)

    @property
    def json(self) -> Any:
        return json.loads(self.body)


class Connection:
    """One connection; several requests one after the other."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter):
        self.reader, self.writer = reader, writer

    @classmethod
    async def open(cls, port: int) -> "Connection":
        made = cls(*await asyncio.open_connection("127.0.0.1", port, limit=1 << 22))
        OPENED.append(made)
        return made

    def send(self, method: str, path: str, fields: Any = None, headers: Any = ()) -> None:
        """A request whose body is JSON of these fields, or these bytes."""
        body = fields if isinstance(fields, bytes) else json.dumps(fields).encode()
        body = b"" if fields is None else body
        lines = [f"{method} {path} HTTP/1.1", "host: localhost"]
        lines += [] if fields is None else ["content-type: application/json"]
        lines += [f"content-length: {len(body)}", *headers, "", ""]
        self.writer.write("\r\n".join(lines).encode("latin-1") + body)

    async def head(self) -> Reply:
        """Status and headers. Cut: none came."""
        try:
            async with asyncio.timeout(PATIENCE):
                raw = await self.reader.readuntil(b"\r\n\r\n")
        except (asyncio.IncompleteReadError, ConnectionError):
            raise Cut from None
        first, *rest = raw.decode("latin-1").split("\r\n")[:-2]
        pairs = (line.partition(":") for line in rest)
        return Reply(int(first.split()[1]), {n.lower(): v.strip() for n, _, v in pairs})

    async def pieces(self, head: Reply) -> AsyncIterator[bytes]:
        """The body, as it comes. Cut: it has no end."""
        try:
            async with asyncio.timeout(PATIENCE):
                if head.headers.get("transfer-encoding") != "chunked":
                    yield await self.reader.readexactly(int(head.headers["content-length"]))
                    return
                while size := int(await self.reader.readline() or b"x", 16):
                    yield (await self.reader.readexactly(size + 2))[:-2]
                await self.reader.readline()
        except (asyncio.IncompleteReadError, ConnectionError, ValueError):
            raise Cut from None

    async def reply(self) -> Reply:
        """The whole reply, or what came of it."""
        got, clock = await self.head(), asyncio.get_running_loop().time
        try:
            async for piece in self.pieces(got):
                got.body += piece
                got.times.append(clock())
            got.whole = True
        except Cut:
            pass
        return got

    async def ask(self, *request: Any) -> Reply:
        self.send(*request)
        return await self.reply()

    def reset(self) -> None:
        """Leave with a RST."""
        own = self.writer.get_extra_info("socket")
        own.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.writer.transport.abort()

    def close(self) -> None:
        self.writer.close()


OPENED = list[Connection]()


def run(work: Coroutine[Any, Any, Answer]) -> Answer:
    """The result of a coroutine; its connections are closed behind it."""

    async def closing() -> Answer:
        try:
            return await work
        finally:
            for one in OPENED:
                one.close()
            waits = (one.writer.wait_closed() for one in OPENED)
            await asyncio.gather(*waits, return_exceptions=True)
            OPENED.clear()

    return asyncio.run(closing())


async def ask(port: int, *request: Any) -> Reply:
    """One request on a connection of its own. Cut: there was no reply."""
    one = await Connection.open(port)
    try:
        return await one.ask(*request)
    finally:
        one.close()
        OPENED.remove(one)
        with suppress(ConnectionError):
            await one.writer.wait_closed()


async def pause(seconds: float) -> float:
    """Come again after a while; returns by how much the client itself was late, in seconds."""
    clock = asyncio.get_running_loop().time
    until = clock() + seconds
    with suppress(TimeoutError):
        async with asyncio.timeout(seconds):
            await asyncio.Event().wait()
    return clock() - until


def strict(text: str) -> Any:
    """JSON without NaN, as JavaScript reads it."""

    def refuse(name: str) -> Any:
        raise ValueError(f"{name} is no JSON")

    return json.loads(text, parse_constant=refuse)


def events(reply: Reply) -> list[Any]:
    """The events of a stream, which must have been whole and end as clients expect it."""
    assert reply.status == 200, reply.body
    assert reply.whole
    assert reply.headers["content-type"].startswith("text/event-stream")
    *parts, last, rest = reply.body.decode("ascii").split("\n\n")
    assert (last, rest) == ("data: [DONE]", ""), reply.body[-300:]
    parts = [part for part in parts if not part.startswith(":")]
    assert all(part.startswith("data: ") and "\n" not in part for part in parts)
    return [strict(part.removeprefix("data: ")) for part in parts]


def stream(reply: Reply, n: int = 1, usage: bool = False) -> list[tuple[str, str]]:
    """The texts of a stream and why each ended: one id, the role first, each choice finished once
    and nothing behind it, usage last."""
    found = events(reply)
    if usage:
        *found, last = found
        assert (last["choices"], last["usage"]["completion_tokens"] > 0) == ([], True)
    assert len({(one["id"], one["object"], one["created"], one["model"]) for one in found}) == 1
    texts, ends = [""] * n, [""] * n
    begun = set()
    for one in found:
        for choice in one["choices"]:
            index = choice["index"]
            assert not ends[index], "nothing comes behind the end"
            if "delta" in choice:
                assert ("role" in choice["delta"]) == (index not in begun)
            begun.add(index)
            texts[index] += choice.get("text") or choice.get("delta", {}).get("content") or ""
            ends[index] = choice["finish_reason"] or ""
    assert all(end in ("stop", "length") for end in ends)
    return list(zip(texts, ends, strict=True))


def ended_in_error(reply: Reply) -> bool:
    """Whether a reply says that it is no whole one: a status, an error event, a cut connection."""
    if reply.status != 200 or not reply.whole:
        return True
    if reply.headers["content-type"] == "application/json":
        return False
    parts = reply.body.decode().split("\n\n")
    return "[DONE]" not in parts[-2] and '"error"' in parts[-2]
