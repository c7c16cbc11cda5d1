"""E4: readers that stall, headers and bodies that never end, requests in a row."""

import asyncio
import json
import socket
from statistics import median, quantiles

import pytest

from .client import COMPLETIONS, Connection, run, stream

pytestmark = [pytest.mark.slow, pytest.mark.serving]
N_EACH, N_READERS = 100, 5
LIMITS = {"receive": 10.0, "send": 5.0, "queue": 1000}
"""Seconds until what stalls is cut; readers hold 16 texts each."""
HALF = f"POST {COMPLETIONS} HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n"


async def ended(one: Connection) -> bytes:
    """What came until the server closed the connection."""
    async with asyncio.timeout(60):
        try:
            return await one.reader.read()
        except ConnectionError:
            return b""


async def half_header(server) -> bytes:
    one = await Connection.open(server.port)
    one.writer.write(HALF[:-2].encode())
    return await ended(one)


async def later_half_header(server) -> bytes:
    one = await Connection.open(server.port)
    assert (await one.ask("GET", "/livez")).status == 200
    one.writer.write(HALF[:-2].encode())
    return await ended(one)


async def half_body(server) -> bytes:
    one = await Connection.open(server.port)
    one.writer.write((HALF + 'content-length: 99\r\n\r\n{"model"').encode())
    return await ended(one)


async def endless_chunks(server) -> bytes:
    one = await Connection.open(server.port)
    one.writer.write((HALF + "transfer-encoding: chunked\r\n\r\n").encode())
    try:
        while not one.writer.is_closing():
            one.writer.write(b"400\r\n" + b" " * 1024 + b"\r\n")
            await one.writer.drain()
            await asyncio.sleep(0)
            if one.reader._buffer:
                break
    except ConnectionError:
        pass
    return await ended(one)


async def pipelined(server) -> bytes:
    """Twenty requests in a row, all of which are answered."""
    one = await Connection.open(server.port)
    for _ in range(20):
        one.send("GET", "/livez")
    for _ in range(20):
        assert (await one.reply()).status == 200
    one.close()
    return b"HTTP/1.1 200"


async def stalled_reader(server) -> bytes:
    """Asks for some megabytes and reads none."""
    own = socket.create_connection(("127.0.0.1", server.port))
    own.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    fields = {**server.long, "prompt": ["a", "b"], "max_tokens": 450, "n": 8, "logprobs": 20}
    body = json.dumps(fields | {"stream": True}).encode()
    own.sendall((HALF + f"content-length: {len(body)}\r\n\r\n").encode() + body)
    return own


async def usual(server, n: int, until=None):
    """Seconds to the first token of a normal client's requests."""
    clock, found = asyncio.get_running_loop().time, []
    one = await Connection.open(server.port)
    while len(found) < n or (until is not None and not until.done()):
        began = clock()
        fields = {**server.long, "prompt": "the cat", "max_tokens": 3, "stream": True}
        reply = await one.ask("POST", COMPLETIONS, fields)
        stream(reply)
        found.append(reply.times[0] - began)
    return found


def test_what_stalls_is_cut_and_others_do_not_notice(serve, table):
    """E4; quick: tests/serve/api/test_protocol.py, and test_refusals.py for bodies."""
    kinds = [half_header, later_half_header, half_body, endless_chunks, pipelined]

    async def all_of(server):
        await usual(server, 20)
        before = await usual(server, 300)
        tasks = [asyncio.ensure_future(kind(server)) for kind in kinds for _ in range(N_EACH)]
        together = asyncio.gather(*tasks)
        beside = await usual(server, 300, together)
        replies = [one[:12] for one in await together]
        sockets = [await stalled_reader(server) for _ in range(N_READERS)]
        async with asyncio.timeout(60):
            while (await server.numbers())["in_flight"] < N_READERS:
                pass
        numbers = await server.idle()
        for one in sockets:
            one.close()
        await server.idle()
        return before, beside, replies, numbers["cancelled_total"]

    with serve("--threads", 1, limits=LIMITS) as server:
        before, beside, replies, cut = run(all_of(server))
        n_files = server.n_files
    slower = median(beside) / median(before)
    p99 = [1000 * quantiles(times, n=100)[-1] for times in (before, beside)]
    table(
        "E4",
        f"{N_EACH} each of {len(kinds)} kinds and {N_READERS} stalled readers: all cut; first token "
        f"of others: median {slower:.2f} times, p99 {p99[0]:.0f} to {p99[1]:.0f} ms",
    )
    assert cut >= N_READERS
    by_kind = [set(replies[i * N_EACH : (i + 1) * N_EACH]) for i in range(len(kinds))]
    assert by_kind[2] <= {b"HTTP/1.1 408", b""}
    assert by_kind[3] <= {b"HTTP/1.1 413", b""}
    assert n_files < 60
    assert slower < 20, "a stall, not noise"
