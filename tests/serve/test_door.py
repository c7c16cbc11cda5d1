"""The explorer with many clients: nobody holds up another, takes all the memory or all connections,
and SIGTERM lets those who are there finish."""

import asyncio
import http.client
import os
import signal
import socket
import sys
import threading
import time
import urllib.request
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import pytest

import glassformer as gf
from glassformer.serve.explorer import looks as looks_module
from glassformer.serve.explorer.handler import Explorer
from glassformer.serve.explorer.looks import ClientDisconnected, bytes_of
from glassformer.serve.explorer.routes import EXPLORING, Server
from processes import started
from serve.test_server import Client, refusal, served


def test_strangers_with_large_requests_take_no_memory(explorer_of, static):
    """Their requests are refused by their headers; what they send is read and forgotten."""
    with served(explorer_of("lm")) as server:
        client = Client(server)
        before = resident()
        body = b"x" * (8 << 20)

        def ask(_: int) -> int:
            return client("POST", "/api", body, Cookie=None)[0].status

        with ThreadPoolExecutor(8) as pool:
            assert set(pool.map(ask, range(16))) == {403}
        assert resident() - before < 64 << 20  # 128 MB were sent; the client holds one copy


def resident() -> int:
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * 4096


def test_looks_are_measured_once_and_bounded(run_folder, monkeypatch):
    lm = Explorer(gf.load(run_folder("lm")))  # one that has kept no looks of other tests
    measured: list[object] = []

    def counted(look):
        measured.append(look)
        return bytes_of(look)

    monkeypatch.setattr(looks_module, "bytes_of", counted)
    lm.handle({"op": "row", "look": {"input": "the cat"}, "layer": 0, "head": 0, "query": 1})
    room = 30 * bytes_of(next(iter(lm.looks._kept.values())))
    lm.looks.room = room
    for number in range(40):
        words = f"the cat sat {number}"
        lm.handle({"op": "row", "look": {"input": words}, "layer": 0, "head": 0, "query": 1})
        total = sum(map(bytes_of, lm.looks._kept.values()))
        assert total <= room
        assert lm.looks._sizes.keys() == lm.looks._kept.keys()
    assert len(lm.looks._kept) < 40, "the oldest are forgotten"
    assert len(measured) <= 41 * looks_module.LATEST  # of all that are kept: over 600


def test_sigterm_answers_who_is_there_and_takes_no_more(run_folder):
    command = [
        sys.executable,
        "-m",
        "glassformer",
        "inspect",
        str(run_folder("lm")),
        "--no-browser",
    ]
    with started([*command, "--port", "0"], text=True) as process:
        address = process.stdout.readline().strip()
        with urllib.request.urlopen(address, timeout=20) as page:
            assert page.status == 200
        process.send_signal(signal.SIGTERM)
        _, said = process.communicate(timeout=30)
    assert process.returncode == 0, said
    assert said.endswith("the explorer has ended\n")
    assert "Traceback" not in said


def test_who_comes_while_it_ends_is_refused(explorer_of, static):
    with served(explorer_of("lm")) as server:
        server.calls.draining = True
        assert "is ending" in refusal(*Client(server).api(op="model"), 503)
        assert "is ending" in refusal(*Client(server)("GET", "/"), 503)


@pytest.fixture
def own_loop():
    """No event loop runs in this thread: a browser's client leaves one behind."""
    others = asyncio._get_running_loop()
    asyncio._set_running_loop(None)
    yield
    asyncio._set_running_loop(others)


@pytest.mark.usefixtures("own_loop")
def test_a_second_sigterm_ends_at_once(explorer_of, static, monkeypatch):
    begun, ended = threading.Event(), threading.Event()

    def endless(self, request, gone):
        begun.set()
        while not gone():
            pass
        ended.set()
        raise ClientDisconnected

    def twice(client) -> None:
        with ThreadPoolExecutor(1) as pool:
            asked = pool.submit(client.api, op="model")
            assert begun.wait(20)
            os.kill(os.getpid(), signal.SIGTERM)
            while client("GET", "/")[0].status != 503:
                pass
            os.kill(os.getpid(), signal.SIGTERM)
            assert isinstance(asked.exception(20), OSError | http.client.HTTPException)

    monkeypatch.setattr(Explorer, "handle", endless)
    with Server(explorer_of("lm"), port=0) as server, ThreadPoolExecutor(1) as pool:
        client, begin = pool.submit(twice, Client(server)), time.monotonic()
        server.answer()
        client.result(20)
        assert ended.wait(20), "nothing is computed for those who are not answered"
        assert time.monotonic() - begin < EXPLORING.drain, "it would wait so long for the answer"


@pytest.mark.usefixtures("own_loop")
def test_the_end_of_the_drain_ends_whose_body_does_not_come(explorer_of, static):
    limits = replace(EXPLORING, drain=0.05)

    def half(server) -> bytes:
        client = Client(server)
        with socket.create_connection(("127.0.0.1", client.port), 20) as connection:
            head = (
                f"POST /api HTTP/1.1\r\nHost: 127.0.0.1:{client.port}\r\nCookie: {client.cookie}"
                "\r\nContent-Type: application/json\r\nContent-Length: 99\r\n\r\n{"
            )
            connection.sendall(head.encode())
            while not server.calls.weight:
                pass
            os.kill(os.getpid(), signal.SIGTERM)
            return connection.recv(100)

    lm = explorer_of("lm")
    with Server(lm, port=0, limits=limits) as server, ThreadPoolExecutor(1) as pool:
        answer = pool.submit(half, server)
        server.answer()
        assert answer.result(20).startswith(b"HTTP/1.1 503")
