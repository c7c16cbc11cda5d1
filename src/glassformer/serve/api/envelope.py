"""The outermost layer: a name for each request, its key, errors as replies, counts, and a line of
the log.

A line is JSON in ASCII without prompts, keys or addresses:

    {"time": "...", "request": "req-...", "method": "POST", "route": "/v1/completions", ...}
"""

import asyncio
import json
import re
import secrets
import sys
import time
import traceback
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any, TextIO

from prometheus_client import (
    CollectorRegistry,
    Counter,
    Histogram,
    Info,
    Metric,
    ProcessCollector,
    disable_created_metrics,
)
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from starlette.datastructures import Headers, MutableHeaders
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from glassformer import __version__
from glassformer.serve.api.access import OPEN, Rules
from glassformer.serve.api.admission import Admission
from glassformer.serve.api.engine_thread import EngineThread
from glassformer.serve.api.problems import problem

REQUEST_ID = re.compile(r"[A-Za-z0-9._-]{1,64}")
OTHER = "other"
"""A label for what is in no table: labels are of closed sets."""
GONE = 499
"""The status in the log where the client left."""
REJECTED = {429: "full", 503: "draining"}
"""Statuses of a request that the server has no room for, and the labels of their counts."""


SECONDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0)
"""Upper bounds of a histogram's buckets."""


class Metrics:
    """The counts of one server; `registry` has all of them."""

    def __init__(self, engine: EngineThread, calls: Admission) -> None:
        disable_created_metrics()  # a second series for each
        self.engine, self.calls, self.registry = engine, calls, CollectorRegistry()
        common: dict[str, Any] = {"namespace": "glassformer", "registry": self.registry}
        counter = partial(Counter, **common)
        histogram = partial(Histogram, buckets=SECONDS, **common)
        self.requests = counter("requests", "Requests by route and status.", ["route", "code"])
        self.prompt_tokens = counter("prompt_tokens", "Tokens that were read.")
        self.generated_tokens = counter("generated_tokens", "Tokens that were generated.")
        self.cancelled = counter("cancelled", "Requests whose client left.")
        self.rejected = counter("rejected", "Requests that were refused, by reason.", ["why"])
        self.e2e = histogram("e2e_seconds", "Seconds of a request.")
        self.ttft = histogram("ttft_seconds", "Seconds from a request to its first token.")
        self.inter_token = histogram("inter_token_seconds", "Seconds between two tokens.")
        Info("build", "Version of the server.", **common).info({"version": __version__})
        ProcessCollector(registry=self.registry)
        self.registry.register(self)

    def collect(self) -> Iterator[Metric]:
        """Yield what is read at the moment."""
        # first: the engine has given back the pages of a text that is not in its load
        load, counts = self.engine.load, self.engine.counts
        age = time.monotonic() - self.engine.beat
        for name, about, value in (
            ("engine_load", "Texts and batches of the thread that computes.", load),
            ("in_flight", "Requests that are being answered.", len(self.calls)),
            ("queue_depth", "Texts and batches that are not finished.", self.calls.weight),
            ("texts_running", "Texts that are being generated.", counts["running"]),
            ("texts_waiting", "Texts that wait for room in the cache.", counts["waiting"]),
            ("cache_pages", "Pages of keys and values.", counts["pages"]),
            ("cache_pages_free", "Those of them that are free.", counts["pages_free"]),
            ("engine_heartbeat_age_seconds", "Seconds since that thread read its queue.", age),
        ):
            yield GaugeMetricFamily(f"glassformer_{name}", about, value)
        yield CounterMetricFamily(
            "glassformer_prefix_hits",
            "Pages of prompts that were known from other prompts.",
            counts["prefix_hits"],
        )


class Door:
    """Paths with the same headers of replies and form of errors."""

    headers: Mapping[str, str] = {
        "X-Content-Type-Options": "nosniff",
        "Referrer-Policy": "no-referrer",
    }

    def is_open(self, scope: Scope) -> bool:
        """Whether a request needs no key."""
        return scope["path"] in OPEN

    def fail(self, error: BaseException) -> Response:
        """The reply of an error."""
        return problem(error).response()


API = Door()


