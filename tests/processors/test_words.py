"""Words to tokens: pieces never cross words, and every word is found again where `at` says,
whatever the tokenizer."""

import json
from functools import cache
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from glassformer.core.errors import ConfigError
from glassformer.processors.tokens.sequence_builder import SequenceBuilder, placeholder
from glassformer.processors.tokens.word_spans import split_punctuation
from glassformer.tokenizers.config import TokenizerConfig
from glassformer.tokenizers.definition import byte_definition
from glassformer.tokenizers.text import Tokenizer
from glassformer.tokenizers.train import train_tokenizer
from tokenizers import Tokenizer as Library
from tokenizers import models, pre_tokenizers, trainers

KINDS = ["byte", "character", "word", "bpe", "wordpiece", "bare"]
TEXT = (
    "The naïve cat doesn't sleep, it sat on 12 mats — der Kater schläft nicht. Die Katze "
    "auch nicht!"
)
WORDS = st.lists(
    st.text(st.characters(exclude_categories=["Cs"]), max_size=12), min_size=1, max_size=12
)


@cache
def tokenizer(kind: str) -> Tokenizer:
    if (
        kind == "wordpiece"
    ):  # somebody else's, with [UNK] but nothing that begins or ends a sequence
        made = Library(models.WordPiece({"[UNK]": 0}, unk_token="[UNK]"))
        made.pre_tokenizer = pre_tokenizers.Whitespace()
        made.train_from_iterator(
            [TEXT] * 3, trainers.WordPieceTrainer(special_tokens=["[UNK]"], vocab_size=80)
        )
        return Tokenizer(json.loads(made.to_str()))
    if kind == "bare":  # bytes without any special symbol
        definition = byte_definition()
        return Tokenizer({**definition, "added_tokens": []})
    size = {"bpe": 300}.get(kind)
    return train_tokenizer(TokenizerConfig.parse({"kind": kind, "vocab_size": size}), [TEXT] * 3)


@pytest.mark.parametrize("kind", KINDS)
@given(words=WORDS)
def test_at_is_the_last_piece_of_each_word(kind, words):
    text = tokenizer(kind)
    found = SequenceBuilder(text, 4096).windows(words)
    assert len(found) == 1
    ids, at = found[0].example.ids, found[0].example.at
    assert (found[0].units, len(at)) == (slice(0, len(words)), len(words))
    first = 1 if "bos" in text.specials else 0
    borders = [first, *(at + 1).tolist()]
    for i, word in enumerate(words):
        pieces, alone = ids[borders[i] : borders[i + 1]], text.encode(f" {word}")
        assert len(pieces) >= 1
        if len(alone):
            assert pieces.tolist() == alone.tolist()
        else:
            assert pieces.tolist() == [text.specials["unk"]]
        if text.reversible and text.kind != "character":
            assert text.decode(pieces) == f" {word}"
    rest = ids[borders[-1] :].tolist()
    assert rest == ([text.specials["eos"]] if "eos" in text.specials else [])
    if first:
        assert ids[0] == text.specials["bos"]


@given(words=st.lists(st.text(sorted(set(TEXT) - {" "})), min_size=1, max_size=12))
def test_words_of_known_characters_come_back(words):
    text = tokenizer("character")
    (found,) = SequenceBuilder(text, 4096).windows(words)
    borders = [1, *(found.example.at + 1).tolist()]
    assert [text.decode(found.example.ids[a:b]) for a, b in pairwise(borders)] == [
        f" {w}" for w in words
    ]


@pytest.mark.parametrize("kind", ["word", "wordpiece"])
@pytest.mark.parametrize("word", ["", "\u2003", "\x85"])
def test_a_word_that_the_tokenizer_has_nothing_for_is_one_unknown(kind, word):
    text = tokenizer(kind)
    assert len(text.encode(f" {word}")) == 0
    assert SequenceBuilder(text, 16).pieces(word).tolist() == [text.specials["unk"]]


def test_a_tokenizer_with_no_symbol_for_it_is_refused():
    with pytest.raises(
        ConfigError, match="neither a piece for every word nor <unk>; train one of kind bpe or byte"
    ):
        placeholder(tokenizer("bare"))


