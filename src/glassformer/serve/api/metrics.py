"""Counters, gauges and histograms for Prometheus, with labels of closed sets."""

import time
from collections.abc import Iterator
from functools import partial
from typing import Any

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

from glassformer import __version__
from glassformer.serve.api.admission import Admission
from glassformer.serve.api.engine_thread import EngineThread

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
