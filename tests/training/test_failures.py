"""What failures cost: the published table, and a simulation of it."""

import pytest

from glassformer.training.plan.failures import (
    Losses,
    mean_time_between_failures,
    simulated_share,
)

RESTART = 300.0
BLOCKING, ASYNCHRONOUS = 30.0, 2.0
TABLE = [  # GPUs, hours between failures, then interval in seconds and lost share of both savings
    (1_024, 49.5, 3_270, 0.020, 844, 0.006),
    (4_096, 12.4, 1_635, 0.043, 422, 0.016),
    (16_384, 3.1, 817, 0.100, 211, 0.046),
]


@pytest.mark.parametrize("row", TABLE)
def test_the_table_of_intervals_and_lost_shares(row):
    devices, hours, *rest = row
    mtbf = mean_time_between_failures(devices)
    assert mtbf / 3600 == pytest.approx(hours, rel=0.01)
    for saving, interval, lost in zip((BLOCKING, ASYNCHRONOUS), rest[::2], rest[1::2], strict=True):
        found = Losses.of(saving, mtbf, RESTART)
        assert found.interval == pytest.approx(interval, rel=0.001)
        assert found.lost == pytest.approx(lost, abs=0.0005)  # as many digits as the table has
        assert found.simulated == pytest.approx(found.lost, rel=0.05)


def test_the_best_interval_loses_least():
    mtbf = mean_time_between_failures(16_384)
    best = Losses.of(BLOCKING, mtbf, RESTART).interval
    share = lambda interval: simulated_share(interval, BLOCKING, mtbf, RESTART)
    assert share(best) < min(share(best / 3), share(best * 3))


def test_a_simulation_is_a_function_of_its_seed():
    run = lambda seed: simulated_share(600, BLOCKING, 36_000, RESTART, failures=50, seed=seed)
    assert run(1) == run(1) != run(2)
