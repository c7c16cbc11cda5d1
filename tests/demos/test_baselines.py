"""Baselines: counted by hand, against a loop over the definition, and against scikit-learn
where it is there."""

import math
import random
from collections import Counter
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from glassformer.demos.baselines import (
    bits_per_byte,
    letters,
    letters_bayes,
    nearest_neighbour,
    rule_for_dates,
    share,
)


def test_nothing_to_score_is_no_score():
    assert math.isnan(share([]))
    assert math.isnan(letters_bayes([("a", "x")], []))


def test_features_are_all_short_runs():
    assert letters("") == []
    assert sorted(letters("ab a")) == sorted(["a", "b", " ", "a", "ab", "b ", " a", "ab ", "b a"])


def generated(n: int, seed: int) -> list[tuple[str, str]]:
    """Texts of words whose frequencies depend a little on the label."""
    draw = random.Random(seed)
    vocabulary = [f"{a}{b}" for a in "bdgklmnprst" for b in "aeiou"]
    labels = ["one", "two", "three", "four"]
    found = []
    for _ in range(n):
        label = draw.choice(labels)
        weights = [3 if i % 4 == labels.index(label) else 1 for i in range(len(vocabulary))]
        found.append((" ".join(draw.choices(vocabulary, weights, k=draw.randint(1, 6))), label))
    return found


def test_naive_bayes_on_letters_is_that_of_scikit_learn():
    text = pytest.importorskip("sklearn.feature_extraction.text")
    bayes = pytest.importorskip("sklearn.naive_bayes")
    train, test = generated(500, 2), generated(200, 3)
    count = text.CountVectorizer(analyzer="char", ngram_range=(1, 3), lowercase=False)
    model = bayes.MultinomialNB().fit(
        count.fit_transform([text for text, _ in train]), [label for _, label in train]
    )
    theirs = model.predict(count.transform([text for text, _ in test]))
    found = letters_bayes(iter(train), iter(test))
    assert found == (theirs == [label for _, label in test]).mean()
    assert found > 0.5


@given(st.integers(1, 40), st.integers(0, 300), st.integers(0, 5))
def test_the_nearest_neighbour_is_the_one_found_by_looking_at_all(n, m, seed):
    random = np.random.default_rng(seed)
    train, test = random.standard_normal((n, 3)), random.standard_normal((m, 3))
    labels, gold = (random.choice(["a", "b", "c"], size).tolist() for size in (n, m))
    nearest = [int(((train - row) ** 2).sum(1).argmin()) for row in test]
    right = [labels[i] == own for i, own in zip(nearest, gold, strict=True)]
    found = nearest_neighbour(train, labels, test, gold)
    assert math.isnan(found) if not m else found == pytest.approx(sum(right) / m)


def test_the_nearest_neighbour_of_equal_ones_is_the_first():
    assert nearest_neighbour(np.ones((3, 2)), ["a", "b", "b"], np.zeros((2, 2)), ["a", "b"]) == 0.5


def test_a_rule_reads_numbers_by_place_and_months_by_words():
    train = [
        ("4 May 2001", "2001-05-04"),
        ("May 5, 1999", "1999-05-05"),
        ("9 of June 2002", "2002-06-09"),
        ("8 of May 2002", "2002-05-08"),
    ]
    rule = rule_for_dates(train)
    found = {
        "12 June 1990": "1990-06-12",
        "JUNE 3, 2010": "2010-06-03",
        "17.3.1985": "1985-03-17",
        "1985/3/17": "1985-03-17",
        "2 of May ٢٠٠٧": "2007-05-02",
        "": "2000-01-01",
    }
    assert {text: rule(text) for text in found} == found
    assert share(rule(text) == day for text, day in train) == 1


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
