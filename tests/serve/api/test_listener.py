"""Connections have the options of their listener: no waiting for acknowledgements, no client that
reads nothing."""

import http.client
import socket
import sys
import threading
import time
from contextlib import contextmanager

import pytest

from glassformer.serve.api.admission import Admission, Limits
from glassformer.serve.api.envelope import Log
from glassformer.serve.api.listener import Server, listening

REQUEST = b"GET / HTTP/1.1\r\nhost: a\r\n\r\n"


@contextmanager
def answering(app, **limits):
    limits = Limits(**limits)
    with listening("127.0.0.1", 0) as listener:
        calls = Admission(limits)
        with Server(app, listener, calls, Log(None)).beside():
            yield listener.getsockname()[1]


async def two_pieces(scope, receive, send):
    await send({"type": "http.response.start", "status": 200, "headers": []})
    await send({"type": "http.response.body", "body": b"a", "more_body": True})
    await send({"type": "http.response.body", "body": b"b"})


def test_a_reply_in_two_pieces_does_not_wait_for_an_acknowledgement():
    """With Nagle's algorithm, each takes 40 ms."""
    times = []
    with answering(two_pieces) as port:
        one = http.client.HTTPConnection("127.0.0.1", port, timeout=20)
        for _ in range(60):
            began = time.perf_counter()
            one.request("GET", "/")
            assert one.getresponse().read() == b"ab"
            times.append(time.perf_counter() - began)
        one.close()
    assert min(times[30:]) < 0.03


@pytest.mark.skipif(sys.platform != "linux", reason="an option of Linux")
def test_a_client_that_reads_nothing_is_cut(monkeypatch):
    monkeypatch.setattr(Limits, "send", 1)
    gone = threading.Event()

    async def large(scope, receive, send):
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": b"a" * (1 << 23), "more_body": True})
        while (await receive())["type"] != "http.disconnect":
            pass
        gone.set()

    with answering(large) as port, socket.socket() as client:
        client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 12)
        client.connect(("127.0.0.1", port))
        client.sendall(REQUEST)
        assert gone.wait(20)


def test_header_fields_without_an_end_are_refused():
    with answering(two_pieces) as port, socket.create_connection(("127.0.0.1", port), 20) as client:
        client.sendall(REQUEST[:-2] + b"a: b\r\n" * 20_000)
        assert client.recv(12) == b"HTTP/1.1 400"


def test_of_too_many_connections_a_request_is_refused():
    with answering(two_pieces, connections=3) as port:
        idle = [socket.create_connection(("127.0.0.1", port), 20) for _ in range(3)]
        one = http.client.HTTPConnection("127.0.0.1", port, timeout=20)
        one.request("GET", "/")
        assert one.getresponse().status == 503
        for client in idle:
            client.close()
        one.close()
