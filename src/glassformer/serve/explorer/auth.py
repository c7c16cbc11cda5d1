"""Who may ask: only pages that this server itself has sent, on this machine, by somebody who has
the token.

    the address with the token ──> a cookie that no script can read and no other site's page sends
                                   along
    every request              ──> is it meant for this server (Host)? does it come from its own
                                   page (Origin)?

The first keeps other users of the machine out, the second other sites' pages, and names that were
made to point here (DNS rebinding).
"""

import hmac
import ipaddress
import secrets
import socket
from email.message import Message
from http.cookies import CookieError, SimpleCookie
from urllib.parse import urlsplit

LOCAL = ("127.0.0.1", "localhost", "::1")
ANYWHERE = ("0.0.0.0", "::", "")
POLICY = {
    "default-src": "'self'",
    "script-src": "'self' blob:",
    "worker-src": "'self' blob:",
    "img-src": "'self' blob: data:",
    "connect-src": "'self'",
    "object-src": "'none'",
    "base-uri": "'none'",
    "form-action": "'none'",
    "frame-ancestors": "'none'",
}
HEADERS = {
    "Content-Security-Policy": "; ".join(f"{what} {where}" for what, where in POLICY.items()),
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
}
"""Of every answer."""


class Guard:
    """The token of a server at `host`:`port`, and what it lets in."""

    def __init__(self, host: str, port: int):
        self.host, self.port = host, port
        self.token = secrets.token_urlsafe(24)
        self.cookie = f"glassformer-{port}"
        """Cookies know no ports: two explorers on one machine must not take each other's."""

    @property
    def address(self) -> str:
        """Where the explorer is opened, token included."""
        shown = self.host if self.host not in ANYWHERE else "127.0.0.1"
        return f"http://{f'[{shown}]' if ':' in shown else shown}:{self.port}/?token={self.token}"

    def meant(self, headers: Message) -> bool:
        """Whether the request was sent to this server by one of its own names."""
        return self._own(f"//{headers.get('Host', '')}")

    def own_page(self, headers: Message) -> bool:
        """Whether no page of another site sent it."""
        origin = headers.get("Origin")
        if headers.get("Sec-Fetch-Site", "same-origin") not in ("same-origin", "none"):
            return False
        return origin is None or (origin.startswith("http://") and self._own(origin))

    def admitted(self, headers: Message) -> bool:
        """Whether the cookie holds the token."""
        try:
            held = SimpleCookie(headers.get("Cookie", "")).get(self.cookie)
        except CookieError:
            return False
        return held is not None and self.right(held.value)

    def right(self, token: str) -> bool:
        """Whether this is the token; how long that takes does not tell how much of it is right."""
        return hmac.compare_digest(token.encode("utf-8", "replace"), self.token.encode())

    @property
    def set_cookie(self) -> str:
        """What the browser is told to keep."""
        return f"{self.cookie}={self.token}; HttpOnly; SameSite=Strict; Path=/"

    def _own(self, address: str) -> bool:
        try:
            parts = urlsplit(address)
            name, port = parts.hostname or "", parts.port or 80
        except ValueError:
            return False
        if port != self.port:
            return False
        if name in LOCAL or name == self.host:
            return True
        # Behind an address for everybody, others come by this machine's name or number: a number
        # cannot be rebound.
        return self.host in ANYWHERE and (name == socket.gethostname().lower() or _is_number(name))


def _is_number(name: str) -> bool:
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True
