"""The order: a bijection, every window once per epoch, a function of its arguments alone."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from glassformer.data.order import ShuffledOrder, WindowOrder
from glassformer.random_stream import epoch_key, permute, unpermute

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
    count = WindowOrder(n, length, 1, seed).count
    starts = WindowOrder(n, length, count, seed).rows(epoch)
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
def test_a_batch_is_its_samples_one_by_one(n, length, seed, step, batch):
    one, together = WindowOrder(n, length, 1, seed), WindowOrder(n, length, batch, seed)
    alone = [one.rows(step * batch + i)[0] for i in range(batch)]
    assert together.rows(step).tolist() == alone


@given(st.integers(1, 200), st.integers(1, 60), seeds)
def test_shuffled_examples_are_visited_once_an_epoch(count, batch, seed):
    order = ShuffledOrder(count, batch, seed)
    visits = np.concatenate([order.rows(step) for step in range(-(-3 * count // batch))])
    for epoch in range(3):
        assert sorted(visits[epoch * count : (epoch + 1) * count].tolist()) == list(range(count))
    assert order.batches == count / batch


def test_the_order_is_pinned():
    # changing it, by code or by machine, would silently break every run that is resumed
    assert WindowOrder(100_003, 64, 12, 7).rows(300)[:4].tolist() == PINNED


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
    phases = {int(WindowOrder(1000, 64, 14, 3).rows(e).min()) for e in range(200)}
    assert len(phases) > 60
    assert min(phases) < 10
    assert max(phases) > 64
