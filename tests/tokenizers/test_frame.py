"""Frames: what a post_processor puts around texts, as the library does it, and what it may not
say."""

import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import tokenizers
from glassformer.core.errors import DataError
from glassformer.tokenizers.definition import byte_definition
from glassformer.tokenizers.frame import Frame, read_frame
from glassformer.tokenizers.text import Tokenizer
from tokenizers import processors

SYMBOLS = ["<bos>", "<eos>", "<mask>"]
BYTES = Tokenizer(byte_definition())
IDS = {symbol: BYTES.specials[symbol.strip("<>")] for symbol in SYMBOLS}
KNOWN = range(BYTES.vocab_size)
GROUP = st.lists(st.tuples(st.sampled_from(SYMBOLS), st.integers(0, 3)), max_size=2)


def with_frame(post_processor) -> tuple[Tokenizer, tokenizers.Tokenizer]:
    """A tokenizer of bytes with this post-processor, and the same of the library."""
    library = tokenizers.Tokenizer.from_str(json.dumps(byte_definition()))
    library.post_processor = post_processor
    return Tokenizer(json.loads(library.to_str())), library


def named(group: list[tuple[str, int]]) -> list[str]:
    return [f"{symbol}:{kind}" for symbol, kind in group]


@given(*[GROUP] * 5, st.integers(0, 3), st.integers(0, 3), st.text("abé", max_size=4))
def test_any_template_frames_texts_as_the_library_does(a, b, c, d, e, first, second, text):
    ours, library = with_frame(
        processors.TemplateProcessing(
            single=[*named(a), "$A", *named(b)],
            pair=[*named(c), f"$A:{first}", *named(d), f"$B:{second}", *named(e)],
            special_tokens=list(IDS.items()),
        )
    )
    if not any((a, b, c, d, e)):  # adds no symbol
        assert ours.frame is None
        return
    ids = ours.encode(text)
    assert ours.frame.one(ids).tolist() == library.encode(text).ids
    found, types = ours.frame.pair(ids, ours.encode("xy"))
    expected = library.encode(text, "xy")
    assert (found.tolist(), types.tolist()) == (expected.ids, expected.type_ids)
    assert len(found) == len(ids) + 2 + ours.frame.pair_size
    assert found.dtype == np.int32


@pytest.mark.parametrize(
    "kind",
    [
        lambda cls, sep: processors.BertProcessing(sep, cls),
        lambda cls, sep: processors.RobertaProcessing(sep, cls),
        lambda cls, sep: processors.Sequence(
            [processors.ByteLevel(), processors.BertProcessing(sep, cls)]
        ),
    ],
)
def test_the_frames_of_bert_and_roberta_are_the_librarys(kind):
    ours, library = with_frame(kind(("<bos>", IDS["<bos>"]), ("<eos>", IDS["<eos>"])))
    expected = library.encode("ab", "c")
    found, types = ours.frame.pair(ours.encode("ab"), ours.encode("c"))
    assert (found.tolist(), types.tolist()) == (expected.ids, expected.type_ids)
    assert ours.frame.one(ours.encode("ab")).tolist() == library.encode("ab").ids


def test_our_own_tokenizers_define_no_frame_and_get_one_of_their_roles():
    assert BYTES.frame is None
    assert with_frame(processors.ByteLevel())[0].frame is None
    begin, end = BYTES.specials["bos"], BYTES.specials["eos"]
    frame = BYTES.frame_or("bos", "eos")
    assert frame == Frame((begin,), (end,), (begin,), (end,), (end,), (0, 0, 0, 1, 1))
    assert BYTES.frame_or("", "eos").begin == ()
    assert BYTES.frame_or("", "") == Frame(types=(0, 1))


SYMBOL = {"SpecialToken": {"id": "<bos>", "type_id": 0}}
TEXT = {"Sequence": {"id": "A", "type_id": 0}}
OTHER = {"Sequence": {"id": "B", "type_id": 0}}


def template(**changes):
    own = {
        "type": "TemplateProcessing",
        "single": [SYMBOL, TEXT],
        "pair": [TEXT, OTHER],
        "special_tokens": {"<bos>": {"id": "<bos>", "ids": [7], "tokens": ["<bos>"]}},
    }
    return own | changes


DEEP = {"type": "ByteLevel"}
for _ in range(3000):
    DEEP = {"type": "Sequence", "processors": [DEEP]}


@pytest.mark.parametrize(
    "damaged",
    [
        3,
        {},
        {"type": "Magic"},
        {"type": "BertProcessing", "cls": ["a"], "sep": ["b", 1]},
        {"type": "RobertaProcessing", "cls": ["a", -1], "sep": ["b", 1]},
        template(single=[SYMBOL]),
        template(single=[TEXT, TEXT]),
        template(pair=[OTHER, TEXT]),
        template(special_tokens={}),
        template(special_tokens={"<bos>": {"ids": ["7"]}}),
        template(single=[{**SYMBOL, **TEXT}]),
        DEEP,
    ],
)
def test_a_damaged_post_processor_is_one_sentence(damaged):
    with pytest.raises(DataError, match=r"cannot read the post_processor of x\.json: "):
        read_frame({"post_processor": damaged}, KNOWN, "x.json")


def test_a_frame_has_only_ids_of_the_vocabulary():
    given_frame = {"post_processor": template()}
    assert read_frame(given_frame, KNOWN, "x").begin == (7,)
    with pytest.raises(DataError, match="x puts the id 7 around a text"):
        read_frame(given_frame, range(7), "x")
