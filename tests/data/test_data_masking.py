"""Masks are a function of (seed, step); as many as asked, 80/10/10, never a special symbol, words
whole if asked."""

import math

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from glassformer.core.batch import Batch, Positions
from glassformer.core.errors import DataError
from glassformer.data.masking import Masking, word_begins
from glassformer.tokenizers.definition import byte_definition
from glassformer.tokenizers.text import Tokenizer

VOCABULARY, MASK = 50, 49
SPECIALS = [7, 48, MASK]
ORDINARY = np.array([i for i in range(VOCABULARY) if i not in SPECIALS])


def batch(rows=8, width=64, seed=0) -> Batch:
    return Batch(
        torch.randint(0, VOCABULARY, (rows, width), generator=torch.Generator().manual_seed(seed))
    )


def masking(fraction=0.15, begins=None) -> Masking:
    return Masking(MASK, ORDINARY, fraction, begins)


def at_of(masked: Batch) -> np.ndarray:
    assert masked.at is not None
    return masked.at.numpy()


@given(
    st.integers(0, 2**70), st.integers(0, 2**62), st.sampled_from([0.01, 0.15, 0.9]), st.booleans()
)
def test_what_is_asked_is_what_stood_there_and_nothing_else_is_touched(seed, step, fraction, whole):
    before = batch(3, 20, seed=step % 1000)
    begins = np.arange(VOCABULARY) % 3 == 0 if whole else None
    masked = masking(fraction, begins)(before, seed, step)
    flat, was, at = masked.elements.numpy().ravel(), before.elements.numpy().ravel(), at_of(masked)
    assert len(at) >= 1
    assert (np.diff(at) > 0).all()
    assert masked.targets is not None
    assert masked.targets.tolist() == was[at].tolist()
    assert np.isin(was[at], ORDINARY).all(), "a special symbol is never asked for"
    untouched = np.setdiff1d(np.arange(len(flat)), at)
    assert (flat[untouched] == was[untouched]).all()
    assert np.isin(flat[at], [*ORDINARY, MASK]).all(), (
        "what stands in is <mask> or an ordinary token"
    )
    assert torch.equal(before.elements, batch(3, 20, seed=step % 1000).elements), (
        "the batch itself is left alone"
    )


def test_masks_are_a_function_of_seed_and_step():
    def made(seed, step):
        masked = masking()(batch(), seed, step)
        return masked.elements.tolist(), at_of(masked).tolist(), masked.targets.tolist()

    assert made(1, 2) == made(1, 2)
    np.random.seed(3)  # noqa: NPY002 - whatever was drawn before
    assert made(1, 2) == made(1, 2)
    positions = [
        set(made(*key)[1]) for key in ((1, 2), (1, 3), (2, 2), (2, 1), (0, 2), (1, 1 << 62))
    ]
    for i, one in enumerate(positions):
        for other in positions[:i]:
            # two independent choices of 15 % share 15 % of one
            assert len(one & other) < len(one) / 2


LARGE = batch(256, 256)
ALLOWED = int(np.isin(LARGE.elements.numpy(), ORDINARY).sum())


def within(count: int, n: int, p: float) -> bool:
    """Within 5 standard errors of a binomial count: of a correct program, one test in 1.7 million
    would fail."""
    return abs(count - n * p) < 5 * math.sqrt(n * p * (1 - p))


@pytest.mark.parametrize("fraction", [0.05, 0.15, 0.5])
def test_the_fraction_and_80_10_10(fraction):
    masked = masking(fraction)(LARGE, 0, 0)
    at = at_of(masked)
    assert within(len(at), ALLOWED, fraction)
    now, was = masked.elements.numpy().ravel()[at], masked.targets.numpy()
    n, same = len(at), 0.1 + 0.1 / len(ORDINARY)  # a random token may be the one that stood there
    assert within(int((now == MASK).sum()), n, 0.8)
    assert within(int((now == was).sum()), n, same)
    others = now[(now != MASK) & (now != was)]
    assert within(len(others), n, 0.2 - same)
    assert set(others) == set(ORDINARY.tolist()), "every ordinary token may stand in"


