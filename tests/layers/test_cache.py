"""The cache as a value (what models do with it is in models/test_laws.py)."""

import torch

from glassformer.core.batch import Positions
from glassformer.layers.attention.cache import Cache


def numbers(first, count):
    keys = torch.arange(first, first + count, dtype=torch.float32).view(1, 1, count, 1)
    return keys, -keys


def test_what_is_stored_comes_back_in_order():
    cache = empty = Cache()
    for first, count in ((0, 2), (2, 1), (3, 3)):
        cache = cache.advance(Positions.arange(count, start=first))
        keys, values = cache.store(0, lambda at=(first, count): numbers(*at))
        assert keys.flatten().tolist() == list(range(first + count))
        assert values.flatten().tolist() == [-k for k in range(first + count)]
        assert cache.positions.position.tolist() == [list(range(first + count))]
        assert cache.positions.start == 0
    assert empty.positions is None
    assert not empty.own


def test_the_encoder_s_keys_are_computed_once_for_each_line_of_descent():
    calls = []

    def compute():
        calls.append(1)
        return numbers(0, 1)

    root = Cache()
    first = root.advance(Positions.arange(1))
    first.once(0, compute)
    first.once(0, compute)
    first.advance(Positions.arange(1, start=1)).once(0, compute)
    assert len(calls) == 1
    root.advance(Positions.arange(1)).once(0, compute)
    assert len(calls) == 2
