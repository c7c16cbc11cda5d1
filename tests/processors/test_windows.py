"""Laws of windows: nothing is left out, nothing is answered twice, and everything has the most
context it can have."""

from itertools import pairwise

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from glassformer.processors.tokens.windows import windows


@st.composite
def cases(draw, largest=None):
    room = draw(st.integers(1, 30))
    sizes = draw(st.lists(st.integers(1, min(room, largest or room)), min_size=1, max_size=60))
    return np.array(sizes), room, draw(st.integers(0, room - 1))


@settings(max_examples=200)
@given(cases())
def test_each_unit_belongs_to_exactly_one_window_that_reads_it(case):
    sizes, room, overlap = case
    found = windows(sizes, room, overlap)
    owned = [unit for window in found for unit in range(window.own_begin, window.own_end)]
    assert owned == list(range(len(sizes)))
    for window in found:
        assert window.begin <= window.own_begin < window.own_end <= window.end


@settings(max_examples=200)
@given(cases())
def test_windows_are_as_large_as_they_may_be_and_go_forward(case):
    sizes, room, overlap = case
    found = windows(sizes, room, overlap)
    for window in found:
        assert sizes[window.begin : window.end].sum() <= room
        assert window.end == len(sizes) or sizes[window.begin : window.end + 1].sum() > room
    for window, following in pairwise(found):
        assert window.begin < following.begin <= window.end < following.end
    assert (len(found) == 1) == (sizes.sum() <= room)


@settings(max_examples=200)
@given(cases())
def test_neighbours_share_what_was_asked_as_nearly_as_units_allow(case):
    """Never more; less only if one more unit would be too much, or if the next window then would
    not reach further."""
    sizes, room, overlap = case
    for window, following in pairwise(windows(sizes, room, overlap)):
        assert sizes[following.begin : window.end].sum() <= overlap
        earlier = following.begin - 1
        assert (
            earlier == window.begin
            or sizes[earlier : window.end].sum() > overlap
            or sizes[earlier : window.end + 1].sum() > room
        )


@given(cases(largest=1))
def test_of_single_elements_exactly_what_was_asked_is_shared(case):
    sizes, room, overlap = case
    for window, following in pairwise(windows(sizes, room, overlap)):
        assert window.end - following.begin == overlap


@given(cases(largest=1))
def test_a_unit_belongs_to_the_window_where_its_poorer_side_is_richest(case):
    """Where the text itself ends, nothing is missing: that side is not poor."""
    sizes, room, overlap = case
    n, found = len(sizes), windows(sizes, room, overlap)

    def poorer(window, unit):
        left = n if window.begin == 0 else unit - window.begin
        right = n if window.end == n else window.end - 1 - unit
        return min(left, right)

    for owner in found:
        for unit in range(owner.own_begin, owner.own_end):
            there = [poorer(window, unit) for window in found if window.begin <= unit < window.end]
            assert poorer(owner, unit) == max(there)


def test_an_example():
    found = windows(np.ones(25, np.int64), room=10, overlap=4)
    assert [(w.begin, w.end, w.own_begin, w.own_end) for w in found] == [
        (0, 10, 0, 8),
        (6, 16, 8, 14),
        (12, 22, 14, 20),
        (18, 25, 20, 25),
    ]
