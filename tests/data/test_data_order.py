"""The order: a bijection, every window once per epoch, a function of its arguments alone."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from glassformer.data.order import (
    epoch_key,
    permute,
    sample_indices,
    unpermute,
    windows,
    windows_per_epoch,
)

PINNED = [37553, 35185, 2609, 8945]
seeds = st.integers(-(2**70), 2**70)


@given(size=st.integers(1, 3000), seed=seeds, epoch=st.integers(0, 2**40))
def test_the_permutation_is_a_bijection_with_its_inverse(size, seed, epoch):
    places = np.arange(size)
    sent = permute(places, size, epoch_key(seed, epoch))
    assert np.array_equal(np.sort(sent), places)
    assert np.array_equal(unpermute(sent, size, epoch_key(seed, epoch)), places)


@given(size=st.integers(2**31, 2**55), seed=seeds, data=st.data())
def test_huge_permutations_have_their_inverse(size, seed, data):
    places = np.array(
        data.draw(st.lists(st.integers(0, size - 1), min_size=1, max_size=20)), dtype=np.int64
    )
    sent = permute(places, size, epoch_key(seed, 0))
    assert ((sent >= 0) & (sent < size)).all()
    assert np.array_equal(unpermute(sent, size, epoch_key(seed, 0)), places)


@given(
    length=st.integers(1, 50), extra=st.integers(1, 3000), seed=seeds, epoch=st.integers(0, 1000)
)
def test_an_epoch_visits_every_window_once_and_windows_fit(length, extra, seed, epoch):
    n = length + extra
    count = windows_per_epoch(n, length)
    starts = windows(n, length, seed, np.arange(epoch * count, (epoch + 1) * count))
    phase = starts.min()
    assert np.array_equal(np.sort(starts), phase + length * np.arange(count))
    assert phase >= 0
    assert starts.max() + length + 1 <= n
    assert n - 1 - count * length < 2 * length  # an epoch leaves out less than two windows of text


@given(
    n=st.integers(20, 400),
    length=st.integers(1, 19),
    seed=seeds,
    step=st.integers(0, 200),
    batch=st.integers(1, 70),
)
def test_a_batch_is_the_same_however_it_is_asked_for(n, length, seed, step, batch):
    rows = sample_indices(step, batch)
    together = windows(n, length, seed, rows)
    assert together.tolist() == [windows(n, length, seed, rows[i : i + 1])[0] for i in range(batch)]
    assert windows(n, length, seed, rows[::-1]).tolist() == together.tolist()[::-1]


def test_the_order_is_pinned():
    # changing it, by code or by machine, would silently break every run that is resumed
    assert windows(100_003, 64, 7, sample_indices(300, 12))[:4].tolist() == PINNED


def test_seeds_epochs_and_places_are_mixed():
    size = 7
    firsts = np.array(
        [
            permute(np.arange(size), size, epoch_key(seed, epoch))
            for seed in range(30)
            for epoch in range(40)
        ]
    )
    expected = len(firsts) / size
    for place in range(size):
        counts = np.bincount(firsts[:, place], minlength=size)
        chi2 = ((counts - expected) ** 2 / expected).sum()
        assert chi2 < 27.9  # the 0.9999 quantile at 6 degrees of freedom
    orders = {tuple(row) for row in firsts}
    assert len(orders) > 1000  # 1200 draws of 5040 orders hit 1068 on average


def test_neighbouring_windows_are_not_seen_together():
    order = permute(np.arange(10_000), 10_000, epoch_key(1, 0))
    assert abs(np.corrcoef(order[:-1], order[1:])[0, 1]) < 0.05
    assert (np.abs(np.diff(order)) == 1).sum() < 15


def test_phases_move_the_borders():
    phases = {int(windows(1000, 64, 3, np.arange(e * 14, e * 14 + 14)).min()) for e in range(200)}
    assert len(phases) > 60
    assert min(phases) < 10
    assert max(phases) > 64
