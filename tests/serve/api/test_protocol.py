"""Header fields that do not end are not waited for, nor kept; who does not read is cut."""

import asyncio
import socket
from contextlib import suppress
from dataclasses import replace
from types import SimpleNamespace

import pytest
import uvicorn
from uvicorn.server import ServerState

from glassformer.serve.api.limits import Limits
from glassformer.serve.api.listener import listening
from glassformer.serve.api.protocol import protocol

REQUEST = b"GET / HTTP/1.1\r\nhost: a\r\n\r\n"


class Transport(SimpleNamespace):
    """What a protocol writes to, and whether it was closed."""

    def __init__(self):
        super().__init__(written=b"", closed=asyncio.Event(), unread=1000, reads=0)

    def get_extra_info(self, name, default=None):
        return default

    def write(self, data):
        self.written += data

    def is_closing(self):
        return self.closed.is_set()

    def close(self):
        self.closed.set()

    abort = close

    def set_write_buffer_limits(self, high):
        self.high = high

    def get_write_buffer_size(self):
        self.unread -= self.reads
        return self.unread

    def pause_reading(self):
        pass

    resume_reading = pause_reading


async def empty(scope, receive, send):
    await send({"type": "http.response.start", "status": 204, "headers": []})
    await send({"type": "http.response.body"})


def connected(app=empty, **limits):
    config = uvicorn.Config(app, lifespan="off", log_config=None)
    config.load()
    made = protocol(replace(Limits(), **limits))
    own, transport = made(config=config, server_state=ServerState(), app_state={}), Transport()
    own.connection_made(transport)
    return own, transport


@pytest.mark.parametrize("begins", [b"", REQUEST[:9], REQUEST[:-2], REQUEST + REQUEST[:-2]])
def test_fields_that_do_not_come_are_not_waited_for(begins):
    async def waited():
        own, transport = connected(receive=0.05)
        own.data_received(begins)
        async with asyncio.timeout(20):
            await transport.closed.wait()
        own.connection_lost(None)
        return transport.written

    assert asyncio.run(waited()).count(b"204") == begins.count(b"\r\n\r\n")


def test_a_body_that_comes_behind_its_reply_is_not_read_without_end():
    async def waited():
        own, transport = connected(keep_alive=0.05)
        own.data_received(b"POST / HTTP/1.1\r\ntransfer-encoding: chunked\r\n\r\n1\r\na\r\n")
        async with asyncio.timeout(20):
            while not transport.closed.is_set():
                own.data_received(b"1\r\na\r\n")
                await asyncio.sleep(0)
        own.connection_lost(None)
        return transport.written

    assert asyncio.run(waited()).count(b"204") == 1


def test_fields_without_an_end_are_not_kept():
    async def sent():
        own, transport = connected()
        own.data_received(REQUEST + REQUEST[:-2])
        n = 0
        while not transport.closed.is_set():
            own.data_received(b"a: b\r\n" * 200)
            n += 1
        own.connection_lost(None)
        return n

    assert asyncio.run(sent()) == 28  # of 1,200 bytes: twice 16 KiB


def test_large_bodies_and_many_requests_are_no_fields():
    async def sent():
        own, transport = connected(receive=20.0)
        body = b"POST / HTTP/1.1\r\ncontent-length: 100000\r\n\r\n" + b"a" * 100_000
        own.data_received(REQUEST[:9])
        own.data_received(REQUEST[9:] + body + REQUEST[:9])
        own.data_received(REQUEST[9:])
        for _ in range(20):
            await asyncio.sleep(0)
        assert not transport.closed.is_set()
        own.connection_lost(None)
        return transport.written

    assert asyncio.run(sent()).count(b"204") == 3


def test_a_reply_in_two_pieces_does_not_wait_for_an_acknowledgement():
    """A socket that asyncio did not make is left with Nagle's algorithm."""

    async def asked():
        own, _ = connected()
        with listening("127.0.0.1", 0) as listener:
            server = await asyncio.get_running_loop().create_server(lambda: own, sock=listener)
            _, writer = await asyncio.open_connection(*listener.getsockname())
            async with asyncio.timeout(20):
                while not isinstance(own.transport, asyncio.Transport):
                    await asyncio.sleep(0)
            accepted = own.transport.get_extra_info("socket")
            found = accepted.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)
            own.transport.close()
            writer.close()
            await writer.wait_closed()
            server.close()
        return found

    assert asyncio.run(asked())


@pytest.mark.parametrize(("reads", "deadline"), [(0, 300.0), (1, 0.05)])
def test_a_client_that_reads_nothing_or_too_slowly_is_cut(reads, deadline):
    async def waited():
        own, transport = connected(send=0.005, deadline=deadline)
        transport.reads = reads
        own.pause_writing()
        async with asyncio.timeout(20):
            await transport.closed.wait()
        own.connection_lost(None)

    asyncio.run(waited())


def test_a_client_that_reads_is_not_cut():
    async def read():
        own, transport = connected(send=0.001)
        transport.reads = 1
        own.pause_writing()
        async with asyncio.timeout(20):
            while transport.unread > 990:
                await asyncio.sleep(0)
        own.resume_writing()
        assert (own._unread, transport.closed.is_set()) == (None, False)
        own.connection_lost(None)

    asyncio.run(read())


def test_a_reply_that_nobody_reads_is_not_kept_by_the_system():
    """Of 8 MB, little is held for a client that reads nothing, and closing does not wait for it."""
    gone = asyncio.Event()

    async def large(scope, receive, send):
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": b"a" * (1 << 23), "more_body": True})
        while (await receive())["type"] != "http.disconnect":
            pass
        gone.set()

    async def came():
        own, _ = connected(large, send=0.05)
        loop, total = asyncio.get_running_loop(), 0
        with listening("127.0.0.1", 0) as listener, socket.socket() as client:
            client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 12)
            client.setblocking(False)
            server = await loop.create_server(lambda: own, sock=listener)
            await loop.sock_connect(client, listener.getsockname())
            await loop.sock_sendall(client, REQUEST)
            async with asyncio.timeout(20):
                await gone.wait()
                with suppress(ConnectionResetError):
                    while some := await loop.sock_recv(client, 1 << 16):
                        total += len(some)
            server.close()
        return total

    assert asyncio.run(came()) < 1 << (20 if hasattr(socket, "TCP_NOTSENT_LOWAT") else 23)
