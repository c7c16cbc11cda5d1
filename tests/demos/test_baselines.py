"""Baselines: counted by hand, and against a loop over the definition."""

import math
from collections import Counter
from itertools import pairwise

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from glassformer.demos.kit import nearest_neighbour
from glassformer.demos.lm import bits_per_byte
from glassformer.demos.translate import rule_for_dates


@given(st.integers(1, 40), st.integers(1, 60), st.integers(0, 5))
def test_the_nearest_neighbour_is_the_one_found_by_looking_at_all(n, m, seed):
    random = np.random.default_rng(seed)
    train, test = random.standard_normal((n, 3)), random.standard_normal((m, 3))
    labels, gold = (random.choice(["a", "b", "c"], size).tolist() for size in (n, m))
    nearest = [int(((train - row) ** 2).sum(1).argmin()) for row in test]
    right = [labels[i] == own for i, own in zip(nearest, gold, strict=True)]
    found = nearest_neighbour(torch.tensor(train), labels, torch.tensor(test), gold)
    assert found == pytest.approx(sum(right) / m)


def test_a_rule_reads_numbers_by_place_and_months_by_words():
    train = [
        ("4 May 2001", "2001-05-04"),
        ("May 5, 1999", "1999-05-05"),
        ("9 of June 2002", "2002-06-09"),
        ("June 7, 1987", "1987-06-07"),
    ]
    rule = rule_for_dates(train)
    found = {
        "12 June 1990": "1990-06-12",
        "JUNE 3, 2010": "2010-06-03",
        "17.3.1985": "1985-03-17",
        "1985/3/17": "1985-03-17",
        "2 of May 2007": "2007-05-02",
    }
    assert {text: rule(text) for text in found} == found


@given(st.integers(2, 5), st.integers(2, 40), st.integers(2, 40), st.integers(0, 99))
def test_bits_per_byte_are_their_definition(size, n, m, seed):
    train, test = (np.random.default_rng(seed).integers(0, size, k) for k in (n, m))
    counts, pairs = Counter(train.tolist()), Counter(pairwise(train.tolist()))
    unigram = {b: (counts[b] + 1) / (n + size) for b in range(size)}
    bigram = lambda a, b: (pairs[a, b] + 8 * unigram[b]) / (counts[a] + 8)
    bits = {
        "a uniform guess": (m - 1) * math.log2(size),
        "a unigram guess": -sum(math.log2(unigram[b]) for b in test.tolist()[1:]),
        "a bigram guess": -sum(math.log2(bigram(a, b)) for a, b in pairwise(test.tolist())),
    }
    found = bits_per_byte(train, test, 7, size)
    assert found == pytest.approx({name: value / 7 for name, value in bits.items()})
