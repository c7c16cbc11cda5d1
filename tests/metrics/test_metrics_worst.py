"""The worst examples: as if all had been kept and sorted."""

import json
import math

from hypothesis import given
from hypothesis import strategies as st

from glassformer.metrics.worst import Worst

losses = st.lists(
    st.sampled_from([0.0, 0.5, 1.0, 2.5, math.inf, math.nan]) | st.floats(0, 9), max_size=40
)


@given(losses, st.integers(0, 12))
def test_the_largest_losses_are_kept_in_order(losses, most):
    worst = Worst(most)
    for i, loss in enumerate(losses):
        worst.add(loss, {"text": str(i), "no order": {}})
    order = sorted(
        range(len(losses)), key=lambda i: (-math.inf if math.isnan(losses[i]) else -losses[i], i)
    )
    rows = worst.rows()
    assert [row["text"] for row in rows] == [str(i) for i in order[:most]]
    assert [row["loss"] for row in rows] == [
        losses[i] if math.isfinite(losses[i]) else None for i in order[:most]
    ]
    json.dumps(rows, allow_nan=False)
    assert worst.rows() == rows, "to look changes nothing"


def test_twenty_unless_told():
    worst = Worst()
    for i in range(30):
        worst.add(1.0, {"i": i})
    assert [row["i"] for row in worst.rows()] == list(range(20))
