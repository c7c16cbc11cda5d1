"""Texts and pairs as sequences: framed, never longer than the model, nothing left out."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from glassformer.core.errors import ConfigError
from glassformer.processors.tokens.sequence_builder import SequenceBuilder
from glassformer.tokenizers.config import TokenizerConfig
from glassformer.tokenizers.definition import byte_definition, word_definition
from glassformer.tokenizers.text import Tokenizer
from glassformer.tokenizers.train import train_tokenizer

BYTES = Tokenizer(byte_definition())
BOS, EOS = BYTES.specials["bos"], BYTES.specials["eos"]
TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=40)
LONGEST = st.integers(5, 30)


def sequences(builder, *sides):
    return [window.example for window in builder.windows(*sides)]


def test_a_text_and_a_pair():
    (one,) = sequences(SequenceBuilder(BYTES, 64), "ab")
    assert one.ids.tolist() == [BOS, *b"ab", EOS]
    assert one.token_type_ids is None
    (pair,) = sequences(SequenceBuilder(BYTES, 64), "ab", "c")
    assert pair.ids.tolist() == [BOS, *b"ab", EOS, *b"c", EOS]
    assert pair.token_type_ids.tolist() == [0, 0, 0, 0, 1, 1]


@given(TEXT, LONGEST, st.integers(0, 9))
def test_the_windows_of_a_text(text, longest, overlap):
    raw = text.encode()
    overlap = min(overlap, (longest - 3) // 2 - 1)
    if overlap < 0:
        return
    found = sequences(SequenceBuilder(BYTES, longest, overlap), text)
    assert (len(found) == 1) == (len(raw) <= longest - 2)
    joined = b""
    for i, part in enumerate(found):
        assert len(part.ids) <= longest
        assert (part.ids[0], part.ids[-1]) == (BOS, EOS)
        inside = bytes(part.ids[1:-1].tolist())
        shared = overlap if i else 0
        assert joined.endswith(inside[:shared])
        joined += inside[shared:]
    assert joined == raw


@given(TEXT, TEXT, LONGEST)
def test_the_windows_of_a_pair(text, other, longest):
    """On each side the windows go from the beginning to the end, in order and without a gap."""
    sides, found = (
        (text.encode(), other.encode()),
        sequences(SequenceBuilder(BYTES, longest), text, other),
    )
    room = longest - 3
    assert (len(found) == 1) == (sum(map(len, sides)) <= room)
    reached = [0, 0]
    for part in found:
        assert len(part.ids) <= longest
        assert part.token_type_ids.tolist() == sorted(part.token_type_ids.tolist())
        left, right = (
            part.ids[part.token_type_ids == 0].tolist(),
            part.ids[part.token_type_ids == 1].tolist(),
        )
        assert (left[0], left[-1], right[-1]) == (BOS, EOS, EOS)
        for i, (whole, inside) in enumerate(
            zip(sides, (bytes(left[1:-1]), bytes(right[:-1])), strict=True)
        ):
            places = [at for at in range(len(whole) + 1) if whole.startswith(inside, at)]
            assert any(
                at <= reached[i] <= at + len(inside) or at + len(inside) == reached[i]
                for at in places
            )
            reached[i] = max(reached[i], *(at + len(inside) for at in places if at <= reached[i]))
    assert reached == [len(side) for side in sides]


def test_a_short_side_is_read_whole_beside_each_window_of_the_long_one():
    found = sequences(SequenceBuilder(BYTES, 23, 4), "?" * 3, "abcdefghijklmnopqrstuvwxyz")
    assert [bytes(part.ids[part.token_type_ids == 0].tolist()[1:-1]) for part in found] == [
        b"???"
    ] * len(found)
    assert [bytes(part.ids[part.token_type_ids == 1].tolist()[:-1]) for part in found] == [
        b"abcdefghijklmnopq",
        b"nopqrstuvwxyz",
    ]
    swapped = sequences(SequenceBuilder(BYTES, 23, 4), "abcdefghijklmnopqrstuvwxyz", "?" * 3)
    assert [bytes(part.ids[part.token_type_ids == 0].tolist()[1:-1]) for part in swapped] == [
        b"abcdefghijklmnopq",
        b"nopqrstuvwxyz",
    ]


@pytest.mark.parametrize("kind", ["byte", "character", "word", "bpe"])
@pytest.mark.parametrize("text", ["", "   ", "cat sat", "\u2003"])
def test_every_text_is_a_sequence_with_elements(kind, text):
    tokenizer = train_tokenizer(TokenizerConfig.parse({"kind": kind}), ["the cat sat"] * 3)
    for sides in ((text,), (text, ""), ("", text)):
        (found,) = sequences(SequenceBuilder(tokenizer, 16), *sides)
        assert len(found.ids) >= 1
        assert found.ids.dtype == np.int32


@pytest.mark.parametrize("sides", [("",), ("", ""), ("cat", "")])
def test_without_symbols_around_it_an_empty_text_is_an_unknown(sides):
    definition = word_definition(["cat"], lowercase=False)
    definition["added_tokens"] = definition["added_tokens"][:1]
    tokenizer = Tokenizer(definition)
    assert set(tokenizer.specials) == {"unk"}
    (found,) = sequences(SequenceBuilder(tokenizer, 16), *sides)
    assert found.ids.tolist() == [0 if side else 1 for side in sides]


@pytest.mark.parametrize(("longest", "overlap"), [(4, None), (13, 5)])
def test_no_room(longest, overlap):
    with pytest.raises(
        ConfigError, match=f"leaves no room in a model of {longest} elements; make it smaller, or"
    ):
        sequences(SequenceBuilder(BYTES, longest, overlap), "a")
