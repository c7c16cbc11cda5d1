"""Baselines: counted by hand, against the definition in exact arithmetic, and against
scikit-learn."""

from collections import Counter
from fractions import Fraction
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.feature_extraction.text import CountVectorizer
from sklearn.multiclass import OneVsRestClassifier
from sklearn.naive_bayes import MultinomialNB

from glassformer.metrics.baselines import NaiveBayes, commonest, most_frequent, words

C = 3
text = st.lists(st.sampled_from("abcdef"), max_size=6)
labelled = st.lists(st.tuples(text, st.integers(0, C - 1).map(lambda c: [c])), min_size=1)
several = st.lists(st.tuples(text, st.lists(st.integers(0, C - 1), unique=True)), min_size=1)
asked = st.lists(st.lists(st.sampled_from("abcdefgh"), max_size=6), max_size=8)


def scores(model: NaiveBayes, texts) -> np.ndarray:
    return model.scores(texts).reshape(-1, C)


def counted(texts, pairs: bool = True) -> CountVectorizer:
    same = lambda tokens: tokens
    return CountVectorizer(
        tokenizer=same, preprocessor=same, token_pattern=None, ngram_range=(1, 1 + pairs)
    ).fit(texts)


def test_the_most_frequent_label_of_each_input_and_of_unknown_ones():
    train = "the/DET can/NOUN can/VERB rust/VERB can/VERB the/DET oil/NOUN tin/NOUN the/DET"
    pairs = [tuple(pair.split("/")) for pair in train.split()]
    # seen once are rust (VERB), oil and tin (NOUN); of all words, DET, NOUN and VERB are tied
    inputs = ["the", "can", "gold", "rust"]
    assert most_frequent(Counter(pairs), inputs, rare=True) == ["DET", "VERB", "NOUN", "VERB"]
    assert most_frequent(Counter(pairs), iter(inputs)) == ["DET", "VERB", "DET", "VERB"]
    # no word seen once: the most frequent of all
    assert most_frequent(Counter({("a", "X"): 2}), ["new"], rare=True) == ["X"]
    assert most_frequent(Counter(), ["a"]) == [None]


@given(st.lists(st.tuples(st.sampled_from("abcd"), st.sampled_from("XYZ"))), st.randoms())
def test_most_frequent_labels_are_those_of_a_count_whatever_the_order(pairs, random):
    shuffled = random.sample(pairs, len(pairs))
    inputs = list("abcde")
    found = most_frequent(Counter(pairs), inputs, rare=True)
    assert found == most_frequent(Counter(shuffled), inputs, rare=True)
    for item, label in zip(inputs, found, strict=True):
        own = [y for x, y in pairs if x == item]
        items = [x for x, _ in pairs]
        own = own or [y for x, y in pairs if items.count(x) == 1] or [y for _, y in pairs]
        assert label == (min(set(own), key=lambda y: (-own.count(y), y)) if own else None)


@given(st.lists(st.sampled_from("XYZ")))
def test_the_commonest_has_the_largest_share(labels):
    best = commonest(Counter(labels))
    assert (best is None) == (not labels)
    assert labels.count(best) == max(map(labels.count, labels), default=0)


def test_words_are_letters_and_digits_and_single_marks():
    assert words("It's 3pm, Élan!") == ["it", "'", "s", "3pm", ",", "élan", "!"]
    assert words("a b", "b") == ["a", "b", "2 b"]
    assert words("") == words() == []


def test_naive_bayes_of_the_textbook():
    # Manning, Raghavan and Schütze, table 13.1: classes no and yes
    train = [
        ("Chinese Beijing Chinese", [1]),
        ("Chinese Chinese Shanghai", [1]),
        ("Chinese Macao", [1]),
        ("Tokyo Japan Chinese", [0]),
    ]
    model = NaiveBayes(((text.split(), own) for text, own in train), 2, pairs=False)
    found = model.scores([["Chinese", "Chinese", "Chinese", "Tokyo", "Japan"]])
    exact = [Fraction(1, 4) * Fraction(2, 9) ** 5, Fraction(3, 4) * Fraction(3, 7) ** 3 / 14**2]
    assert np.exp(found[0]) == pytest.approx([float(p) for p in exact], rel=1e-12)


