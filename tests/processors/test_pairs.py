"""Two sides as ids: the ends and beginnings that an encoder-decoder needs."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from glassformer.core.errors import ConfigError
from glassformer.processors.tokens.pair_tokenizer import PairTokenizer
from glassformer.tokenizers.config import TokenizerConfig
from glassformer.tokenizers.definition import ROLES
from glassformer.tokenizers.text import Tokenizer
from glassformer.tokenizers.train import train_tokenizer

TEXTS = [
    "the dog sleeps, a cat sings: the song\n" * 3,
    "der hund schläft, eine katze singt das lied\n" * 3,
]


def tokenizer(kind: str, text: int = 0) -> Tokenizer:
    return train_tokenizer(TokenizerConfig.parse({"kind": kind, "min_frequency": 1}), [TEXTS[text]])


PAIRS = {
    kind: PairTokenizer(tokenizer(kind, 0), tokenizer(kind, 1), "sing: ")
    for kind in ("byte", "character", "bpe")
}
texts = st.text("the dsin ,", max_size=12)


@pytest.mark.parametrize("kind", PAIRS)
@given(texts)
def test_a_side_is_its_text_and_the_end(kind, text):
    pair = PAIRS[kind]
    for side, own, prefix, ids in (
        ("source", pair.source, pair.prefix, pair.source_ids(text)),
        ("target", pair.target, "", pair.target_ids(text)),
    ):
        assert ids.dtype == np.int32, side
        assert ids[-1] == own.specials["eos"]
        assert own.decode(ids[:-1], skip_specials=False) == prefix + text
        assert own.decode(ids) == prefix + text, "the end is no text"
    assert (pair.bos, pair.eos) == (pair.target.specials["bos"], pair.target.specials["eos"])
    assert pair.bos != pair.eos


def test_an_end_in_the_text_ends_nothing():
    pair = PAIRS["byte"]
    ids = pair.target_ids("a<eos>b")
    assert ids.tolist().count(pair.eos) == 1
    assert pair.target.decode(ids) == "a<eos>b"


def test_one_vocabulary_is_known_by_what_it_is():
    one, same, other = tokenizer("character"), tokenizer("character"), tokenizer("character", 1)
    assert PairTokenizer(one, one).shared
    assert PairTokenizer(one, same).shared
    assert not PairTokenizer(one, other).shared


def without(role: str) -> Tokenizer:
    made = tokenizer("word")
    definition = dict(made.definition)
    definition["added_tokens"] = [
        t for t in definition["added_tokens"] if t["content"] != ROLES[role]
    ]
    return Tokenizer(definition)


@pytest.mark.parametrize(
    ("source", "target", "sentence"),
    [
        (
            "eos",
            None,
            "The source tokenizer has no eos symbol, without which a sequence has no end;",
        ),
        (
            None,
            "eos",
            "The target tokenizer has no eos symbol, without which a sequence has no end;",
        ),
        (
            None,
            "bos",
            "The target tokenizer has no bos symbol, without which a sequence has no beginning;",
        ),
    ],
)
def test_a_tokenizer_without_ends_is_refused(source, target, sentence):
    whole = tokenizer("word")
    with pytest.raises(ConfigError, match=sentence):
        PairTokenizer(without(source) if source else whole, without(target) if target else whole)


def test_a_source_needs_no_beginning():
    assert (
        PairTokenizer(without("bos"), tokenizer("word")).source_ids("dog")[-1]
        == without("bos").specials["eos"]
    )
