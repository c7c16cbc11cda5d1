"""Access: who may ask, and from which page. Everything is denied that is not allowed here.

Host      on this machine's own names alone, unless keys guard the server
Origin    none, or one that was named when the server started
key       Authorization: Bearer KEY, compared by its SHA-256 in constant time
"""

import hmac
import ipaddress
from collections.abc import Collection, Sequence
from contextlib import suppress
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from urllib.parse import urlsplit

from starlette.types import ASGIApp, Receive, Scope, Send

from glassformer.errors import ConfigError
from glassformer.serve.api.problems import ApiError

LOCAL = ("127.0.0.1", "localhost", "::1")
OPEN = ("/livez", "/readyz")
"""Paths that need no key."""
ONCE = ("host", "origin", "authorization", "content-length", "content-type")
"""Headers that decide; of two, another program may have read the other one."""
SHORTEST_KEY, LONGEST_KEY = 16, 512
VARIABLE = "GLASSFORMER_API_KEY"
"""The environment variable with a key."""
HASHED = "sha256:"
"""Beginning of a key of which a file has the hash alone, in hexadecimal."""
ALLOWED = {
    "Access-Control-Allow-Methods": "GET, POST",
    "Access-Control-Allow-Headers": "authorization, content-type, x-request-id",
    "Access-Control-Max-Age": "600",
}


@dataclass(frozen=True)
class Rules:
    """Who may ask. `keys`: SHA-256 of each; none: everyone who reaches the server."""

    host: str = LOCAL[0]
    keys: tuple[bytes, ...] = ()
    origins: tuple[str, ...] = ()
    hosts: tuple[str, ...] = ()
    """Names of this server beside its own, such as a proxy's."""

    @property
    def local(self) -> bool:
        """Whether only this machine reaches the server."""
        return is_local(self.host)

    def check_host(self, host: str) -> None:
        """Raise ApiError 403 for another server's name: a page whose name was made to point here
        (DNS rebinding)."""
        if self.keys:
            return
        try:
            name = urlsplit(f"//{host}").hostname or ""
        except ValueError:
            name = ""
        known = name in (*LOCAL, self.host, *self.hosts)
        with suppress(ValueError):
            known = known or (not self.local and bool(ipaddress.ip_address(name)))
        if not known:
            raise ApiError(
                403, f"The server has no name {host[:100]!r}; add it by --allow-host.", "host"
            )

    def check_origin(self, origin: str | None) -> None:
        """Raise ApiError 403 for a page of another site."""
        if origin is not None and origin not in self.origins:
            raise ApiError(
                403, f"A page of {origin[:100]!r} may not ask here; see --cors-origin.", "origin"
            )

    def check_key(self, authorization: str | None) -> bytes:
        """The key's hash; b"": none is needed. ApiError 401: no known key."""
        if not self.keys:
            return b""
        scheme, _, key = (authorization or "").partition(" ")
        given = sha256(key.strip().encode("utf-8", "replace")).digest()
        found = [hmac.compare_digest(given, own) for own in self.keys]  # all, in constant time
        if scheme.lower() != "bearer" or not any(found):
            raise ApiError(
                401,
                "The request has no known API key; send Authorization: Bearer KEY.",
                code="invalid_api_key",
                headers={"WWW-Authenticate": "Bearer"},
            )
        return given


class Access:
    """ASGI middleware that lets through what `rules` allow; the rest is an ApiError."""

    def __init__(self, app: ASGIApp, rules: Rules, most: int):
        self.app, self.rules, self.most = app, rules, most

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """See ASGI."""
        held, rules = single(scope, ONCE, self.most), self.rules
        origin = held.get("origin")
        rules.check_host(held.get("host", ""))
        rules.check_origin(origin)
        if origin is not None:
            scope["facts"].headers |= {"Access-Control-Allow-Origin": origin, "Vary": "Origin"}
        if scope["method"] == "OPTIONS" and origin is not None:
            scope["facts"].headers |= ALLOWED
            await send({"type": "http.response.start", "status": 204, "headers": []})
            await send({"type": "http.response.body", "body": b""})
            return
        if scope["path"] not in OPEN:
            scope["facts"].key = rules.check_key(held.get("authorization"))
            keep(scope)
        await self.app(scope, receive, send)


def single(scope: Scope, once: Collection[str], most: int) -> dict[str, str]:
    """The header fields of a request by name; ApiError 431: more than `most` bytes, 400: one of
    `once` is there twice."""
    headers: Sequence[tuple[bytes, bytes]] = scope["headers"]
    if sum(len(name) + len(value) for name, value in headers) > most:
        raise ApiError(431, f"The header fields have more than {most} bytes.")
    found = [(name.decode("latin-1"), value.decode("latin-1")) for name, value in headers]
    names = [name for name, _ in found]
    if twice := [name for name in once if names.count(name) > 1]:
        raise ApiError(400, f"The header {twice[0]} is there twice; send it once.")
    return dict(found)


def keep(scope: Scope) -> None:
    """Keep the connection of a request whose client may ask; those of strangers end before it."""
    scope.get("extensions", {}).get("connection", {})["is_known"] = True


def is_local(host: str) -> bool:
    """Whether an address is of this machine alone."""
    with suppress(ValueError):
        return ipaddress.ip_address(host).is_loopback
    return host in LOCAL


def keys_of(file: Path | None, variable: str | None) -> tuple[bytes, ...]:
    """The hashes of the keys in a file, one a line (or its `sha256:HEX`), and in an environment
    variable's value. ConfigError: a key that is too short, or no hash."""
    lines = [] if variable is None else [variable]
    if file is not None:
        try:
            lines += file.read_text(encoding="utf-8").splitlines()
        except (OSError, UnicodeDecodeError) as error:
            raise ConfigError(f"{file} cannot be read ({error}); give a file of keys.") from None
    keys = [line.strip() for line in lines]
    found = tuple(map(_hashed, (key for key in keys if key and not key.startswith("#"))))
    if file is not None and not found:
        raise ConfigError(f"{file} has no key; write one a line.")
    return found


def _hashed(key: str) -> bytes:
    if key.startswith(HASHED):
        with suppress(ValueError):
            if len(digest := bytes.fromhex(key.removeprefix(HASHED))) == sha256().digest_size:
                return digest
        raise ConfigError(f"An API key begins with {HASHED!r} and is no hash; give 64 hex digits.")
    if not SHORTEST_KEY <= len(key) <= LONGEST_KEY:
        raise ConfigError(
            f"An API key has {len(key)} characters; give {SHORTEST_KEY} to {LONGEST_KEY}."
        )
    return sha256(key.encode()).digest()