@pytest.mark.parametrize("kind", KINDS)
@settings(max_examples=15)
@given(words=WORDS, longest=st.integers(6, 20), share=st.floats(0, 0.99))
def test_windows_of_a_long_document(kind, words, longest, share):
    """Each word once, in order, with the pieces it has anywhere; and no window longer than the
    model."""
    text, room = tokenizer(kind), longest - 2
    cut = SequenceBuilder(text, longest, int(share * room))
    found = cut.windows(words)
    numbers = range(len(words))
    assert [i for window in found for i in numbers[window.units]] == list(numbers)
    for window in found:
        ids, places = window.example.ids, window.example.at
        assert len(ids) <= longest
        assert places.tolist() == sorted(set(places.tolist()))
        for i, at in zip(numbers[window.units], places, strict=True):
            own = cut.pieces(words[i])
            assert ids[at + 1 - len(own) : at + 1].tolist() == own.tolist()
    whole = SequenceBuilder(text, 4096)
    assert (len(found) == 1) == (
        sum(len(cut.pieces(word)) for word in words) <= longest - cut.frame.size
    )
    if len(found) == 1 and all(len(whole.pieces(word)) <= cut.longest_word for word in words):
        assert found[0].example.ids.tolist() == whole.windows(words)[0].example.ids.tolist()


def test_of_a_word_beyond_half_a_window_both_ends_are_read():
    cut = SequenceBuilder(tokenizer("byte"), 12)
    assert bytes(cut.pieces("abcdefghij").tolist()) == b" ahij"
    assert len(cut.pieces("abcdefghij")) == (12 - 2) // 2
    assert bytes(cut.pieces("abcd").tolist()) == b" abcd"


def test_no_words_are_no_window():
    assert SequenceBuilder(tokenizer("byte"), 12).windows([]) == []


def test_more_words_than_are_remembered(monkeypatch):
    words = [str(i) for i in range(50)]
    (expected,) = SequenceBuilder(tokenizer("byte"), 4096).windows(words)
    monkeypatch.setattr("glassformer.processors.tokens.sequence_builder.MOST_KNOWN", 7)
    cut = SequenceBuilder(tokenizer("byte"), 4096)
    (found,) = cut.windows(words)
    assert np.array_equal(found.example.ids, expected.example.ids)
    assert len(cut._known) == 7


@pytest.mark.parametrize(("longest", "overlap"), [(3, None), (12, 10), (12, 11)])
def test_no_room(longest, overlap):
    with pytest.raises(
        ConfigError, match=f"leaves no room in a model of {longest} elements; make it smaller, or"
    ):
        SequenceBuilder(tokenizer("byte"), longest, overlap).windows(["a"])


def test_punctuation_is_split_as_the_word_tokenizer_splits_it():
    """Every character up to U+2E42, where Unicode is older than the library's table, in the middle
    of a word."""
    rule = pre_tokenizers.Sequence(
        [pre_tokenizers.WhitespaceSplit(), pre_tokenizers.Punctuation("isolated")]
    )
    newer = {
        0x61D,
        0x9FD,
        0xA76,
        0xC77,
        0xC84,
        0x166D,
        0x1B7D,
        0x1B7E,
        *range(0x1C, 0x20),
    }  # or white space to Python
    for i in range(0x2E43):
        if i not in newer:
            text = f"a{chr(i)}b"
            assert split_punctuation(text) == [piece for piece, _ in rule.pre_tokenize_str(text)], (
                hex(i)
            )


@given(st.text(st.characters(exclude_categories=["Cs"])))
def test_split_punctuation_keeps_every_character_but_white_space(text):
    assert "".join(split_punctuation(text)) == "".join(text.split())
    assert all(split_punctuation(word) == [word] for word in split_punctuation(text))


def test_examples_of_split_punctuation():
    assert split_punctuation(" Don't stop... (naïve—3,5)\t") == (
        ["Don", "'", "t", "stop", ".", ".", ".", "(", "naïve", "—", "3", ",", "5", ")"]
    )
    assert split_punctuation("  ") == []
