"""E4: readers that stall, headers and bodies that never end, requests in a row, behind nginx with
the configuration of docs/serving.md."""

import asyncio
import json
import re
import select
import shutil
import socket
import subprocess
from contextlib import contextmanager
from pathlib import Path
from statistics import median, quantiles
from types import SimpleNamespace

import pytest

from .client import COMPLETIONS, Connection, pause, run, stream

pytestmark = [pytest.mark.slow, pytest.mark.serving]
N_EACH, N_USUAL = 100, 1000
LIMITS = {"queue": 1000}
DOCUMENTED = Path(__file__).parents[4] / "docs" / "serving.md"
NGINX = shutil.which("nginx") or shutil.which("nginx", path="/usr/sbin")


def is_open(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


@contextmanager
def proxied(server, folder):
    """The server behind nginx: its port is the proxy's."""
    (text,) = re.findall(
        r"```text\n(worker_rlimit.*?)```", DOCUMENTED.read_text("utf-8"), re.DOTALL
    )
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    # the system would keep a whole reply for who does not read it
    text = text.replace("listen 8000;", f"listen 127.0.0.1:{port} sndbuf=16k;")
    text = text.replace("127.0.0.1:8001", f"127.0.0.1:{server.port}")
    text = text.replace("        server 127.0.0.1:8002;\n", "")
    kinds = ("client_body", "proxy", "fastcgi", "uwsgi", "scgi")
    own = "".join(f"{kind}_temp_path {folder}/{kind};\n" for kind in kinds)
    text = text.replace("http {\n", f"http {{\naccess_log off; keepalive_requests 1000000;\n{own}")
    folder.mkdir()
    config, log = folder / "nginx.conf", folder / "error.log"
    config.write_text(f"daemon off; master_process off; pid {folder}/pid; error_log {log};\n{text}")
    with subprocess.Popen([NGINX, "-p", folder, "-c", config, "-e", log]) as process:
        try:
            while not is_open(port):
                assert process.poll() is None, log.read_text()
            yield SimpleNamespace(
                port=port,
                long=server.long,
                numbers=server.numbers,
                idle=server.idle,
                process=process,
                server=server,
            )
        finally:
            process.terminate()


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


KINDS = [half_header, later_half_header, half_body, endless_chunks, pipelined]


async def stalled_reader(server, number: int) -> socket.socket:
    """Asks for more than the system keeps for it, every other one as a stream, and reads none."""
    own = socket.socket()
    own.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    own.connect(("127.0.0.1", server.port))
    fields = {**server.long, "prompt": "a", "max_tokens": 150, "logprobs": 20}
    body = json.dumps(fields | {"stream": number % 2 == 0}).encode()
    own.sendall((HALF + f"content-length: {len(body)}\r\n\r\n").encode() + body)
    return own


async def usual(servers, until=None):
    """Milliseconds to the first token of a normal client's requests, of two servers in turn."""
    clock, found = asyncio.get_running_loop().time, ([], [])
    ones = [await Connection.open(server.port) for server in servers]
    while len(found[0]) < N_USUAL or (until is not None and not until.done()):
        for one, server, times in zip(ones, servers, found, strict=True):
            began = clock()
            fields = {**server.long, "prompt": "the cat", "max_tokens": 3, "stream": True}
            reply = await one.ask("POST", COMPLETIONS, fields)
            stream(reply)
            times.append(1000 * (reply.times[0] - began))
    for one in ones:
        one.close()
    return found


async def beside_senders(server, other):
    """What a normal client sees beside those that stall in sending, and what these are told."""
    tasks = [asyncio.ensure_future(kind(server)) for kind in KINDS for _ in range(N_EACH)]
    together = asyncio.gather(*tasks)
    found = await usual((server, other), together)
    return found, [one[:12] for one in await together]


async def beside_readers(server, other):
    """What a normal client sees beside those that stall in reading; at the end they are cut, and
    nothing is kept for them."""
    n_files = server.server.n_files
    sockets = [await stalled_reader(server, number) for number in range(2 * N_EACH)]
    async with asyncio.timeout(120):
        while (await server.numbers())["engine_load"]:  # what they asked for is computed
            await pause(0.5)
    found = await usual((server, other))
    async with asyncio.timeout(180):
        await server.idle()
        while server.server.n_files > n_files or not all(map(is_cut, sockets)):
            await pause(0.5)
    for one in sockets:
        one.close()
    return found


def is_cut(own: socket.socket) -> bool:
    """Whether the other end has reset a connection."""
    poll = select.poll()
    poll.register(own, 0)
    return bool(poll.poll(0))


@pytest.mark.skipif(NGINX is None, reason="nginx is not installed: apt-get install nginx-light")
def test_what_stalls_is_cut_and_others_do_not_notice(serve, table, tmp_path):
    """E4; quick: tests/serve/api/test_listener.py, and test_refusals.py for bodies.

    A second server at which nobody stalls is asked in turn: the noise of the same moment.
    """

    async def all_of(*servers):
        await usual(servers)
        senders, replies = await beside_senders(*servers)
        readers = await beside_readers(*servers)
        return senders, readers, replies

    with (
        serve("--threads", 1, limits=LIMITS) as own,
        serve("--threads", 1) as other,
        proxied(own, tmp_path / "stalled") as server,
        proxied(other, tmp_path / "usual") as beside,
    ):
        *times, replies = run(all_of(server, beside))
        n_files = own.n_files
    slower = [median(own) / median(usually) for own, usually in times]
    p99 = [quantiles(own, n=100)[-1] for both in times for own in both]
    table(
        "E4",
        f"nginx, {N_EACH} each of {len(KINDS)} kinds of senders and 2 of readers that stall: all cut; first "
        f"token of others: median {slower[0]:.2f} and {slower[1]:.2f} times that of a server without "
        f"them, p99 {p99[0]:.1f} and {p99[2]:.1f} ms, there {p99[1]:.1f} and {p99[3]:.1f}",
    )
    by_kind = [set(replies[i * N_EACH : (i + 1) * N_EACH]) for i in range(len(KINDS))]
    assert by_kind[2] <= {b"HTTP/1.1 408", b""}
    assert by_kind[3] <= {b"HTTP/1.1 413", b""}
    assert n_files < 60
    assert max(slower) < 1.2
