"""uvicorn's HTTP with limits for header fields, which it waits for without end and keeps whatever
their size, with limits for clients that do not read, and without Nagle's algorithm."""

import asyncio
import socket
from functools import partial
from typing import Any

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from glassformer.serve.api.limits import Limits

FULL = b"HTTP/1.1 503 Service Unavailable\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"
UNSENT = 1 << 16
"""Bytes of a reply that the system keeps for a client that does not read; else it is megabytes."""


class Protocol(HttpToolsProtocol):
    """A connection that is closed if a request's header fields do not come in time, or are more
    bytes than may be, or if its client does not read a reply."""

    def __init__(self, limits: Limits, **config: Any):
        super().__init__(**config)
        self.limits = limits
        self._bytes = self._requests = 0
        """Bytes of header fields that are not complete, about; requests whose fields were."""
        self.since, self.about = self.loop.time(), dict[object, object]()
        """`is_known`: the client has shown that it may ask; see `access.keep`."""
        self._late: asyncio.TimerHandle | None = None
        self._linger: asyncio.TimerHandle | None = None
        self._unread: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:
        """See `asyncio.Protocol`."""
        super().connection_made(transport)
        self._make_room()
        if (own := transport.get_extra_info("socket")) is not None:
            # asyncio does it for sockets that it made; without, a reply in two pieces takes 40 ms
            own.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            if hasattr(socket, "TCP_NOTSENT_LOWAT"):
                own.setsockopt(socket.IPPROTO_TCP, socket.TCP_NOTSENT_LOWAT, UNSENT)
        transport.set_write_buffer_limits(0)  # writing is paused while anything is not sent
        self._wait()

    def connection_lost(self, exc: Exception | None) -> None:
        """See `asyncio.Protocol`."""
        self._came()
        self._whole()
        self._taken()
        super().connection_lost(exc)

    def pause_writing(self) -> None:
        """The system takes no more of a reply."""
        super().pause_writing()
        self._watch(self.loop.time() + self.limits.deadline)

    def resume_writing(self) -> None:
        """It has taken all."""
        self._taken()
        super().resume_writing()

    def data_received(self, data: bytes) -> None:
        """See `asyncio.Protocol`."""
        before, waited = self._requests, self._late is not None
        super().data_received(data)
        incomplete = waited and self._requests == before
        self._bytes = self._bytes + len(data) if incomplete else 0
        if self._bytes > 2 * self.limits.headers:
            self.transport.close()

    def on_message_begin(self) -> None:
        """The first byte of a request."""
        super().on_message_begin()
        self.scope["extensions"] = {"connection": self.about}
        self._wait()

    def on_headers_complete(self) -> None:
        """The last byte of its header fields."""
        self._came()
        self._requests += 1
        super().on_headers_complete()

    def on_message_complete(self) -> None:
        """The last byte of its body."""
        self._whole()
        super().on_message_complete()

    def on_response_complete(self) -> None:
        """A reply was sent; a body that is still coming then is read for a while, so that the
        client sees the reply, and not to its end, which may never come."""
        unread = self.cycle.more_body and self.cycle.response_complete
        super().on_response_complete()
        if unread and self._linger is None and not self.transport.is_closing():
            self._linger = self.loop.call_later(self.limits.keep_alive, self.transport.close)

    def _make_room(self) -> None:
        """Of too many connections, end the oldest stranger's, or else this one."""
        there = [one for one in self.connections if not one.transport.is_closing()]
        if len(there) <= self.limits.connections:
            return
        ours = [one for one in there if isinstance(one, Protocol)]
        oldest = min(ours, key=lambda one: ("is_known" in one.about, one is self, one.since))
        if oldest is self:
            self.transport.write(FULL)
            self.transport.close()
        else:
            oldest.transport.abort()

    def _whole(self) -> None:
        if self._linger is not None:
            self._linger.cancel()
            self._linger = None

    def _wait(self) -> None:
        if self._late is None:
            self._late = self.loop.call_later(self.limits.receive, self._too_late)

    def _came(self) -> None:
        if self._late is not None:
            self._late.cancel()
            self._late = None

    def _watch(self, until: float) -> None:
        size = self.transport.get_write_buffer_size()
        self._unread = self.loop.call_later(self.limits.send, self._look, size, until)

    def _look(self, before: int, until: float) -> None:
        """Cut a client that has read nothing since, or is slower than any request may be; closing
        would wait for it."""
        if self.transport.get_write_buffer_size() >= before or self.loop.time() > until:
            self.transport.abort()
        else:
            self._watch(until)

    def _taken(self) -> None:
        if self._unread is not None:
            self._unread.cancel()
            self._unread = None

    def _too_late(self) -> None:
        self._late = None
        if not self._requests or self.cycle.response_complete:
            self.transport.close()
        else:  # fields of the next request, behind one that is being answered
            self._wait()


def protocol(limits: Limits) -> Any:
    """What uvicorn calls for each connection."""
    return partial(Protocol, limits)
