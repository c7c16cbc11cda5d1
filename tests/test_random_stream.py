"""Keyed permutations: a bijection, a function of its arguments, well mixed."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from glassformer.core.random_stream import epoch_key, generator, permute

seeds = st.integers(-(2**70), 2**70)


@given(size=st.integers(1, 3000), seed=seeds, epoch=st.integers(0, 2**40))
def test_the_permutation_is_a_bijection(size, seed, epoch):
    places = np.arange(size)
    assert np.array_equal(np.sort(permute(places, size, epoch_key(seed, epoch))), places)


@given(size=st.integers(2**31, 2**55), seed=seeds, data=st.data())
def test_huge_permutations_map_distinct_places_apart(size, seed, data):
    begin = data.draw(st.integers(0, size - 100))
    sent = permute(np.arange(begin, begin + 100), size, epoch_key(seed, 0))
    assert ((sent >= 0) & (sent < size)).all()
    assert len(np.unique(sent)) == 100


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


def test_a_generator_is_a_function_of_seed_step_and_sample():
    keys = [(seed, step, sample) for seed in (-1, 0, 7) for step in (0, 3) for sample in (0, 5)]
    draws = [tuple(generator(*key).random(3)) for key in keys]
    assert draws == [tuple(generator(*key).random(3)) for key in keys]
    assert len(set(draws)) == len(keys)
