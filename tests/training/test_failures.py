"""Time that failures cost: a simulation, against the published table and formula."""

import pytest

from glassformer.training.plan.failures import GPU_HOURS_PER_FAILURE, losses, lost_share

RESTART = 300.0
BLOCKING, ASYNCHRONOUS = 30.0, 2.0
TABLE = [  # GPUs, hours between failures, then interval in seconds and lost share of both savings
    (1_024, 49.5, 3_270, 0.020, 844, 0.006),
    (4_096, 12.4, 1_635, 0.043, 422, 0.016),
    (16_384, 3.1, 817, 0.100, 211, 0.046),
]


def mean_time_between_failures(devices):
    return 3600 * GPU_HOURS_PER_FAILURE / devices


@pytest.mark.parametrize("row", TABLE)
def test_the_table_of_intervals_and_lost_shares(row):
    devices, hours, *rest = row
    mtbf = mean_time_between_failures(devices)
    assert mtbf / 3600 == pytest.approx(hours, rel=0.01)
    for saving, interval, lost in zip((BLOCKING, ASYNCHRONOUS), rest[::2], rest[1::2], strict=True):
        found = losses(saving, mtbf, RESTART)
        assert found.interval == pytest.approx(interval, rel=0.001)
        formula = saving / found.interval + (found.interval / 2 + RESTART) / mtbf  # to first order
        assert formula == pytest.approx(lost, abs=0.0005)  # as many digits as the table has
        assert found.lost == pytest.approx(formula, rel=0.05)


def test_the_best_interval_loses_least():
    mtbf = mean_time_between_failures(16_384)
    best = losses(BLOCKING, mtbf, RESTART).interval
    share = lambda interval: lost_share(interval, BLOCKING, mtbf, RESTART)
    assert share(best) == share(best) < min(share(best / 3), share(best * 3))
