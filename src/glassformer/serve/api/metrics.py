"""Counters, gauges and histograms in Prometheus' text format, with labels of closed sets."""

import os
from bisect import bisect_left
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

PREFIX = "glassformer_"
SECONDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0)
"""Upper bounds of a histogram's buckets."""
COUNTERS = {
    "requests_total": "Requests by route and status.",
    "prompt_tokens_total": "Tokens that were read.",
    "generated_tokens_total": "Tokens that were generated.",
    "prefix_hits_total": "Pages of prompts that were known from other prompts.",
    "cancelled_total": "Requests whose client left.",
    "rejected_total": "Requests that were not accepted, by the reason.",
}
HISTOGRAMS = {
    "e2e_seconds": "Seconds from a request's first byte to its answer's last.",
    "ttft_seconds": "Seconds from a request to its first token.",
    "inter_token_seconds": "Seconds between two tokens of a text.",
}
LABELS = {"requests_total": ("route", "code"), "rejected_total": ("why",)}


class Histogram:
    """Counts of values by their bucket, and their sum."""

    def __init__(self) -> None:
        self.counts, self.sum = [0] * (len(SECONDS) + 1), 0.0

    def add(self, value: float) -> None:
        """Count a value."""
        self.counts[bisect_left(SECONDS, value)] += 1
        self.sum += value

    def lines(self, name: str) -> Iterator[str]:
        """The buckets, each with those below it."""
        total = 0
        for bound, count in zip([*map(str, SECONDS), "+Inf"], self.counts, strict=True):
            total += count
            yield f'{name}_bucket{{le="{bound}"}} {total}'
        yield f"{name}_sum {self.sum:.6f}"
        yield f"{name}_count {total}"


class Metrics:
    """What the server has counted; used on the event loop alone."""

    def __init__(self) -> None:
        self._counts: dict[str, Counter[tuple[str, ...]]] = {name: Counter() for name in COUNTERS}
        self._seconds = {name: Histogram() for name in HISTOGRAMS}

    def count(self, name: str, n: int = 1, labels: Sequence[str] = ()) -> None:
        """Add to a counter; `labels`: values of `LABELS`, from a closed set."""
        self._counts[name][tuple(labels)] += n

    def value(self, name: str, labels: Sequence[str] = ()) -> int:
        """The present value of a counter."""
        return self._counts[name][tuple(labels)]

    def time(self, name: str, seconds: float) -> None:
        """Add to a histogram."""
        self._seconds[name].add(seconds)

    def text(self, gauges: Mapping[str, tuple[str, float]]) -> str:
        """All of them and `gauges`, each a sentence and a number, in the text format 0.0.4."""
        lines = list[str]()
        for name, about in COUNTERS.items():
            lines += _head(name, about, "counter")
            rows = self._counts[name] or Counter({(): 0} if name not in LABELS else {})
            for labels, value in sorted(rows.items()):
                named = zip(LABELS.get(name, ()), labels, strict=True)
                shown = ",".join(f'{label}="{one}"' for label, one in named)
                lines.append(f"{PREFIX}{name}{f'{{{shown}}}' if shown else ''} {value}")
        for name, about in HISTOGRAMS.items():
            lines += _head(name, about, "histogram")
            lines += self._seconds[name].lines(PREFIX + name)
        for name, (about, number) in gauges.items():
            lines += [*_head(name, about, "gauge"), f"{PREFIX}{name} {number}"]
        return "\n".join(lines) + "\n"


def resident_bytes() -> int:
    """Memory that this process has to itself, where the system tells it; else 0."""
    try:
        pages = Path("/proc/self/statm").read_text(encoding="ascii").split()
        return (int(pages[1]) - int(pages[2])) * os.sysconf("SC_PAGE_SIZE")
    except (OSError, ValueError, AttributeError):
        return 0


def _head(name: str, about: str, kind: str) -> list[str]:
    return [f"# HELP {PREFIX}{name} {about}", f"# TYPE {PREFIX}{name} {kind}"]