def test_every_place_and_row_is_asked_alike():
    masked = masking(0.5)(LARGE, 0, 0)
    rows, columns = np.divmod(at_of(masked), 256)
    for place in (rows, columns):
        counts = np.bincount(place, minlength=256)
        allowed = [np.isin(LARGE.elements.numpy(), ORDINARY).sum(axis) for axis in (1, 0)][
            place is columns
        ]
        assert all(within(int(c), int(n), 0.5) for c, n in zip(counts, allowed, strict=True))


BEGINS = np.arange(VOCABULARY) % 4 == 0


def words_of(rows: np.ndarray) -> list[list[int]]:
    """The flat positions of each word's ordinary tokens, by a loop."""
    found: list[list[int]] = []
    for r, row in enumerate(rows):
        found.append([])
        for t, token in enumerate(row):
            if BEGINS[token]:
                found.append([])
            if token in ORDINARY:
                found[-1].append(r * len(row) + t)
    return [word for word in found if word]


def test_words_are_asked_for_whole_or_not_at_all():
    small = batch(64, 64)
    chosen = set(at_of(masking(0.15, BEGINS)(small, 0, 0)).tolist())
    words = words_of(small.elements.numpy())
    asked = [word for word in words if chosen & set(word)]
    assert all(set(word) <= chosen for word in asked)
    assert max(map(len, asked)) > 3
    assert within(len(asked), len(words), 0.15)


@given(st.integers(0, 300), st.booleans())
def test_one_token_or_word_is_asked_for_however_short_the_text(step, whole):
    """Otherwise there would be nothing to learn from; and no more than one, or nothing would stay
    to be read."""
    short = Batch(torch.tensor([[4, 5, 6, 8, 9, 10]]))
    at = at_of(masking(1e-9, BEGINS if whole else None)(short, 0, step)).tolist()
    assert at in ([[0, 1, 2], [3, 4, 5]] if whole else [[i] for i in range(6)])


def test_which_one_is_asked_for_then_differs():
    short = Batch(torch.tensor([[4, 5, 6, 8, 9, 10]]))
    assert {at_of(masking(1e-9)(short, 0, step))[0] for step in range(100)} == set(range(6))


def test_padding_is_never_asked_for():
    ids = torch.full((2, 8), 3)
    masked = masking(0.99)(Batch(ids, Positions.pad([8, 2])), 0, 0)
    assert set(at_of(masked).tolist()) <= set(range(10))
    assert len(at_of(masked)) > 7
    assert masked.positions is not None


def test_a_text_of_special_symbols_alone_is_refused():
    with pytest.raises(DataError, match="no token that could be masked"):
        masking()(Batch(torch.tensor([[7, 48, 7]])), 0, 0)


def test_where_words_begin():
    pieces = ["cat", " cat", "Ä", "é", " é", "9", "_", "'t", ",", "\n", "ि", "字", "—", ""]
    expected = [
        False,
        True,
        False,
        False,
        True,
        False,
        True,
        True,
        True,
        True,
        False,
        False,
        True,
        True,
    ]
    assert word_begins([piece.encode() for piece in pieces]).tolist() == expected


def test_letters_of_several_bytes_are_in_their_words():
    """Cut into bytes, a letter is still in its word: kinds byte and bpe have such tokens."""
    tokenizer = Tokenizer(byte_definition())
    begins = word_begins([tokenizer.token_bytes(i) for i in range(tokenizer.vocab_size)])
    text = " naïve приве́т हिन्दी, no"
    ids = tokenizer.encode(text)
    starts = np.flatnonzero(begins[ids])
    words = [bytes(part.tolist()).decode() for part in np.split(ids, starts) if len(part)]
    assert words == [" naïve", " приве́т", " हिन्दी", ",", " no"]
