"""Access to the server: only for its own pages, on this machine, with the token.

    the address with the token ──> a cookie that scripts cannot read and other sites cannot send
    every request              ──> addressed to this server (Host), sent by its own page (Origin)

The token keeps other users of the machine out. The other two checks keep out pages of other sites,
and names that were made to point here (DNS rebinding).
"""

import hmac
import ipaddress
import secrets
import socket
from collections.abc import Mapping
from contextlib import suppress
from http.cookies import CookieError, SimpleCookie
from urllib.parse import urlsplit

from starlette.datastructures import Headers
from starlette.types import Scope

from glassformer.serve.api.access import LOCAL
from glassformer.serve.api.listener import address_of
from glassformer.serve.api.problems import ApiError

ANYWHERE = ("0.0.0.0", "::", "")
HEADERS = {
    "Content-Security-Policy": "default-src 'self'; script-src 'self' blob:; worker-src 'self' "
    "blob:; img-src 'self' blob: data:; connect-src 'self'; object-src 'none'; base-uri 'none'; "
    "form-action 'none'; frame-ancestors 'none'",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
}
"""Headers of every answer."""
ONCE = ("host", "origin", "sec-fetch-site", "cookie", "content-length", "content-type")
"""Headers that decide; of two, another program may have read the other one."""


class Guard:
    """The token of a server at `host`:`port`, and the checks of its requests."""

    def __init__(self, host: str, port: int):
        self.host, self.port = host, port
        self.token = secrets.token_urlsafe(24)
        self.cookie = f"glassformer-{port}"
        """Cookies are shared by all ports of a machine, so their names must differ."""

    @property
    def address(self) -> str:
        """Address at which the explorer is opened, token included."""
        shown = self.host if self.host not in ANYWHERE else "127.0.0.1"
        return f"{address_of(shown, self.port)}/?token={self.token}"

    @property
    def set_cookie(self) -> str:
        """The header that stores the token in the browser."""
        return f"{self.cookie}={self.token}; HttpOnly; SameSite=Strict; Path=/"

    def check_host(self, headers: Mapping[str, str]) -> None:
        """Raise ApiError 403 for a request that names another server."""
        if not self._is_own(f"//{headers.get('host', '')}"):
            raise ApiError(
                403, "This address is not the explorer's own; open the one that it printed."
            )

    def check_token(self, token: str) -> None:
        """Raise ApiError 403 for a wrong token."""
        if not self._is_token(token):
            raise ApiError(403, "The token is not the one that was printed; open that address.")

    def check_page(self, headers: Mapping[str, str]) -> None:
        """Raise ApiError 403 for a request of another site's page, or without the cookie."""
        origin = headers.get("origin")
        own = origin is None or (origin.startswith("http://") and self._is_own(origin))
        if not own or headers.get("sec-fetch-site", "none") not in ("same-origin", "none"):
            raise ApiError(403, "A page of another site must not ask here; use the explorer's own.")
        try:
            held = SimpleCookie(headers.get("cookie", "")).get(self.cookie)
        except CookieError:
            held = None
        if held is None or not self._is_token(held.value):
            raise ApiError(
                403,
                "This browser has no token yet; open the address that `glassformer inspect` "
                "printed, then this link again.",
            )

    def _is_token(self, token: str) -> bool:
        """Compare in constant time, so that timing reveals nothing of the token."""
        return hmac.compare_digest(token.encode("utf-8", "replace"), self.token.encode())

    def _is_own(self, address: str) -> bool:
        try:
            parts = urlsplit(address)
            name, port = parts.hostname or "", parts.port or 80
        except ValueError:
            return False
        own = name in (*LOCAL, self.host)
        # A server for all addresses is also reached by this machine's name or IP address; an IP
        # address cannot be rebound.
        if self.host in ANYWHERE and not own:
            own = name == socket.gethostname().lower()
            with suppress(ValueError):
                own = bool(ipaddress.ip_address(name))
        return own and port == self.port


def single(scope: Scope) -> dict[str, str]:
    """The header fields of a request by name; ApiError 400: one of `ONCE` is there twice."""
    found = Headers(scope=scope)
    if twice := [name for name in ONCE if len(found.getlist(name)) > 1]:
        raise ApiError(400, f"The header {twice[0]} is there twice; send it once.")
    return dict(found)
