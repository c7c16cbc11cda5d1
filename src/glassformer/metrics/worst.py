"""The examples of the largest loss."""

import heapq
import math
from typing import Any


class Worst:
    """The `most` examples of the largest loss; of equals, the first ones."""

    def __init__(self, most: int = 20):
        self._most, self._came = most, 0
        # the mildest first; no two entries tie
        self._heap = list[tuple[float, int, float, dict[str, Any]]]()

    def add(self, loss: float, values: dict[str, Any]) -> None:
        """Count one example; a loss that is no number is the worst of all."""
        self._came += 1
        entry = (math.inf if math.isnan(loss) else loss, -self._came, loss, values)
        if len(self._heap) < self._most:
            heapq.heappush(self._heap, entry)
        elif self._heap:
            heapq.heappushpop(self._heap, entry)

    def rows(self) -> list[dict[str, Any]]:
        """The values of each and its `loss`, the worst first; an infinite loss is None, as JSON has
        no such number."""
        kept = sorted(self._heap, key=lambda entry: entry[:2], reverse=True)
        return [
            {**values, "loss": loss if math.isfinite(loss) else None} for _, _, loss, values in kept
        ]
