"""Counters, gauges and histograms for Prometheus, with labels of closed sets."""

from collections.abc import Callable
from typing import Any

from prometheus_client import (
    CollectorRegistry,
    Counter,
    Gauge,
    Histogram,
    Info,
    ProcessCollector,
    disable_created_metrics,
)

from glassformer import __version__

SECONDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0)
"""Upper bounds of a histogram's buckets."""


class Metrics:
    """The counts of one server; `registry` has all of them."""

    def __init__(self) -> None:
        disable_created_metrics()  # a second series for each
        self.registry = CollectorRegistry()
        self._common: dict[str, Any] = {"namespace": "glassformer", "registry": self.registry}
        self.requests = self._counter("requests", "Requests by route and status.", "route", "code")
        self.prompt_tokens = self._counter("prompt_tokens", "Tokens that were read.")
        self.generated_tokens = self._counter("generated_tokens", "Tokens that were generated.")
        self.prefix_hits = self._counter(
            "prefix_hits", "Pages of prompts that were known from other prompts."
        )
        self._hits = 0
        self.cancelled = self._counter("cancelled", "Requests whose client left.")
        self.rejected = self._counter("rejected", "Requests that were refused, by reason.", "why")
        self.e2e = self._histogram("e2e_seconds", "Seconds of a request.")
        self.ttft = self._histogram("ttft_seconds", "Seconds from a request to its first token.")
        self.inter_token = self._histogram("inter_token_seconds", "Seconds between two tokens.")
        Info("build", "Version of the server.", **self._common).info({"version": __version__})
        ProcessCollector(registry=self.registry)

    def _counter(self, name: str, about: str, *labels: str) -> Counter:
        return Counter(name, about, labels, **self._common)

    def _histogram(self, name: str, about: str) -> Histogram:
        return Histogram(name, about, buckets=SECONDS, **self._common)

    def count_hits(self, total: int) -> None:
        """Count the pages since the last call, of the engines' own count, which may begin again."""
        self.prefix_hits.inc(max(0, total - self._hits))
        self._hits = total

    def gauge(self, name: str, about: str, value: Callable[[], float]) -> None:
        """Add a gauge with the value of the moment when it is read."""
        Gauge(name, about, **self._common).set_function(value)
