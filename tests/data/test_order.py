"""Orders: every example or window once an epoch, a function of (seed, step), batches as asked."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from glassformer.data.order import BUCKETS, ShuffledOrder, WindowOrder, length_order

PINNED = [37553, 35185, 2609, 8945]
seeds = st.integers(-(2**70), 2**70)
lengths = st.lists(st.integers(1, 200), min_size=1, max_size=60).map(np.array)


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


def test_phases_move_the_borders():
    phases = {int(WindowOrder(1000, 64, 14, 3).rows(e).min()) for e in range(200)}
    assert len(phases) > 60
    assert min(phases) < 10
    assert max(phases) > 64


@given(lengths, st.integers(1, 20), st.one_of(st.none(), st.integers(1, 600)), st.integers(0, 3))
def test_every_row_is_in_one_batch_of_each_epoch(lengths, batch_size, batch_tokens, seed):
    order = length_order(lengths, batch_size, batch_tokens, seed)
    for epoch in range(3):
        steps = range(epoch * order.batches, (epoch + 1) * order.batches)
        rows = [order.rows(step) for step in steps]
        assert sorted(np.concatenate(rows).tolist()) == list(range(len(lengths)))
        assert min(map(len, rows)) > 0


@given(lengths, st.integers(1, 20))
def test_batches_are_of_one_size_and_no_larger_than_asked(lengths, batch_size):
    order = length_order(lengths, batch_size, None, 0)
    sizes = [len(order.rows(step)) for step in range(order.batches)]
    assert max(sizes) <= batch_size
    assert max(sizes) - min(sizes) <= 1
    assert order.batches == -(-len(lengths) // batch_size)


@given(lengths, st.integers(1, 600), st.integers(0, 3))
def test_a_batch_with_its_padding_has_no_more_elements_than_asked(lengths, batch_tokens, seed):
    order = length_order(lengths, 1, batch_tokens, seed)
    for step in range(3 * order.batches):
        rows = order.rows(step)
        assert len(rows) == 1 or len(rows) * lengths[rows].max() <= batch_tokens


def test_rows_of_a_batch_are_alike_and_meet_others_in_other_epochs():
    lengths = np.repeat([10, 100], 50)
    order = length_order(lengths, 10, None, seed=1)
    first, second = (
        [set(order.rows(s).tolist()) for s in range(e * 10, e * 10 + 10)] for e in (0, 1)
    )
    for batch in first + second:
        assert len(set(lengths[list(batch)].tolist())) == 1
    assert not any(batch in second for batch in first)
    spread = np.arange(1, 801)
    batches = [spread[length_order(spread, 50, None, 0).rows(step)] for step in range(16)]
    assert max(own.max() - own.min() for own in batches) <= 800 // BUCKETS


def test_the_order_is_a_function_of_seed_and_step():
    lengths = np.random.default_rng(0).integers(1, 90, 200)
    one, again, other = (length_order(lengths, 16, None, seed) for seed in (5, 5, 6))
    backwards = {step: again.rows(step).tolist() for step in reversed(range(40))}
    assert all(one.rows(step).tolist() == backwards[step] for step in range(40))
    assert any(other.rows(step).tolist() != backwards[step] for step in range(40))
