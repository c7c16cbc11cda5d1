"""Access to the server.

Host      of a server without keys: only this machine's names (Starlette's TrustedHostMiddleware)
Origin    pages of named sites (Starlette's CORSMiddleware)
key       Authorization: Bearer KEY, compared by its SHA-256 in constant time
"""

import hmac
import ipaddress
import re
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path

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

    @property
    def local(self) -> bool:
        """Whether only this machine reaches the server."""
        return is_local(self.host)

    @property
    def names(self) -> list[str]:
        """Names that requests may give the server: a page whose name was made to point to this
        machine has another (DNS rebinding), and no key."""
        if self.keys or not self.local:
            return ["*"]
        return [*LOCAL, "[::1]", self.host, *self.hosts]

    def check_key(self, path: str, authorization: Sequence[str]) -> bytes:
        """Return the key's hash; b"": none is needed. ApiError 401: no known key."""
        if not self.keys or path in OPEN:
            return b""
        scheme, _, key = (authorization[0] if len(authorization) == 1 else "").partition(" ")
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


def is_local(host: str) -> bool:
    """Whether an address is of this machine alone."""
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
    return tuple(map(_hash, keys))


def _hash(key: str) -> bytes:
    if key.startswith(HASHED):
        if not re.fullmatch("[0-9a-fA-F]{64}", key[len(HASHED) :]):
            raise ConfigError(f"An API key begins with {HASHED!r}; give 64 hex digits after it.")
        return bytes.fromhex(key[len(HASHED) :])
    if len(key) < SHORTEST_KEY:
        raise ConfigError(f"An API key has {len(key)} characters; give at least {SHORTEST_KEY}.")
    return sha256(key.encode()).digest()
