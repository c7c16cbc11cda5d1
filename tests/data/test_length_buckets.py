"""Batches of like length: every row once an epoch, whatever the lengths, the same for the same
step."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from glassformer.data.order import BUCKETS, length_order

lengths = st.lists(st.integers(1, 200), min_size=1, max_size=60).map(np.array)


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
