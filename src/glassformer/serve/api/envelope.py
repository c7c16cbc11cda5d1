"""The outermost layer: a name for each request, errors as replies, counts, and a line of the log.

A line is JSON in ASCII without prompts, keys or addresses:

    {"time": "...", "request": "req-...", "method": "POST", "route": "/v1/completions", ...}
"""

import json
import re
import secrets
import sys
import time
import traceback
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, TextIO

from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from glassformer.serve.api.metrics import Metrics
from glassformer.serve.api.problems import ClientGone, problem

REQUEST_ID = re.compile(r"[A-Za-z0-9._-]{1,64}")
METHODS = ("GET", "HEAD", "POST", "OPTIONS", "PUT", "PATCH", "DELETE")
HEADERS = {"X-Content-Type-Options": "nosniff", "Referrer-Policy": "no-referrer"}
"""Headers of every reply."""
OTHER = "other"
"""A label for what is in no table: labels are of closed sets."""
GONE = 499
"""The status in the log where the client left."""


@dataclass
class Facts:
    """What the log and the metrics say of a request, filled in while it is answered."""

    id: str
    began: float
    route: str = OTHER
    key: bytes = b""
    """Hash of the API key, of which the log has the beginning."""
    model: str = ""
    light: bool = False
    """Whether its body is small."""
    prompt_tokens: int = 0
    generated_tokens: int = 0
    status: int = 0
    error: BaseException | None = None
    headers: dict[str, str] = field(default_factory=dict)

    def failed(self, error: BaseException) -> None:
        """Keep an error for the log."""
        self.error = error


class Log:
    """Lines of JSON on a stream; None: nothing is written."""

    def __init__(self, stream: TextIO | None = sys.stderr):
        self.stream = stream

    def write(self, **values: Any) -> None:
        """One line."""
        if self.stream is not None:
            now = datetime.now(UTC).isoformat(timespec="milliseconds")
            self.stream.write(json.dumps({"time": now, **values}) + "\n")
            self.stream.flush()


class Envelope:
    """ASGI middleware around everything; `headers` are those of every reply, `failure` gives that
    of an error."""

    def __init__(
        self,
        app: ASGIApp,
        metrics: Metrics,
        log: Log,
        headers: Mapping[str, str] = HEADERS,
        failure: Callable[[Exception], Response] = lambda error: problem(error).response(),
    ):
        self.app, self.metrics, self.log = app, metrics, log
        self.headers, self.failure = headers, failure

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """See ASGI."""
        if scope["type"] != "http":
            return
        headers = dict(scope["headers"])
        given = headers.get(b"x-request-id", b"").decode("latin-1")
        own = given if REQUEST_ID.fullmatch(given) else f"req-{secrets.token_hex(12)}"
        facts = scope["facts"] = Facts(own, time.monotonic())

        async def sending(message: Message) -> None:
            if message["type"] == "http.response.start":
                facts.status = message["status"]
                more = {**self.headers, **facts.headers, "x-request-id": facts.id}
                raw = [(n.lower().encode(), v.encode("latin-1")) for n, v in more.items()]
                message = {**message, "headers": [*message["headers"], *raw]}
            await send(message)

        try:
            await self.app(scope, receive, sending)
        except ClientGone:
            self.metrics.count("cancelled_total")
            facts.status = GONE
        except Exception as error:  # noqa: BLE001 - nothing above this could answer
            facts.failed(error)
            if facts.status:
                raise ConnectionAbortedError from None  # a cut reply is no whole one
            await self.failure(error)(scope, receive, sending)
        finally:
            self._told(scope, facts)

    def _told(self, scope: Scope, facts: Facts) -> None:
        """Count the request and log it; of an unexpected error the places alone, since its
        sentence may hold a prompt."""
        method = scope["method"] if scope["method"] in METHODS else OTHER
        seconds = time.monotonic() - facts.began
        self.metrics.count("requests_total", labels=(facts.route, str(facts.status)))
        self.metrics.count("prompt_tokens_total", facts.prompt_tokens)
        self.metrics.count("generated_tokens_total", facts.generated_tokens)
        self.metrics.time("e2e_seconds", seconds)
        more: dict[str, Any] = {}
        if facts.error is not None:
            failure = problem(facts.error)
            more["error"] = type(facts.error).__name__
            if failure.status >= 500 and failure is not facts.error:
                frames = traceback.extract_tb(facts.error.__traceback__)[-12:]
                more["where"] = [f"{Path(f.filename).name}:{f.lineno} {f.name}" for f in frames]
        self.log.write(
            request=facts.id,
            method=method,
            route=facts.route,
            status=facts.status,
            seconds=round(seconds, 4),
            model=facts.model,
            key=facts.key.hex()[:8],
            prompt_tokens=facts.prompt_tokens,
            generated_tokens=facts.generated_tokens,
            **more,
        )
