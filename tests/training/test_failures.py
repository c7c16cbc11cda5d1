"""What failures cost: the published table, and a simulation of it."""

import pytest

from glassformer.training.cluster.failures import (
    Saving,
    best_interval,
    losses,
    lost_share,
    mean_time_between_failures,
    simulated_share,
)

RESTART = 300.0
BLOCKING, ASYNCHRONOUS = Saving(30.0), Saving(2.0)
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
        found = losses(saving, mtbf, RESTART)
        assert found.interval == pytest.approx(interval, rel=0.001)
        assert found.lost == pytest.approx(lost, abs=0.0005)  # as many digits as the table has
        assert found.simulated == pytest.approx(found.lost, rel=0.05)


def test_the_best_interval_loses_least():
    mtbf = mean_time_between_failures(16_384)
    best = best_interval(BLOCKING, mtbf)
    share = lambda interval: simulated_share(interval, BLOCKING, mtbf, RESTART)
    assert share(best) < min(share(best / 3), share(best * 3))


def test_a_save_that_is_not_durable_yet_is_lost():
    """Of a save that is written for a time beside the training, that time is lost with a failure."""
    mtbf, slow = mean_time_between_failures(16_384), Saving(2.0, background=120.0)
    interval = best_interval(slow, mtbf)
    more = lost_share(interval, slow, mtbf, RESTART) - lost_share(
        interval, ASYNCHRONOUS, mtbf, RESTART
    )
    assert more == pytest.approx(120 / mtbf)
    apart = simulated_share(interval, slow, mtbf, RESTART) - simulated_share(
        interval, ASYNCHRONOUS, mtbf, RESTART
    )
    assert apart == pytest.approx(more, rel=0.1)  # the formula is of first order


def test_a_simulation_is_a_function_of_its_seed():
    run = lambda seed: simulated_share(600, BLOCKING, 36_000, RESTART, failures=50, seed=seed)
    assert run(1) == run(1) != run(2)
