"""Two looks: what is aligned with what, and differences that are B - A by hand."""

import difflib
import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

import tiny
from glassformer.core.batch import Batch
from glassformer.core.errors import ConfigError
from glassformer.inspect.comparing import Pair, align, compare
from glassformer.inspect.look import Look, look
from glassformer.processors.tokens.elements import Element


def words(text: str) -> tuple[Element, ...]:
    return tuple(Element(word, None, "token") for word in text.split())


def looked(ids, source=None, names=(), **changes) -> Look:
    beside = None if source is None else Batch(torch.tensor([source]))
    return look(tiny.model(**changes), Batch(torch.tensor([ids]), source=beside), names=names)


def test_one_word_for_another_stands_in_its_place():
    found = align(words("because it was too tired ."), words("because it was too wide ."))
    assert [(pair.a, pair.b) for pair in found] == [(i, i) for i in range(6)]


def test_what_one_has_alone_is_left_out():
    found = align(words("the cat sat down"), words("now the big cat sat"))
    assert found == (Pair(0, 1), Pair(1, 3), Pair(2, 4))
    assert align(words("a b c"), words("a x y z c"))[1:] == (Pair(2, 4),)
    assert align((), words("a")) == ()


@given(*[st.lists(st.sampled_from("abcd"), max_size=8)] * 2)
def test_pairs_go_forward_in_both(a, b):
    found = align(words(" ".join(a)), words(" ".join(b)))
    assert [pair.a for pair in found] == sorted({pair.a for pair in found})
    assert [pair.b for pair in found] == sorted({pair.b for pair in found})
    blocks = difflib.SequenceMatcher(None, a, b, autojunk=False).get_matching_blocks()
    assert sum(a[i] == b[j] for i, j in found) == sum(block.size for block in blocks)


def test_differences_of_patterns_are_between_aligned_elements():
    a, b = looked([3, 1, 7, 5]), looked([9, 3, 1, 2, 5])  # 9 before, 2 for 7
    found = compare(a, b)
    assert found.pairs == (Pair(0, 1), Pair(1, 2), Pair(2, 3), Pair(3, 4))
    difference = found.pattern(1, 2)
    before, after = a.pattern(1, 2), b.pattern(1, 2)
    for i, query in enumerate(found.pairs):
        for j, key in enumerate(found.pairs):
            assert float(difference[i, j]) == pytest.approx(
                float(after[query.b, key.b] - before[query.a, key.a])
            )
        assert float(difference[i].sum()) == pytest.approx(
            -float(after[query.b, 0])
        )  # the rest went to 9


def test_translators_are_compared_on_both_sides():
    a = looked([3, 1, 7], [2, 4], architecture="encoder_decoder")
    b = looked([3, 7], [2, 6, 4], architecture="encoder_decoder")
    found = compare(a, b)
    assert [(pair.a, pair.b) for pair in found.source_pairs] == [(0, 0), (1, 2)]
    cross = found.pattern(0, 1, site="cross")
    assert cross.shape == (2, 2)
    wanted = b.pattern(0, 1, site="cross")[1, 2] - a.pattern(0, 1, site="cross")[2, 1]
    assert float(cross[1, 1]) == pytest.approx(float(wanted))
    assert found.pattern(0, 1, side="encoder").shape == (2, 2)


def divergence(p, q) -> float:
    return sum(x * math.log2(x / y) for x, y in zip(p.tolist(), q.tolist(), strict=True))


def test_the_answers_changes_and_their_divergence():
    a, b = looked([3, 1, 7, 5]), looked([3, 1, 2, 5])
    found = compare(a, b)
    for number, (i, j) in ((-1, (3, 3)), (1, (1, 1)), (2, (2, 2))):
        p, q = a.probabilities(i), b.probabilities(j)
        answer = found.answer(number, k=4)
        assert answer.divergence == pytest.approx(divergence(p, q), abs=1e-12)
        changes = (q - p).abs()
        torch.testing.assert_close(answer.change.abs(), changes.topk(4).values)
        torch.testing.assert_close(answer.change, (q - p)[answer.ids])
        torch.testing.assert_close(answer.before, p[answer.ids])
    assert found.answer(1).divergence == pytest.approx(0, abs=1e-12)  # the past is the same
    assert found.answer(-1).divergence > 1e-3


@pytest.mark.parametrize("several", [False, True])
def test_one_answer_to_a_sequence(several):
    changes = {
        "architecture": "encoder",
        "head": "classify",
        "n_classes": 3,
        "multi_label": several,
    }
    a, b = looked([3, 1, 7, 5], **changes), looked([4, 1, 2], **changes)
    found = compare(a, b)
    p, q = a.probabilities(), b.probabilities()
    wanted = divergence(p, q) + (divergence(1 - p, 1 - q) if several else 0)
    answer = found.answer()
    assert answer.divergence == pytest.approx(wanted, rel=1e-9)
    assert sorted(answer.ids.tolist()) == [0, 1, 2]


def test_a_look_beside_itself_is_all_zeros():
    a = looked([3, 1, 7, 5])
    found = compare(a, a)
    assert found.pairs == tuple(Pair(i, i) for i in range(4))
    assert found.answer().divergence == 0
    assert not found.pattern(0, 0).any()
    assert not found.answer().change.any()


def test_what_cannot_be_compared_is_refused():
    a = looked([3, 1, 7, 5])
    for other, call, sentence in (
        (looked([3], n_layers=1), lambda c: c.pattern(1, 0), "no layer 1"),
        (looked([3], vocab_size=12), lambda c: c.answer(), "not choose among the same outcomes"),
        (
            looked([3], head="classify", n_classes=13),
            lambda c: c.answer(),
            "not choose among the same outcomes",
        ),
        (looked([3, 1]), lambda c: c.answer(2), "no pair 2 in the aligned elements"),
    ):
        with pytest.raises(ConfigError, match=sentence):
            call(compare(a, other))
    names = [[f"{letter}{i}" for i in range(13)] for letter in "ab"]
    with pytest.raises(ConfigError, match="same outcomes"):
        compare(*(looked([3], names=own) for own in names)).answer()
