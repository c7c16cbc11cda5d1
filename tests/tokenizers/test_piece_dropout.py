"""Other pieces for the same words: the same bytes always, the tokenizer's own without dropout, the
same for a step."""

import string
from collections import Counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from glassformer.core.errors import ConfigError
from glassformer.processors.tokens.sequence_builder import SequenceBuilder
from glassformer.tokenizers.config import TokenizerConfig
from glassformer.tokenizers.piece_dropout import VARIANTS, PieceDropout
from glassformer.tokenizers.train import train_tokenizer

TEXTS = [
    "the cats sleep where the cat slept",
    "sleeping cats dream of other cats",
    "größer, größte; 12 or 123?",
] * 9
BPE = train_tokenizer(TokenizerConfig.parse({"kind": "bpe", "vocab_size": 330}), TEXTS)
WORDS = st.lists(
    st.text(string.ascii_lowercase + "ß猫", min_size=1, max_size=12), min_size=1, max_size=8
)


def framed(text: str) -> np.ndarray:
    specials = BPE.specials
    return np.concatenate([[specials["bos"]], BPE.encode(text), [specials["eos"]]]).astype(np.int32)


def spelled(ids: np.ndarray) -> bytes:
    return b"".join(BPE.token_bytes(i) for i in ids.tolist())


@given(st.text(max_size=40), st.floats(0, 0.99), st.integers(0, 9), st.integers(0, 2**40))
def test_bytes_and_special_symbols_stay(text, probability, step, number):
    ids = framed(text)
    new = PieceDropout(BPE, probability, 3)(ids, step, number)
    assert spelled(new.ids) == text.encode() == spelled(ids)
    assert (new.ids[0], new.ids[-1]) == (ids[0], ids[-1])
    assert new.ids.dtype == np.int32


@given(WORDS)
def test_without_dropout_the_pieces_are_the_tokenizers_own(words):
    ids = framed(" ".join(words))
    assert PieceDropout(BPE, 0.0, 0)(ids, 5, 6).ids.tolist() == ids.tolist()


@given(
    st.lists(st.text(min_size=1, max_size=8).filter(str.strip), min_size=1, max_size=8),
    st.integers(0, 99),
)
def test_the_last_and_the_first_piece_of_each_word_are_found_again(words, step):
    (window,) = SequenceBuilder(BPE, 4096).windows(words)
    new = PieceDropout(BPE, 0.5, 0)(window.example.ids, step, 0)
    ends = new.places(window.example.at)
    begins = [1, *(ends[:-1] + 1)]
    found = [
        spelled(new.ids[begin : end + 1]).decode() for begin, end in zip(begins, ends, strict=True)
    ]
    assert found == [f" {word}" for word in words]
    (first,) = SequenceBuilder(BPE, 4096, word_at="first").windows(words)
    assert new.places(first.example.at, "first").tolist() == begins


def test_what_is_said_of_a_word_is_said_of_its_new_pieces():
    ids = np.concatenate([framed("sleeping cats"), framed("größer")])
    kinds = np.repeat([0, 1], [len(framed("sleeping cats")), len(framed("größer"))])
    new = PieceDropout(BPE, 0.6, 1)(ids, 0, 0)
    spread = new.spread(kinds)
    assert len(spread) == len(new.ids) > len(ids)
    assert [spelled(new.ids[spread == kind]).decode() for kind in (0, 1)] == [
        "sleeping cats",
        "größer",
    ]


def test_cuts_are_a_function_of_seed_step_and_example():
    ids = framed("sleeping cats dream of sleeping cats")

    def cut(seed: int, step: int, number: int) -> list[int]:
        return PieceDropout(BPE, 0.4, seed)(ids, step, number).ids.tolist()

    assert cut(0, 1, 2) == cut(0, 1, 2)
    assert len({tuple(cut(*key)) for key in ((0, 1, 2), (1, 1, 2), (0, 2, 2), (0, 1, 3))}) == 4
    one = PieceDropout(BPE, 0.4, 0)
    for step in range(20):
        one(ids, step, 1)
    assert one(ids, 1, 2).ids.tolist() == cut(0, 1, 2)  # whatever was cut before


def test_merges_are_left_out_as_often_as_asked():
    """A word of two characters with one merge stays whole with probability 1 - p."""
    pair = train_tokenizer(TokenizerConfig.parse({"kind": "bpe", "vocab_size": 261}), ["ab ab ab"])
    ids = pair.encode("ab")
    assert len(ids) == 1
    lengths = Counter()
    for seed in range(60):  # of each seed 32 cuts, so 1,920 draws: 5 sigma are 0.05
        cut = PieceDropout(pair, 0.3, seed)
        lengths.update({v: len(cut._cut((int(ids[0]),), v)) for v in range(VARIANTS)}.values())
    assert lengths[2] / (60 * VARIANTS) == pytest.approx(0.3, abs=0.055)
    assert set(lengths) == {1, 2}


def test_an_endless_word_stays_as_it_is():
    ids = BPE.encode("x" * 5000)
    assert PieceDropout(BPE, 0.5, 0)(ids, 0, 0).ids.tolist() == ids.tolist()


def test_other_kinds_are_refused():
    words = train_tokenizer(TokenizerConfig.parse({"kind": "word"}), TEXTS)
    with pytest.raises(
        ConfigError, match=r"piece_dropout .* the tokenizer is of kind word; use kind bpe"
    ):
        PieceDropout(words, 0.1, 0)