@dataclass
class Facts:
    """Facts of a request for the log and the metrics, filled in while it is answered."""

    key: bytes = b""
    """Hash of the API key, of which the log has the beginning."""
    model: str = ""
    prompt_tokens: int = 0
    generated_tokens: int = 0
    status: int = 0
    error: BaseException | None = None


def facts_of(request: Request) -> Facts:
    """The facts of a request."""
    return request.scope["facts"]


class Log:
    """Lines of JSON on a stream; None: nothing is written."""

    def __init__(self, stream: TextIO | None = sys.stderr):
        self.stream = stream

    def write(self, **values: Any) -> None:
        """Write one line."""
        if self.stream is not None:
            now = datetime.now(UTC).isoformat(timespec="milliseconds")
            self.stream.write(json.dumps({"time": now, **values}) + "\n")
            self.stream.flush()


class Envelope:
    """ASGI middleware around everything; requests to `predictions`, paths of `calls`, are refused
    here if there is no room, where that costs a tenth of reading them."""

    def __init__(
        self,
        app: ASGIApp,
        metrics: Metrics,
        log: Log,
        calls: Admission,
        rules: Rules,
        predictions: Collection[str],
        door_of: Callable[[str], Door],
    ):
        self.app, self.metrics, self.log, self.limits = app, metrics, log, calls.limits
        self.calls, self.rules, self.predictions = calls, rules, predictions
        self.door_of = door_of

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """See ASGI."""
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        began, facts, left, gone = time.monotonic(), Facts(), self.limits.body, False
        door, given = self.door_of(scope["path"]), Headers(scope=scope).get("x-request-id", "")
        own = given if REQUEST_ID.fullmatch(given) else f"req-{secrets.token_hex(12)}"
        scope["facts"] = facts

        async def receiving() -> Message:
            nonlocal left, gone
            message = await receive()
            gone = message["type"] == "http.disconnect"
            left -= len(message.get("body", b""))
            if left < 0:
                raise HTTPException(413, self.limits.too_large)
            return message

        async def sending(message: Message) -> None:
            if message["type"] == "http.response.start":
                facts.status = message["status"]
                MutableHeaders(scope=message).update({**door.headers, "x-request-id": own})
            await send(message)

        try:
            if not door.is_open(scope):
                facts.key = self.rules.check(Request(scope))
            if scope["method"] == "POST" and scope["path"] in self.predictions:
                self.calls.check()
            await self.app(scope, receiving, sending)
        except asyncio.CancelledError:
            raise
        except BaseException as error:  # noqa: BLE001 - as libraries in other languages raise it
            if gone:
                reply = Response(status_code=GONE)
            else:
                facts.error, reply = error, door.fail(error)
                if facts.status:
                    raise ConnectionAbortedError from None  # a cut reply is no whole one
            await reply(scope, receiving, sending)
        finally:
            self._record(scope, facts, own, time.monotonic() - began)

    def _record(self, scope: Scope, facts: Facts, own: str, seconds: float) -> None:
        """Count the request and log it; of an unexpected error only the places, since its sentence
        may hold a prompt."""
        path = scope["path"] if scope["path"] in self.predictions else OTHER
        route = getattr(scope.get("route"), "path", path)
        self.metrics.requests.labels(route, str(facts.status)).inc()
        self.metrics.cancelled.inc(facts.status == GONE)
        if scope["method"] == "POST" and facts.status in REJECTED:
            self.metrics.rejected.labels(REJECTED[facts.status]).inc()
        self.metrics.prompt_tokens.inc(facts.prompt_tokens)
        self.metrics.generated_tokens.inc(facts.generated_tokens)
        self.metrics.e2e.observe(seconds)
        more: dict[str, Any] = {}
        if facts.error is not None:
            failure = problem(facts.error)
            more["error"] = type(facts.error).__name__
            if failure.status >= 500 and failure is not facts.error:
                frames = traceback.extract_tb(facts.error.__traceback__)[-12:]
                more["where"] = [f"{Path(f.filename).name}:{f.lineno} {f.name}" for f in frames]
        self.log.write(
            request=own,
            method=scope["method"][:8],
            route=route,
            status=facts.status,
            seconds=round(seconds, 4),
            model=facts.model,
            key=facts.key.hex()[:8],
            prompt_tokens=facts.prompt_tokens,
            generated_tokens=facts.generated_tokens,
            **more,
        )