@given(labelled, asked, st.booleans())
def test_naive_bayes_is_its_definition(train, texts, pairs):
    features = lambda tokens: Counter([*tokens, *(pairwise(tokens) if pairs else ())])
    counts = [sum((features(x) for x, own in train if own == [c]), Counter()) for c in range(C)]
    known = {f for own in counts for f in own}
    found = scores(NaiveBayes(iter(train), C, pairs=pairs), iter(texts))
    for tokens, row in zip(texts, found, strict=True):
        for c in range(C):
            p = Fraction(sum(own == [c] for _, own in train), len(train))
            for f, n in features(tokens).items():
                if f in known:
                    p *= Fraction(counts[c][f] + 1, counts[c].total() + len(known)) ** n
            # float64 sums of at most 12 logarithms
            assert np.exp(row[c]) == pytest.approx(float(p), rel=1e-12)


@given(labelled, asked, st.booleans())
def test_naive_bayes_is_that_of_scikit_learn(train, texts, pairs):
    if not any(tokens for tokens, _ in train) or not texts:
        return
    count = counted([tokens for tokens, _ in train], pairs)
    there = sorted({c for _, (c,) in train})
    theirs = MultinomialNB().fit(
        count.transform([x for x, _ in train]), [own[0] for _, own in train]
    )
    found = scores(NaiveBayes(train, C, pairs=pairs), texts)
    expected = theirs.predict_joint_log_proba(count.transform(texts))
    # float64 sums of a dozen logarithms below 10
    np.testing.assert_allclose(found[:, there], expected, atol=1e-10)
    assert np.isneginf(np.delete(found, there, 1)).all()


@given(several, asked)
def test_each_of_several_classes_is_decided_by_itself(train, texts):
    if not any(tokens for tokens, _ in train) or not texts:
        return
    count = counted([tokens for tokens, _ in train])
    gold = np.array([[c in own for c in range(C)] for _, own in train]).astype(int)
    found = scores(NaiveBayes(train, C, several=True), texts)
    for c in range(C):
        if len(set(gold[:, c])) == 1:
            assert (np.sign(found[:, c]) == 2 * gold[0, c] - 1).all()
            continue
        theirs = MultinomialNB().fit(count.transform([x for x, _ in train]), gold[:, c])
        joint = theirs.predict_joint_log_proba(count.transform(texts))
        np.testing.assert_allclose(found[:, c], joint[:, 1] - joint[:, 0], atol=1e-10)


@given(labelled, asked, st.randoms())
def test_the_order_of_training_changes_no_bit(train, texts, random):
    found = scores(NaiveBayes(train, C), texts)
    shuffled = random.sample(train, len(train))
    assert (found == scores(NaiveBayes(shuffled, C), texts)).all()


def test_labels_of_several_are_those_of_scikit_learn():
    draw = np.random.default_rng(0)
    rows = []
    for _ in range(300):
        own = np.flatnonzero(draw.random(C) < 0.4)
        weights = 1 + 3 * np.isin(np.arange(26) % 4, own)
        rows.append((draw.choice(list("abcdefghijklmnopqrstuvwxyz"), 8, p=weights / weights.sum()),
                     own.tolist()))  # fmt: skip
    texts = [list(tokens) for tokens, _ in rows]
    count = counted(texts[:200])
    gold = np.array([[c in own for c in range(C)] for _, own in rows]).astype(int)
    theirs = OneVsRestClassifier(MultinomialNB()).fit(count.transform(texts[:200]), gold[:200])
    model = NaiveBayes(((x, own) for x, (_, own) in zip(texts[:200], rows, strict=False)), C, True)
    found = scores(model, texts[200:]) > 0
    assert (found == theirs.predict(count.transform(texts[200:]))).all()
    assert (found == gold[200:]).mean() > 0.7


def test_without_training_every_class_is_alike():
    assert np.isneginf(scores(NaiveBayes([], C), [["a"], []])).all()
