"""Cases that are requests over HTTP: [SERVER, PATH], [SERVER, PATH, BODY] or [..., HEADERS].

A request with a body is a POST, and a body of a text is sent as it is. A text `@FILE` in a body is
the content of the file as a data URL. A server whose address has a token sets a cookie, which is
sent with every request; a header of null is left out.
"""

import http.client
import json
import subprocess
from base64 import b64encode
from pathlib import Path
from tempfile import TemporaryFile
from typing import Any
from urllib.parse import urlsplit

from replies.plain import join_events, normalize, read_tensors, sha256
from replies.tree import start

SECONDS = 60
TYPES = {".png": "image/png", ".wav": "audio/wav"}
DROPPED = {"date", "content-length", "etag", "last-modified", "server", "connection"}
"""Headers that are not recorded: of the file system and of the connection."""


class Server:
    """A process that answers, started at its first request."""

    def __init__(self, arguments: list[str]):
        with TemporaryFile() as errors:
            self.process: subprocess.Popen[str] = start(arguments, errors)
            assert self.process.stdout is not None
            address = self.process.stdout.readline().strip()
            errors.seek(0)
            self.failure = "" if address else errors.read().decode("utf-8", "replace").strip()
        self.url = urlsplit(address)
        self.cookie: str | None = None
        if self.url.query:
            reply, _ = self.request(f"/?{self.url.query}")
            self.cookie = (reply.getheader("set-cookie") or "").partition(";")[0]

    def request(
        self, path: str, body: Any = None, headers: dict[str, str | None] | None = None
    ) -> tuple[http.client.HTTPResponse, bytes]:
        """Send one request; return the reply and its body."""
        if self.failure:
            raise ConnectionError(f"the server did not start: {self.failure}")
        own: dict[str, str | None] = {"Host": f"127.0.0.1:{self.url.port}", "X-Request-Id": "one"}
        own |= {"Cookie": self.cookie}
        data = None
        if body is not None:
            text = body if isinstance(body, str) else json.dumps(body)
            data = text.encode("utf-8", "surrogatepass")
            own |= {"Content-Type": "application/json", "Content-Length": str(len(data))}
        own |= headers or {}
        connection = http.client.HTTPConnection("127.0.0.1", self.url.port, timeout=SECONDS)
        try:
            method = "GET" if data is None else "POST"
            connection.putrequest(method, path, skip_host=True, skip_accept_encoding=True)
            for name, value in own.items():
                if value is not None:
                    connection.putheader(name, value)
            connection.endheaders(data)
            reply = connection.getresponse()
            return reply, reply.read()
        finally:
            connection.close()

    def close(self) -> None:
        """End the process."""
        self.process.terminate()
        self.process.communicate(timeout=SECONDS)


class Servers:
    """The servers of a group of cases by their names."""

    def __init__(self, commands: dict[str, str]):
        self.commands = commands
        self.started: dict[str, Server] = {}

    def find(self, name: str) -> Server:
        """The server of a name; the one before it is ended, so that there is only one."""
        if name not in self.started:
            self.close()
            self.started = {name: Server(self.commands[name].split())}
        return self.started[name]

    def close(self) -> None:
        """End all processes."""
        for one in self.started.values():
            one.close()
        self.started = {}


def reply_to_request(servers: Servers, case: list[Any]) -> dict[str, Any]:
    """The reply to a case: status, headers and body."""
    name, path, *rest = case
    body, headers = (*rest, None, None)[:2]
    reply, data = servers.find(name).request(path, with_files(body), headers)
    kept = {key.lower(): normalize(value) for key, value in reply.getheaders()}
    return {
        "ran": [name, path, body, headers],
        "status": reply.status,
        "headers": {key: kept[key] for key in sorted(kept.keys() - DROPPED)},
        "body": read_body(kept.get("content-type", ""), data),
    }


def with_files(value: Any) -> Any:
    """A value with the content of files in place of their names."""
    if isinstance(value, str) and value.startswith("@"):
        path = Path(value[1:])
        return f"data:{TYPES[path.suffix]};base64,{b64encode(path.read_bytes()).decode()}"
    if isinstance(value, dict):
        return {name: with_files(own) for name, own in value.items()}
    return [with_files(own) for own in value] if isinstance(value, list) else value


def read_body(kind: str, data: bytes) -> Any:
    """The body of a reply: a text, arrays by name, or a digest."""
    if kind.startswith("application/octet-stream"):
        return read_tensors(data)
    if kind.startswith("text/event-stream"):
        return join_events(normalize(data.decode()))
    if kind.startswith(("application/", "text/plain")):
        return normalize(data.decode("utf-8", "backslashreplace"))
    return {"sha256": sha256(data)}
