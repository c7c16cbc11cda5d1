"""Access to the server.

Host      of a server without keys, or with a cookie: only this machine's names (Starlette's
          TrustedHostMiddleware)
Origin    pages of named sites (Starlette's CORSMiddleware)
key       Authorization: Bearer KEY, or a cookie that its own pages send; compared by its SHA-256 in
          constant time
"""

import hmac
import ipaddress
import re
from contextlib import suppress
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path

from starlette.requests import Request

from glassformer.core.errors import ConfigError
from glassformer.serve.api.problems import ApiError

LOCAL = ("127.0.0.1", "localhost", "::1")
OPEN = ("/livez", "/readyz")
"""Paths that need no key."""
SHORTEST_KEY, HASHED = 16, "sha256:"
VARIABLE = "GLASSFORMER_API_KEY"
"""The environment variable with a key."""


@dataclass(frozen=True)
class Rules:
    """Rules of access. `keys`: SHA-256 of each; none: everybody who reaches the server."""

    host: str = LOCAL[0]
    keys: tuple[bytes, ...] = ()
    origins: tuple[str, ...] = ()
    hosts: tuple[str, ...] = ()
    """Names of this server beside its own, such as a proxy's."""
    cookie: str = ""
    """Name of the cookie in which pages of this server send a key."""

    @property
    def local(self) -> bool:
        """Whether only this machine reaches the server."""
        return is_local(self.host)

    @property
    def names(self) -> list[str]:
        """Names that requests may give the server: a page whose name was made to point to this
        machine has another (DNS rebinding), and no key."""
        if not self.local or (self.keys and not self.cookie):
            return ["*"]
        return [*LOCAL, "[::1]", self.host, *self.hosts]

    def check(self, request: Request) -> bytes:
        """Return the hash of a request's key; b"": none is needed. ApiError 401, 403: it has no
        known key, or a page of another site sent the cookie."""
        if not self.keys:
            return b""
        headers = request.headers
        given = headers.getlist("authorization")
        if self.cookie and not given:
            own = headers.get("origin") in (None, f"http://{headers.get('host')}")
            if not own or headers.get("sec-fetch-site", "none") not in ("same-origin", "none"):
                raise ApiError(
                    403, "A page of another site must not ask here; use the explorer's own."
                )
            if found := self.find(request.cookies.get(self.cookie, "")):
                return found
            raise ApiError(
                403,
                "This browser has no token yet; open the address that `glassformer inspect` "
                "printed, then this link again.",
            )
        scheme, _, key = (given[0] if len(given) == 1 else "").partition(" ")
        if scheme.lower() == "bearer" and (found := self.find(key.strip())):
            return found
        raise ApiError(
            401,
            "The request has no known API key; send Authorization: Bearer KEY.",
            code="invalid_api_key",
            headers={"WWW-Authenticate": "Bearer"},
        )

    def find(self, key: str) -> bytes:
        """Return the hash of a known key; b"": it is none."""
        given = hash_of(key)
        found = [hmac.compare_digest(given, own) for own in self.keys]  # all, in constant time
        return given if any(found) else b""


def hash_of(key: str) -> bytes:
    """Return the hash by which a key is known."""
    return sha256(key.encode("utf-8", "replace")).digest()


def is_local(host: str) -> bool:
    """Whether an address is of this machine only."""
    with suppress(ValueError):
        return ipaddress.ip_address(host).is_loopback
    return host in LOCAL


def keys_of(file: Path | None, variable: str | None) -> tuple[bytes, ...]:
    """Return the hashes of the keys in a file, one a line (or its `sha256:HEX`), and in an
    environment variable's value.

    ConfigError: a key that is too short or no hash, a file without one.
    """
    lines = [] if variable is None else [variable]
    if file is not None:
        try:
            lines += file.read_text(encoding="utf-8").splitlines()
        except (OSError, UnicodeDecodeError) as error:
            raise ConfigError(f"{file} cannot be read ({error}); give a file of keys.") from None
    keys = [key for line in lines if (key := line.strip()) and not key.startswith("#")]
    if file is not None and not keys:
        raise ConfigError(f"{file} has no key; write one a line.")
    return tuple(map(_read_hash, keys))


def _read_hash(key: str) -> bytes:
    if key.startswith(HASHED):
        if not re.fullmatch("[0-9a-fA-F]{64}", key[len(HASHED) :]):
            raise ConfigError(f"An API key begins with {HASHED!r}; give 64 hex digits after it.")
        return bytes.fromhex(key[len(HASHED) :])
    if len(key) < SHORTEST_KEY:
        raise ConfigError(f"An API key has {len(key)} characters; give at least {SHORTEST_KEY}.")
    return hash_of(key)
