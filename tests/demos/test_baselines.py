"""Baselines: counted by hand, against a loop over the definition, and against scikit-learn
where it is there."""

import math
import random
import re
from collections import Counter
from fractions import Fraction
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from glassformer.demos.baselines import (
    bits_per_byte,
    letters,
    majority,
    most_frequent,
    naive_bayes,
    nearest_neighbour,
    rule_for_dates,
    share,
)


def test_the_most_frequent_label_of_each_input_and_of_unknown_ones():
    words = "the can can rust can the oil tin the"
    tags = "DET NOUN VERB VERB VERB DET NOUN NOUN DET"
    train = list(zip(words.split(), tags.split(), strict=True))
    # once seen are rust (VERB), oil and tin (NOUN); "DET" is commonest of all, but of words seen
    # often
    asked = ["the", "can", "gold", "rust"]
    assert most_frequent(train, asked, rare=True) == ["DET", "VERB", "NOUN", "VERB"]
    assert most_frequent(iter(train), iter(asked)) == ["DET", "VERB", "DET", "VERB"]


def test_a_tie_goes_to_the_label_that_came_first():
    train = [("a", "Y"), ("a", "X"), ("b", "Q"), ("c", "P")]
    assert most_frequent(train, ["a", "new"], rare=True) == ["Y", "Q"]
    # no word seen once: the commonest
    assert most_frequent([("a", "X"), ("a", "X")], ["new"], rare=True) == ["X"]


def test_nothing_to_score_is_no_score():
    assert math.isnan(share([]))
    assert math.isnan(majority(["a"], []))
    assert math.isnan(naive_bayes([("a", "x")], []))
    assert most_frequent([], ["a"]) == [None]
    assert majority([], ["a"]) == 0
    assert naive_bayes([], [("a", "x")]) == 0


def test_the_majority():
    assert majority(["a", "b", "b"], ["b", "a", "b", "c"]) == 0.5
    assert majority(iter(["b", "a"]), iter(["b"])) == 1


def test_naive_bayes_of_the_textbook():
    # Manning, Raghavan and Schütze, table 13.1
    train = [("Chinese Beijing "
    "Chinese", "yes"), ("Chinese Chinese Shanghai", "yes"), ("Chinese Macao", "yes"),
             ("Tokyo Japan Chinese", "no")]  # fmt: skip
    assert naive_bayes(train, [("Chinese Chinese Chinese Tokyo Japan", "yes")], str.split) == 1
    # 3/4 3/7 (1/14)² < 1/4 (2/9)³
    assert naive_bayes(train, [("Chinese Tokyo Japan", "no")], str.split) == 1


def words(text: str) -> list[str]:
    """Runs of letters and digits, and single other characters, in lower case."""
    return re.findall(r"\w+|[^\w\s]", text.lower())


def test_features_are_all_short_runs():
    assert letters("") == []
    assert sorted(letters("ab a")) == sorted(["a", "b", " ", "a", "ab", "b ", " a", "ab ", "b a"])


def slow_naive_bayes(train, test, features):
    """The definition in exact arithmetic."""
    classes = sorted({label for _, label in train})
    counts = {
        c: Counter(f for text, label in train if label == c for f in features(text))
        for c in classes
    }
    known = {f for of_class in counts.values() for f in of_class}
    right = 0
    for text, truth in test:
        scores = {}
        for c in classes:
            score = Fraction(sum(label == c for _, label in train), len(train))
            for f in features(text):
                if f in known:
                    score *= Fraction(counts[c][f] + 1, counts[c].total() + len(known))
            scores[c] = score
        best = max(scores.values())
        if any(0 < best - score < best * Fraction(1, 10**9) for score in scores.values()):
            return None  # too close for floating point
        if sum(score == best for score in scores.values()) > 1:
            return None  # a tie of different products
        right += scores.get(truth) == best
    return right / len(test)


texts = st.text("abA é_1.,\n😀", max_size=6)
pairs = st.lists(st.tuples(texts, st.sampled_from("xyz")), min_size=1, max_size=8)


@given(pairs, pairs, st.sampled_from([words, letters]))
def test_naive_bayes_is_its_definition(train, test, features):
    expected = slow_naive_bayes(train, test, features)
    if expected is not None:
        assert naive_bayes(iter(train), iter(test), features) == expected


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


def test_naive_bayes_learns_and_beats_the_majority():
    train, test = generated(600, 0), generated(300, 1)
    simple = majority([label for _, label in train], [label for _, label in test])
    by_words, by_letters = naive_bayes(train, test, words), naive_bayes(train, test)
    assert simple < 0.35
    assert min(by_words, by_letters) > 0.5
    assert by_words == slow_naive_bayes(train, test, words)


@pytest.mark.parametrize("features", [words, letters])
def test_naive_bayes_is_that_of_scikit_learn(features):
    text = pytest.importorskip("sklearn.feature_extraction.text")
    bayes = pytest.importorskip("sklearn.naive_bayes")
    train, test = generated(500, 2), generated(200, 3)
    if features is words:
        count = text.CountVectorizer(token_pattern=r"\w+|[^\w\s]")
    else:
        count = text.CountVectorizer(analyzer="char", ngram_range=(1, 3), lowercase=False)
    model = bayes.MultinomialNB().fit(
        count.fit_transform([text for text, _ in train]), [label for _, label in train]
    )
    theirs = model.predict(count.transform([text for text, _ in test]))
    assert naive_bayes(train, test, features) == (theirs == [label for _, label in test]).mean()


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
